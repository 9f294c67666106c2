"""The first sentences of a bench, its marks of few seeds, and its page in HTML."""

from __future__ import annotations

import re
from dataclasses import replace

from arms import arm, before
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.blocks import block
from outrider.bench.content import content
from outrider.bench.crossed import Estimate
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm
from outrider.bench.spec import Bench
from outrider.bench.verdict import quantities, verdict
from outrider.measure import Interval
from outrider.report.page import render

ENVIRONMENT = {"command": ["x", "bench"], "versions": {}, "started": "", "platform": "", "git": None}
LEVEL, HIGHER, LOWER = [1, 2, 1, 2, 1, 2], [2, 3, 2, 3, 2, 4], [0, 1, 0, 1, 0, 1]


def bench(*arms: Arm, base: str = "a", seeds: int = 3, start: list[int] | None = None) -> BenchReport:
    names = [each.name for each in arms]
    options = Bench(recipes=sorted({*names, base}), base=base, seeds=seeds, tokens=2000, points=1)
    first = before(LEVEL if start is None else start)
    return BenchReport(options, first, first, arms, {}, ())


def runs(successes: list[int], seeds: int = 3) -> list[list[int]]:
    """Seeds that differ a little: the last has a success less on the first problem that has one."""
    rows = [list(successes) for _ in range(seeds)]
    if seeds > 1:
        place = next((i for i, c in enumerate(successes) if c), 0)
        rows[-1][place] = max(successes[place] - 1, 0)
    return rows


def test_the_first_sentence_names_the_recipe_that_is_ahead_with_its_interval() -> None:
    found = bench(arm("a", runs(LEVEL)), arm("b", runs(LEVEL)), arm("c", runs(HIGHER)), arm("d", runs(LOWER)))
    change = found.against_base(found.arms[2], "pass@1")
    first, *rest, trust = verdict(found)
    ends = f"{100 * change.low:.1f} to {100 * change.high:.1f}"
    assert first.startswith(f"`c` is ahead of `a` in pass@1 by {100 * change.value:.1f} points (95 % CI {ends})")
    assert [sentence.split()[:4] for sentence in rest] == [
        ["`b`", "is", "not", "significantly"],
        ["`d`", "is", "behind", "`a`"],
    ]
    assert "3 seeds per recipe, 6 held-out problems, 2,000 generated tokens per run" in trust
    assert "6 comparisons" in trust
    assert "Confirm a difference with new seeds: `--first-seed 3`." in trust


def test_the_largest_change_in_pass_at_1_comes_first_and_pass_at_k_only_without_one() -> None:
    most = [4, 4, 4, 4, 4, 4]
    two = bench(arm("a", runs(LEVEL)), arm("b", runs(HIGHER)), arm("c", runs(most)))
    assert verdict(two)[0].startswith("`c` is ahead of `a` in pass@1")
    wide = bench(arm("a", runs([4, 0] * 9)), arm("b", runs([2, 2] * 9)), start=[0] * 18)
    assert re.match(
        r"`b` is ahead of `a` in pass@4 by .*, and is not significantly different from `a` in pass@1", verdict(wide)[0]
    )


def test_no_recipe_ahead_is_the_first_sentence() -> None:
    found = bench(arm("a", runs(LEVEL)), arm("d", runs(LOWER)))
    first, second, _ = verdict(found)
    assert first == "No recipe is significantly better than `a` in pass@1 or pass@4."
    assert second.startswith("`d` is behind `a` in pass@1 by ")


ROWS = st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=3, max_size=3)


@given(ROWS, ROWS)
def test_every_quantity_is_ahead_behind_or_neither_by_its_interval(
    one: list[list[int]], other: list[list[int]]
) -> None:
    found = bench(arm("a", one), arm("b", other), start=[1, 2, 1, 2])
    told = next(sentence for sentence in verdict(found) if sentence.startswith("`b`")).split(" It gains")[0]
    said: dict[str, str] = {}
    for clause in re.split(r", and (?=is )", told):
        kind = re.search(r"is (ahead of|behind|not significantly different from) `a`", clause)
        assert kind is not None
        said |= dict.fromkeys(re.findall(r"pass@\d", clause), kind[1])
    for quantity in quantities(found):
        change = found.against_base(found.arms[1], quantity)
        expected = "ahead of" if change.low > 0 else "behind" if change.high < 0 else "not significantly different from"
        assert said[quantity] == expected


def test_the_gain_is_placed_by_the_pass_rate_before_training() -> None:
    """Problems that were never solved rise; those that were often solved stay."""
    start = [0] * 9 + [2] * 3
    base, better = start, [2, 3, 2] * 3 + [2] * 3
    found = bench(arm("a", runs(base)), arm("b", runs(better)), start=start)
    change = found.by_rate_against_base(found.arms[1])["never"]
    assert change.low > 0
    [first, *_] = verdict(found)
    assert (
        "The largest gain in pass@1 is on the 9 problems that were never solved before training: "
        f"+{100 * change.value:.1f}" in first
    )


