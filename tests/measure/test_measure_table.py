"""The tables that people read: they fit, lose nothing, and mark what is uncertain."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from outrider.measure import Evaluation, Interval, compare, evaluate
from outrider.measure.table import as_markdown, as_table
from outrider.record import Outcome, Problem, Rollout, Verdict, correct, incorrect

NO_IDS = np.zeros(0, np.int32)


def response(problem, verdict):
    tokens = np.zeros(3, np.int32)
    entropies = np.full(3, 0.25, np.float32)
    return Rollout(problem, "g", 0, NO_IDS, tokens, entropies, NO_IDS, entropies_T=entropies, verdict=verdict)


def evaluation(successes, samples=16, greedy=True, timeouts=0) -> Evaluation:
    """Problem i has ``successes[i]`` successes; the last ``timeouts`` problems have a sample that timed out."""
    held = [Problem(str(i), "", level=str(3 + i % 2)) for i in range(len(successes))]
    sampled = []
    for i, c in enumerate(successes):
        failures = samples - c
        lost = i >= len(successes) - timeouts
        sampled += [response(str(i), correct("1"))] * c + [response(str(i), incorrect("2"))] * (failures - lost)
        sampled += [response(str(i), Verdict(Outcome.TIMEOUT, float("nan")))] * lost
    decoded = [response(p.id, correct("1")) for p in held] if greedy else []
    return evaluate(held, sampled, decoded, resamples=200)


def rendered(result, width=100, **options):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(as_table(result, **options))
    return console.file.getvalue()


WEAK, STRONG = evaluation([1, 2, 3, 4, 5, 0] * 4), evaluation([9, 9, 8, 12, 11, 3] * 4, timeouts=3)


@pytest.mark.parametrize("result", [WEAK, STRONG, compare(WEAK, STRONG)])
def test_fits_a_hundred_columns_on_one_line_per_row(result):
    text = rendered(result, title="Countdown")
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 100
    overall = result.overall if isinstance(result, Evaluation) else result.after.overall
    row = next(line for line in text.splitlines() if f"{overall.pass_at[1].value:.3f} ±" in line)
    for column in (overall.pass_at[8], overall.pass_at[16], overall.greedy):
        assert f"{column.value:.3f}" in row


@pytest.mark.parametrize("result", [WEAK, STRONG, compare(WEAK, STRONG)])
def test_a_narrow_terminal_folds_and_loses_no_digit(result):
    assert "…" not in rendered(result, width=80)
    for interval in result.overall.pass_at[1], result.overall.pass_at[16]:
        assert f"{abs(interval.value):.3f}" in rendered(result, width=80)


def test_spread_is_half_of_the_interval():
    changed = replace(WEAK.overall, greedy=Interval(0.5, 0.4, 0.62, WEAK.overall.problems))
    assert "0.500 ±.110" in rendered(replace(WEAK, overall=changed))


def test_numbers_on_fewer_problems_carry_a_dagger_and_the_reason():
    """Three problems lost a sample to a timeout, so pass@16 cannot be known for them."""
    text = rendered(STRONG)
    value = STRONG.overall.pass_at[16]
    assert value.problems == 21
    assert f"{value.value:.3f}†±" in text
    assert "† on fewer problems" in text
    assert "3 timeouts" in text
    assert "†" not in rendered(WEAK)


def test_what_was_not_measured_is_a_dash_not_a_zero():
    undecoded = evaluation([1, 2], greedy=False)
    overall = next(line for line in rendered(undecoded).splitlines() if line.strip().startswith("all"))
    assert "—" in overall
    assert as_markdown(undecoded).count("| — |") == 3  # two levels and all


def spans(table):
    """Text and style of every part of the table's cells."""
    cells = [cell for column in table.columns for cell in column.cells]
    return {(cell.plain[s.start : s.end], s.style) for cell in cells for s in cell.spans}


def test_only_a_certain_change_is_coloured():
    """All gain: green. All lose: red. One level gains, one loses: both. Each level half and half: neither."""
    value = compare(WEAK, STRONG).overall.pass_at[1].value
    assert (f"{value:+.3f}", "bold green") in spans(as_table(compare(WEAK, STRONG)))
    assert (f"{-value:+.3f}", "bold red") in spans(as_table(compare(STRONG, WEAK)))

    def colours(before, after):
        styles = {style for _, style in spans(as_table(compare(evaluation(before), evaluation(after))))}
        return styles & {"bold green", "bold red"}

    assert colours([1, 9] * 4, [9, 1] * 4) == {"bold green", "bold red"}
    assert colours([1, 1, 9, 9] * 4, [9, 9, 1, 1] * 4) == set()


def test_markdown_is_one_table_with_certain_changes_in_bold():
    lines = as_markdown(compare(WEAK, STRONG)).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in table} == {10}
    assert len(table) == 2 + 3 * 3  # head, rule, three lines for two levels and all
    change = compare(WEAK, STRONG).overall.pass_at[1]
    assert f"**{change.value:+.3f}** ±" in table[-1]
    assert "| before |" in table[-3]
    assert not any("**" in line for line in table if "change" not in line)


def test_unpaired_problems_are_admitted():
    other = evaluation([5] * 10)
    assert "14 problems are in one evaluation only" in rendered(compare(WEAK, other))


@pytest.mark.parametrize("empty", [evaluate([], []), evaluate([Problem("a", "")], [], resamples=0)])
def test_nothing_to_show_is_shown_as_nothing(empty):
    assert "all" in rendered(empty)
    assert "nan" not in rendered(empty)
    assert "nan" not in as_markdown(empty)
