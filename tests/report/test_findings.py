"""Findings: each by its own illness and by nothing else, quiet in health, and honest about what they lack."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pathologies
import pytest
from pathologies import PATHOLOGIES, POOL, ROWS, STEPS, draft, evaluation, finish, healthy, run_of

from outrider.config.load import list_recipes, load_recipe
from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings import CHECKS, Examined, Lacking, examine
from outrider.report.findings.base import Z, change, level, share, wilson
from outrider.report.findings.verifier import JUMP_WINDOW, _jumps
from outrider.report.findings.view import by_step, splits

RECIPES = {recipe.name for recipe in list_recipes()}

# Options that advice names without a value, and one that a recipe may give them.
VALUES = {
    "learn.lr": 1e-5,
    "objective.entropy.target": 0.2,
    "sample.max_tokens": 80,
    "sample.temperature": 1.2,
    "sample.top_p": 1.0,
    "sample.top_k": 0,
}

# The first form of each illness over five seeds, its other forms over one.
CASES = [
    (name, make, seed)
    for name, forms in PATHOLOGIES.items()
    for i, make in enumerate(forms)
    for seed in range(1 if i else 5)
]


@functools.cache
def examined(make: Callable[[int], RunData], seed: int) -> Examined:
    return examine(make(seed))


def found(name: str, run: RunData) -> Finding | None:
    return CHECKS[name].find(run)


# ---- the matrix


def test_every_finding_has_an_illness_of_its_own() -> None:
    assert list(PATHOLOGIES) == list(CHECKS)


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_run_has_no_findings_and_every_check_is_made(seed: int) -> None:
    assert examined(healthy, seed) == Examined([], list(CHECKS), {})


@pytest.mark.parametrize(("name", "make", "seed"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_an_illness_is_found_and_nothing_else_is(name: str, make: Callable[[int], RunData], seed: int) -> None:
    result = examined(make, seed)
    assert [finding.name for finding in result.findings] == [name]
    assert not result.skipped


def _first_findings() -> list[Finding]:
    return [finding for name, forms in PATHOLOGIES.items() for make in forms for finding in examined(make, 0).findings]


def test_findings_are_sentences_with_finite_numbers() -> None:
    for finding in _first_findings():
        for text in (finding.sentence, finding.threshold, *finding.advice):
            assert text[0].isupper() or text.startswith("pass@") or text[0].isdigit(), text
            assert re.fullmatch(r"(?!.*(\.\.|nan\b)).*\.", text), text
        assert 2 <= len(finding.advice) <= 4
        unknown = {name for name, value in finding.numbers.items() if not math.isfinite(value)}
        assert unknown <= {"never_solved_pass_rate_below", "falls_from_k", "expected_pairs", "excess_low"}, finding


def test_advice_names_recipes_stages_and_options_that_exist() -> None:
    texts = {text for finding in _first_findings() for text in finding.advice}
    recipes, options = set(), set()
    for text in texts:
        for names in re.findall(r"recipe ([a-z0-9-]+(?:(?:, | or )[a-z0-9]+(?:-[a-z0-9]+)*)*)", text):
            recipes |= {name for name in re.split(", | or ", names) if "-" in name or name in RECIPES}
            assert re.split(", | or ", names)[0] in RECIPES, text
        options |= set(re.findall(r"\b(?:objective|learn|sample|reward)\.[a-z_.]+[a-z](?:=[\[\]\w.,]*[\w\]])?", text))
    assert {"clip-higher", "dapo", "dr-grpo", "xrpo"} <= recipes <= RECIPES
    for option in sorted(options):
        load_recipe("grpo", [option if "=" in option else f"{option}={VALUES[option]}"], setting="countdown")


def test_the_page_of_findings_lists_them_all_in_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text()
    assert re.findall(r"^\| \*([a-z ]+)\* \|", page, re.MULTILINE) == list(CHECKS)


def test_findings_to_act_on_come_first() -> None:
    d = draft(0)
    d.entropy = 0.3 * 0.17**d.time * np.ones(ROWS)
    d.cut |= d.rng.random(ROWS) < 0.4
    result = examine(finish(d))
    assert [(f.name, f.severity) for f in result.findings] == [("truncation", "act"), ("entropy collapse", "watch")]


# ---- what a run lacks


def test_a_dump_of_texts_and_verdicts_is_checked_as_far_as_it_goes() -> None:
    """Nine tenths of 40 problems never solved, in an evaluation without steps, tokens, stops or log-probabilities."""
    n = 40 * 8
    problem = np.repeat(np.arange(40), 8)
    result = examine(run_of(_bare(n, problem) | {"outcome": np.where(problem < 4, "correct", "incorrect")}))
    assert [finding.name for finding in result.findings] == ["dead prompts"]
    assert result.checked == ["dead prompts", "verifier suspicion", "duplicates"]
    assert list(result.skipped) == [name for name in CHECKS if name not in result.checked]
    assert result.skipped["saturation"] == "at least 20 training steps (the run has 0)"


def test_a_run_without_rollouts_lacks_everything() -> None:
    result = examine(run_of(_bare(0, np.zeros(0, int))))
    assert (result.findings, result.checked, list(result.skipped)) == ([], [], list(CHECKS))
    assert all(result.skipped.values())


@pytest.mark.parametrize("name", CHECKS)
def test_nineteen_steps_are_too_few_for_a_trend(name: str) -> None:
    d = draft(0)
    d.metrics = {key: values[:19] for key, values in d.metrics.items()}
    d.version = None
    run = finish(d)
    run.db.execute("CREATE TEMP TABLE early AS SELECT * FROM rollouts WHERE step < 20")
    run.db.execute("CREATE OR REPLACE TEMP VIEW rollouts AS SELECT * FROM early")
    trends = ("entropy collapse", "no rise", "saturation", "length drift", "stale sampler", "reward without success")
    if name in trends:
        with pytest.raises(Lacking):
            CHECKS[name].find(run)
    else:
        assert CHECKS[name].find(run) is None


def test_visits_chosen_by_outcome_do_not_show_narrowing() -> None:
    d = draft(0)
    d.evaluations = {}
    with pytest.raises(Lacking, match="skip"):
        found("coverage narrowing", finish(d, {"explore": [{"skip": {}}, {"uniform": {"n": 8}}]}))


def _bare(n: int, problem: Any) -> dict[str, Any]:
    name = np.char.add("p", problem.astype(str)) if n else []
    return {
        "split": ["evaluate"] * n,
        "step": [0] * n,
        "problem_id": name,
        "group_id": name,
        "member": list(range(n)),
        "stream": ["main"] * n,
        "stage": [""] * n,
        "context": ["plain"] * n,
        "branch_at": [0] * n,
        "text": [f"text {i}" for i in range(n)],
        "unused": [""] * n,
    }


# ---- rules at their edges


def test_a_policy_that_is_certain_because_it_solves_everything_has_not_collapsed() -> None:
    d = draft(0, lambda hard, time: 20 * time - hard)
    d.entropy *= np.exp(-3 * d.time)
    assert found("entropy collapse", finish(d)) is None


def test_a_third_of_the_entropy_is_no_collapse_and_a_tenth_is_one_to_act_on() -> None:
    for left, severity in ((0.33, None), (0.17, "watch"), (0.06, "act")):
        d = draft(0)
        d.entropy = 0.3 * left**d.time * np.ones(ROWS)
        finding = found("entropy collapse", finish(d))
        assert (finding and finding.severity) == severity


def test_entropy_of_the_metrics_is_used_where_rollouts_have_none() -> None:
    d = draft(0)
    d.entropy = d.logprob = None
    d.metrics["entropy"] = np.geomspace(0.4, 0.01, STEPS)
    finding = found("entropy collapse", finish(d))
    assert finding is not None
    assert "0.01" in finding.sentence
    assert "estimated" not in finding.sentence


def test_narrowing_needs_both_a_rise_at_one_and_a_fall_at_many() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0.6, 1.5, 100)
    for lost, gain, expected in ((2.0, 1.5, True), (9.0, 1.5, False), (1.0, 0.0, False)):
        d = draft(0)
        after = np.where(hard > lost, -9, gain - hard)
        d.evaluations = {0: evaluation(rng, -hard), 7: evaluation(rng, 0.0 - hard), STEPS: evaluation(rng, after)}
        assert (found("coverage narrowing", finish(d)) is not None) == expected


def test_coverage_counts_only_problems_that_both_evaluations_have() -> None:
    d = draft(0)
    rng = np.random.default_rng(1)
    hard = rng.normal(0.6, 1.5, 100)
    before, after = evaluation(rng, -hard), evaluation(rng, np.where(hard > 2, -9, 1.5 - hard)[:60])
    d.evaluations = {0: before, STEPS: after}
    finding = found("coverage narrowing", finish(d))
    assert finding is not None
    assert finding.numbers["problems"] == 60
    first, last = ({t.problem: t.successes / 64 for t in e.tallies} for e in (before, after))
    assert finding.numbers["pass_at_1"] == pytest.approx(np.mean([last[p] - first[p] for p in last]))


def test_hopeless_problems_carry_the_bound_of_their_samples() -> None:
    """Never solved in 4 visits of 8: below 1 - 0.05^(1/32) = 8.9 %."""
    finding = examined(pathologies.hopeless, 0).findings[0]
    assert finding.numbers["never_solved_pass_rate_below"] == pytest.approx(1 - 0.05 ** (1 / 32), abs=0.003)


def test_equal_texts_that_chance_explains_are_no_seed_fault() -> None:
    """Three texts of probabilities 0.7, 0.2, 0.1: 54 % of the pairs are equal, and 54 % are expected."""
    p = np.array([0.7, 0.2, 0.1])
    d = draft(0)
    drawn = d.rng.choice(3, size=ROWS, p=p)
    d.text, d.tokens = np.array(["a", "b", "c"], object)[drawn], np.full(ROWS, 2)
    d.logprob = np.log(p)[drawn] / 2
    finding = found("duplicates", finish(d))
    assert finding is not None
    assert finding.severity == "watch"
    assert finding.numbers["expected_pairs"] == pytest.approx(0.54, abs=0.04)
    assert finding.numbers["equal_pairs"] == pytest.approx(0.54, abs=0.04)


def test_a_group_without_log_probabilities_does_not_hide_what_the_others_say() -> None:
    run = pathologies.duplicates(0)
    run.db.execute(
        "CREATE TEMP TABLE gap AS SELECT * REPLACE (CASE WHEN step = 40 AND group_id = 'g639' THEN NULL ELSE logprob "
        "END AS logprob) FROM rollouts"
    )
    run.db.execute("CREATE OR REPLACE TEMP VIEW rollouts AS SELECT * FROM gap")
    finding = found("duplicates", run)
    assert finding is not None
    assert finding.severity == "act"
    assert (finding.numbers["groups"], finding.numbers["groups_with_logprobs"]) == (160, 159)


def test_branches_are_compared_with_branches_of_the_same_place() -> None:
    """Own texts of branches from different parents may be equal: what stands before them is not."""
    n = 64
    rows = _bare(n, np.repeat(np.arange(4), 16))
    rows |= {"text": ["the same end"] * n, "outcome": ["incorrect"] * n, "parent": [f"parent {i}" for i in range(n)]}
    with pytest.raises(Lacking):
        found("duplicates", run_of(rows))


def test_versions_that_count_updates_and_not_steps_are_not_verified() -> None:
    d = draft(0)
    d.version *= 4
    assert found("stale sampler", finish(d)) is None
    d.metrics = {}
    with pytest.raises(Lacking):
        found("stale sampler", finish(d))


def test_versions_may_begin_anywhere() -> None:
    for first, last, expected in ((100, 39, False), (-10, 39, False), (100, 20, True)):
        d = draft(0)
        d.version = np.minimum(d.version, last) + first
        assert (found("stale sampler", finish(d)) is not None) == expected


def test_a_constant_reward_for_the_format_is_not_a_rise() -> None:
    d = draft(0)
    d.reward = d.success * 0.9 + 0.1
    assert found("reward without success", finish(d)) is None


def test_a_rise_in_reward_must_be_large_and_mostly_not_success() -> None:
    """What failures earn rises to ``most``, while success stays at 40 % or rises from 20 to 60 %."""
    for most, last, expected in ((0.5, 0.4, True), (0.05, 0.4, False), (0.4, 0.6, False)):
        d = draft(0)
        _quota(d, np.linspace(0.8 - last, last, STEPS))
        d.reward = np.where(d.success, 1.0, most * d.time)
        assert (found("reward without success", finish(d)) is not None) == expected, (most, last)


def test_a_reward_that_success_does_not_earn_is_found() -> None:
    d = draft(0)
    d.reward = -1.0 * d.success  # nothing positive is paid at all
    finding = found("reward without success", finish(d))
    assert finding is not None
    assert "the mean reward is" in finding.sentence
    assert finding.severity == "act"


def test_first_samples_leave_out_what_later_stages_chose() -> None:
    d = draft(0)
    run = finish(d)
    run.db.execute("CREATE TEMP TABLE everything AS SELECT * FROM rollouts")
    run.db.execute("INSERT INTO everything SELECT * REPLACE ('1-branch' AS stage, 9 AS tokens) FROM everything")
    run.db.execute("CREATE OR REPLACE TEMP VIEW rollouts AS SELECT * FROM everything")
    plain = finish(d)
    assert splits(run)["train"].first_stage == "0-uniform"
    assert by_step(run)["length"].tolist() == by_step(plain)["length"].tolist()
    assert (by_step(run)["spent"] > by_step(plain)["spent"]).all()


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_run_whose_first_stage_shows_hints_has_no_first_samples(share: float) -> None:
    """Which problems have none is a choice, and changes with the run; checks that need no first samples are made."""
    run = finish(draft(0))
    run.db.execute(
        "CREATE TEMP TABLE hinted AS SELECT * REPLACE "
        f"(CASE WHEN hash(group_id) % 10 < {10 * share:.0f} THEN 'seeded' ELSE context END AS context) FROM rollouts"
    )
    run.db.execute("CREATE OR REPLACE TEMP VIEW rollouts AS SELECT * FROM hinted")
    with pytest.raises(Lacking, match="which the first stage, 0-uniform, does not sample"):
        by_step(run)
    assert examine(run).findings == []


# ---- what is noise


def test_change_rarely_sees_one_where_there_is_none() -> None:
    rng = np.random.default_rng(0)
    for parts in (4, 10):
        alarms = sum(not (c.low <= 0 <= c.high) for c in (change(x, parts) for x in rng.normal(size=(1000, 40))))
        assert alarms <= 15  # 0.3 % nominal, and few steps


def test_change_sees_a_trend_through_the_noise_and_does_not_count_it_as_noise() -> None:
    line = np.linspace(0, 1, 40)
    seen = change(line)
    assert seen.value == pytest.approx(30 / 39)  # the means of 10 steps lie 30 steps apart
    assert seen.high - seen.low == pytest.approx(2 * Z / 39 / math.sqrt(10))
    assert change([np.nan, 1.0, np.nan]).value is np.nan or math.isnan(change([1.0]).value)


def test_the_level_at_the_end_is_as_sure_as_its_steps() -> None:
    """Ten of forty steps of unit noise: 3 / sqrt(10) on each side, which covers the truth."""
    rng = np.random.default_rng(0)
    levels = [level(x) for x in rng.normal(size=(1000, 40))]
    assert np.mean([seen.high - seen.low for seen in levels]) == pytest.approx(2 * Z / math.sqrt(10), rel=0.03)
    assert sum(not (seen.low <= 0 <= seen.high) for seen in levels) <= 15


def test_wilson_ends_are_where_the_share_is_just_z_errors_away() -> None:
    for p, n in ((0.3, 50), (0.02, 400), (0.5, 9.5)):
        for end in wilson(p, n):
            assert abs(p - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / n))
    assert wilson(0.0, 20)[0] == 0.0
    assert wilson(1.0, 20)[1] == 1.0


def test_a_share_of_clusters_is_as_sure_as_their_number() -> None:
    """A group that agrees counts as one observation; independent rollouts count one each."""
    alike = share([8, 0] * 50, [8] * 100)
    assert (alike.low, alike.high) == pytest.approx(wilson(0.5, 99))
    rng = np.random.default_rng(0)
    apart = share(rng.binomial(8, 0.5, 1000), [8] * 1000)
    assert (apart.low, apart.high) == pytest.approx(wilson(apart.value, 8000), abs=0.003)


def test_shares_cover_the_truth_under_clustering() -> None:
    rng = np.random.default_rng(0)
    shares = [share(rng.binomial(8, rng.beta(0.5, 0.5, 60)), [8] * 60) for _ in range(500)]
    assert sum(s.low <= 0.5 <= s.high for s in shares) >= 495


def test_groups_of_one_problem_are_one_cluster() -> None:
    """Its groups in several steps fail and succeed together: they count as one group."""
    rng = np.random.default_rng(1)
    hits, problems = rng.binomial(8, rng.beta(0.5, 0.5, 40)), np.arange(40)
    once = share(hits, [8] * 40)
    again = share(np.tile(hits, 6), [8] * 240, np.tile(problems, 6))
    assert (again.value, again.low, again.high) == pytest.approx((once.value, once.low, once.high))
    assert (again.hits, again.of) == (6 * once.hits, 6 * once.of)
    assert share(np.tile(hits, 6), [8] * 240).low > once.low  # as if 240 problems had been seen


@pytest.mark.parametrize(("problems", "expected"), [(12, False), (POOL, True)])
def test_a_few_problems_seen_again_and_again_decide_nothing_about_others(problems: int, expected: bool) -> None:
    """Three in four groups have no signal: of 160 problems that is sure, of 12 that come up in every step it is not."""
    d = draft(0)
    d.problem = d.problem % problems
    d.success = np.where(d.problem % 4 > 0, d.problem % 4 > 1, np.arange(8) < 4)
    assert (found("dead prompts", finish(d)) is not None) == expected


@pytest.mark.parametrize("split", ["train", "evaluate"])
def test_a_score_that_never_reaches_success_is_told_from_the_first_step_on(split: str) -> None:
    """Shaped up to 0.8, where a success begins at 1: 32 responses, one step."""
    n = 32
    columns = _bare(n, np.repeat(np.arange(4), 8)) | {"split": split, "outcome": "incorrect"}
    result = examine(run_of(columns | {"reward": np.linspace(0, 0.8, n)}))
    [finding] = [finding for finding in result.findings if finding.name == "reward without success"]
    assert finding.sentence.startswith("None of 32 responses succeeded, while rewards range from 0 to 0.8 (mean 0.4)")
    assert finding.severity == "act"
    right = np.where(np.arange(n) == 5, "correct", "incorrect")
    for quiet in (
        {"reward": np.zeros(n)},
        {"reward": np.linspace(-1, 0, n)},
        {"outcome": right, "reward": right == "correct"},
    ):
        assert "reward without success" not in [f.name for f in examine(run_of(columns | quiet)).findings]


@pytest.mark.parametrize("fallen", [1, 2, 5, 20])
def test_a_collapse_is_found_wherever_it_falls(fallen: int) -> None:
    """After the first step, in the first tenth or in the middle: the groups of the first step are what was there."""
    d = draft(0)
    d.entropy[fallen:] *= 0.08
    assert found("entropy collapse", finish(d)).severity == "act"


def test_a_first_step_that_is_only_noisier_is_no_collapse() -> None:
    for seed in range(10):
        d = draft(seed)
        d.entropy *= np.exp(np.random.default_rng(seed).normal(0, 0.4, (STEPS, 1, 1)))
        d.entropy[0] = d.entropy[1:].mean() * 3
        assert found("entropy collapse", finish(d)) is None


def test_success_that_falls_in_training_and_rises_on_held_out_problems_is_no_finding() -> None:
    """A curriculum: problems get harder, and the policy better."""
    d = draft(0, lambda hard, time: -time - hard)
    assert found("no rise", finish(d)) is None
    d.evaluations = {}
    assert found("no rise", finish(d)) is not None


def test_problems_that_repeat_are_told_by_prompt_too() -> None:
    n = 20 * 8
    group = np.repeat(np.arange(20), 8)
    columns = _bare(n, group) | {"split": "train", "outcome": np.where(group % 2, "correct", "incorrect")}
    assert found("repeated problems", run_of(columns)) is None
    finding = found("repeated problems", run_of(columns | {"prompt": np.array([f"q{g // 2}" for g in group])}))
    assert finding.numbers["repeated_groups"] == 10
    assert "10 cases under several ids" in finding.sentence
    with pytest.raises(Lacking):
        found("repeated problems", run_of(columns | {"split": "evaluate"}))


def test_a_rise_that_only_slows_down_is_no_plateau() -> None:
    """The second half rises a third as fast as the first: a bend, but above the limit of a quarter."""
    for late, expected in ((0.7, False), (0.0, True)):
        rise = functools.partial(_bent_logit, late)
        assert (found("saturation", finish(draft(0, rise, easy=-2, spread=0.3))) is not None) == expected


def test_a_plateau_is_late_flat_and_long_enough() -> None:
    """Success by quota, without noise: where it bends and how fast it still rises decide."""
    time = np.linspace(0, 1, STEPS)
    for bend, late, expected in ((0.5, 0.1, True), (0.5, 0.4, False), (0.85, 0.0, False), (0.65, 0.0, True)):
        d = draft(0)
        rate = 0.2 + 0.5 * np.minimum(time, bend) + 0.5 * late * np.maximum(time - bend, 0)
        _quota(d, rate)
        assert (found("saturation", finish(d)) is not None) == expected, (bend, late)


def _quota(d: pathologies.Draft, rate_S: Any) -> None:
    """Exactly this share of each step's rollouts succeeds, of equal lengths: nothing is left to chance but which."""
    order = d.rng.random(ROWS).reshape(STEPS, -1).argsort(axis=1).argsort(axis=1).reshape(ROWS)
    d.success, d.tokens = order < (128 * rate_S)[:, None, None], np.full(ROWS, 100)
    d.cut, d.timeout = np.zeros(ROWS, bool), np.zeros(ROWS, bool)


def _bent_logit(late: float, hard: Any, time: Any) -> Any:
    return 4 * np.minimum(time, 0.5) + 4 * late * np.maximum(time - 0.5, 0) - hard


def test_a_jump_is_told_from_a_steep_rise() -> None:
    steps = np.arange(40.0)
    jumps, error = _jumps(0.02 * steps)
    assert np.abs(jumps).max() < 1e-9
    assert error < 1e-9
    jumps, _ = _jumps(0.002 * steps + 0.3 * (steps >= 21))
    assert jumps.argmax() + JUMP_WINDOW == 21
    assert jumps.max() == pytest.approx(0.3)