def test_few_seeds_are_said() -> None:
    one = bench(arm("a", runs(LEVEL, 1)), arm("b", runs(HIGHER, 1)), seeds=1)
    assert verdict(one)[0] == "With one seed per recipe, this comparison cannot show which recipe is better."
    assert not any("ahead" in sentence or "behind" in sentence for sentence in verdict(one))
    changes = [sentence for sentence in verdict(one) if sentence.endswith("from before training.")]
    assert [sentence.split("`")[1] for sentence in changes] == ["a", "b"]
    assert "`b` changes pass@1 by +" in changes[1]
    # 16 successes of b and 9 of a, in 4 samples of each of 6 problems
    assert f"In these runs, `b` minus `a` is {100 * 7 / 24:+.1f} points in pass@1 (" in " ".join(verdict(one))
    two = bench(arm("a", runs(LEVEL, 2)), arm("b", runs(HIGHER, 2)), seeds=2)
    assert "87.5 %" in verdict(two)[-1]
    assert "87.5 %" not in verdict(bench(arm("a", runs(LEVEL)), arm("b", runs(HIGHER))))[-1]


def test_a_recipe_with_failed_seeds_says_how_many_it_has() -> None:
    found = bench(arm("a", runs(LEVEL)), arm("b", runs(HIGHER, 2), seeds=(0, 2)))
    assert "(2 of 3 seeds)" in verdict(found)[0]


def test_fewer_than_three_finished_seeds_are_said_although_more_were_asked_for() -> None:
    found = bench(arm("a", runs(LEVEL)), arm("b", runs(HIGHER, 2), seeds=(0, 2)))
    assert "Two seeds are few" in verdict(found)[-1]


def test_one_finished_seed_in_common_ranks_nothing() -> None:
    alone = arm("b", runs(HIGHER, 1), seeds=(1,))
    first, told = verdict(bench(arm("a", runs(LEVEL)), alone))
    assert first.startswith("No recipe has two finished seeds in common with `a`: ")
    assert told.startswith("In these runs, `b` minus `a` is ")
    assert told.endswith(" (1 of 3 seeds).")
    beside = verdict(bench(arm("a", runs(LEVEL)), alone, arm("c", runs(HIGHER))))
    assert beside[0].startswith("`c` is ahead of `a`")
    assert not any("`b` is" in sentence for sentence in beside)


def test_one_recipe_is_told_with_its_seeds() -> None:
    for seeds, said in ((1, "One seed: "), (2, "Two seeds are few: ")):
        assert said in verdict(bench(arm("a", runs(HIGHER, seeds)), seeds=seeds))[-1]
    assert verdict(bench(arm("a", runs(HIGHER))))[-1].endswith("2,000 generated tokens per run.")


def test_without_the_base_each_recipe_is_compared_with_before_training() -> None:
    found = bench(arm("b", runs(HIGHER)))
    assert re.match(r"`b` changes pass@1 by \+\d", verdict(found)[0])
    assert verdict(replace(found, arms=())) == ["No run is finished."]


def test_a_number_is_marked_by_its_own_seeds_and_the_note_says_why() -> None:
    def seeds(n: int) -> Estimate:
        return Estimate(0.5, 0.4, 0.6, n, 9)

    nothing = Estimate(float("nan"), float("nan"), float("nan"), 1, 0)
    made = block("t", "T", ["r", "x", "y"], [["a", seeds(1), seeds(3)], ["b", seeds(2), Interval(0.5, 0, 1, 9)]], "So.")
    assert made.marked == [(0, 1), (1, 1)]
    assert made.note.startswith("So. † One seed: ")
    assert "† Two seeds: " in made.note
    assert block("t", "T", ["r", "x"], [["a", seeds(5)], ["b", nothing]]).marked == []


def test_the_page_in_html_begins_with_the_verdict_and_marks_what_is_marked() -> None:
    for count in (2, 3):
        found = bench(arm("a", runs(LEVEL, count)), arm("b", runs(HIGHER, count)), seeds=count)
        made = content(found, ENVIRONMENT)
        html = render(made)
        headline = html.split('<div class="headline">')[1]
        assert headline.startswith("<p><code>b</code> is ahead of <code>a</code> in pass@1 by ")
        assert made.opening is not None
        tables = [*made.opening.tables, *(table for section in made.sections for table in section.tables)]
        marked = sum(len(table.marked) for table in tables)
        assert html.count("<sup>†</sup>") == marked
        assert (marked > 0) == (count == 2)
        assert 'id="findings"' not in html
