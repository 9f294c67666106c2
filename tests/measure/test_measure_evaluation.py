"""From verified rollouts to an evaluation: hand counts, subset enumeration, and what is excluded."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.measure import Evaluation, Tally, compare, evaluate
from outrider.record import Outcome, Problem, Rollout, StopReason, Verdict, correct, incorrect, unparseable

NO_IDS = np.zeros(0, np.int32)
TIMEOUT = Verdict(Outcome.TIMEOUT, float("nan"))
ERROR = Verdict(Outcome.ERROR, float("nan"))


def rollout(problem, verdict, tokens=2, entropy=None, truncated=False, **more):
    return Rollout(
        problem_id=problem,
        group_id=f"evaluate:{problem}",
        member=0,
        prompt_ids=NO_IDS,
        prefix_ids=NO_IDS,
        token_ids=np.zeros(tokens, np.int32),
        logprobs_T=np.zeros(tokens, np.float32),
        entropies_T=None if entropy is None else np.full(tokens, entropy, np.float32),
        stop=StopReason.LENGTH if truncated else StopReason.STOP,
        verdict=verdict,
        **more,
    )


def problems(*ids, level=""):
    return [Problem(i, "", level=level) for i in ids]


def test_every_number_of_a_small_evaluation():
    """Two levels, three problems, worked out by hand in the comments."""
    easy, hard = problems("a", level="1"), problems("b", "c", level="2")
    sampled = [
        *(rollout("a", correct("7"), tokens=2, entropy=0.5) for _ in range(3)),  # c = 3 of 4; majority "7" is right
        rollout("a", incorrect("8"), tokens=4, entropy=0.25),
        rollout("b", correct("1"), tokens=1),  # c = 1 of 3, the timeout is no sample; two answers tie: 1/2
        rollout("b", incorrect("2"), tokens=1),
        rollout("b", unparseable(), tokens=1, truncated=True),
        rollout("b", TIMEOUT, tokens=1),
        *(rollout("c", unparseable(), tokens=8, truncated=True) for _ in range(4)),  # nobody votes: majority 0
    ]
    greedy = [rollout("a", correct("7")), rollout("b", incorrect("2")), rollout("c", ERROR)]
    found = evaluate([*hard, *easy], sampled, greedy)

    total = found.overall
    assert total.pass_at[1].value == pytest.approx((3 / 4 + 1 / 3 + 0) / 3)
    assert total.pass_at[2].value == pytest.approx((1 + 2 / 3 + 0) / 3)  # a: 1 failure; b: 2 of the 3 pairs hold it
    assert total.pass_at[4].value == pytest.approx((1 + 0) / 2)  # b has 3 verified samples: unknown, not 1
    assert total.pass_at[4].problems == 2
    assert list(total.pass_at) == [1, 2, 4]
    assert total.majority.value == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert total.voteless == 1
    assert total.greedy.value == pytest.approx(1 / 2)
    assert total.greedy.problems == 2
    assert (total.problems, total.samples, total.scorable) == (3, 12, 11)
    assert (total.timeouts, total.errors) == (1, 1)
    assert total.truncated == pytest.approx(5 / 12)
    assert total.unparseable == pytest.approx(5 / 12)
    assert total.entropy == pytest.approx((6 * 0.5 + 4 * 0.25) / 10)  # per token, over the 10 that have one
    assert total.length == pytest.approx(46 / 12)
    assert total.generated_tokens == 46 + 6

    level_1, level_2 = found.levels
    assert (level_1.level, level_1.problems, level_1.pass_at[1].value) == ("1", 1, 0.75)
    assert (level_2.level, level_2.problems, level_2.voteless) == ("2", 2, 1)
    assert np.isnan(level_2.entropy)
    assert [t.problem for t in found.tallies] == ["b", "c", "a"]


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_pass_at_k_equals_enumeration_of_the_rollouts(table):
    sampled = [rollout(str(i), correct("x") if ok else incorrect("y")) for i, row in enumerate(table) for ok in row]
    found = evaluate(problems(*map(str, range(len(table)))), sampled, resamples=0).overall
    for k, interval in found.pass_at.items():
        shares = [np.mean([any(s) for s in combinations(row, k)]) for row in table if len(row) >= k]
        assert interval.problems == len(shares)
        assert interval.value == pytest.approx(np.mean(shares))


@given(st.permutations(range(8)))
@settings(max_examples=20, deadline=None)
def test_order_of_rollouts_does_not_matter(order):
    verdicts = [correct("1"), incorrect("2"), unparseable(), TIMEOUT]
    sampled = [rollout(p, v, tokens=i + 1, entropy=i) for p in "ab" for i, v in enumerate(verdicts)]
    expected = evaluate(problems("a", "b"), sampled, resamples=50)
    found = evaluate(problems("a", "b"), [sampled[i] for i in order], resamples=50)
    assert found.to_json() == expected.to_json()


@given(st.lists(st.sampled_from([TIMEOUT, ERROR]), max_size=5))
@settings(deadline=None)
def test_unscorable_samples_move_no_rate_but_are_counted(broken):
    verified = [rollout("a", correct("1")), rollout("a", incorrect("2")), rollout("a", incorrect("2"))]
    found = evaluate(problems("a"), [*verified, *(rollout("a", v) for v in broken)]).overall
    assert found.pass_at[1].value == pytest.approx(1 / 3)
    assert found.pass_at[2].value == pytest.approx(2 / 3)
    assert found.majority.value == 0
    assert found.samples == 3 + len(broken)
    assert (found.scorable, found.timeouts + found.errors) == (3, len(broken))


def test_success_follows_the_verdict_and_nothing_else():
    sampled = [
        rollout("a", correct("1"), truncated=True, reward=-5.0),
        rollout("a", incorrect("2"), reward=1.0),
        rollout("a", unparseable(), reward=1.0),
    ]
    found = evaluate(problems("a"), sampled).overall
    assert found.pass_at[1].value == pytest.approx(1 / 3)  # unparseable stays in n, truncated-and-correct is a success
    assert found.majority.value == 0  # … but only "2" has voted


def test_majority_is_unknown_where_the_verifier_names_no_answers():
    """A verifier that only says yes or no: its 0 votes must not read as a majority of 0."""
    found = evaluate(problems("a", "b"), [rollout("a", correct()), rollout("b", incorrect("1"))]).overall
    assert found.pass_at[1].value == 0.5
    assert found.majority.problems == 1
    assert found.majority.value == 0
    assert found.voteless == 0


@pytest.mark.parametrize(
    "verdicts",
    [
        [incorrect()],  # verified by a function that only says no
        [incorrect(), incorrect()],
        [incorrect(), unparseable()],
        [correct("7"), correct()],  # who knows what the second one said
    ],
)
def test_the_majority_of_a_problem_without_answers_is_unknown_and_not_0(verdicts):
    tally = Tally.of(Problem("a", "a"), [rollout("a", verdict) for verdict in verdicts])
    assert np.isnan(tally.majority)


def test_an_evaluation_without_answers_has_no_majority_even_where_nothing_could_be_read():
    """Programs: those that pass or fail name no answer, and the one that nobody parsed must not stand for all."""
    found = evaluate(
        problems("a", "b", "c"), [rollout("a", correct()), rollout("b", incorrect()), rollout("c", unparseable())]
    )
    assert np.isnan(found.overall.majority.value)
    assert (found.overall.majority.problems, found.overall.voteless) == (0, 0)
    named = evaluate(problems("a", "c"), [rollout("a", correct("7")), rollout("c", unparseable())]).overall
    assert (named.majority.value, named.majority.problems, named.voteless) == (0.5, 2, 1)


def test_a_failure_without_an_answer_beside_others_is_no_vote():
    found = evaluate(problems("a"), [rollout("a", v) for v in (correct("7"), incorrect(), incorrect())])
    assert found.overall.majority.value == 1.0


def test_observed_tokens_have_no_say_in_the_entropy():
    sampled = [rollout("a", correct("1"), tokens=4, trainable_T=np.array([True, False, False, True]))]
    sampled[0] = replace(sampled[0], entropies_T=np.array([0.5, np.nan, 9.0, 1.5], np.float32))
    assert evaluate(problems("a"), sampled).overall.entropy == pytest.approx(1.0)


def test_problems_without_samples_are_counted_and_averaged_over_nothing():
    found = evaluate(problems("a", "b"), [rollout("a", correct("1"))]).overall
    assert (found.problems, found.pass_at[1].problems, found.pass_at[1].value) == (2, 1, 1.0)
    assert np.isnan(found.greedy.value)


def test_levels_come_in_natural_order_and_only_if_there_are_any():
    labelled = [Problem(level, "", level=level) for level in ("10", "level 9", "9", "level 10")]
    assert [s.level for s in evaluate(labelled, []).levels] == ["9", "10", "level 9", "level 10"]
    assert evaluate(problems("a"), []).levels == ()


@pytest.mark.parametrize(
    ("sampled", "greedy", "message"),
    [
        ([rollout("z", correct())], [], "belongs to no problem"),
        ([], [rollout("z", correct())], "belongs to no problem"),
        ([rollout("a", None)], [], "no verdict"),
        ([], [rollout("a", correct())] * 2, "more than one greedy"),
    ],
)
def test_inconsistent_input_is_refused(sampled, greedy, message):
    with pytest.raises(ValueError, match=message):
        evaluate(problems("a"), sampled, greedy)


def test_problems_with_one_id_are_refused():
    with pytest.raises(ValueError, match="share an id"):
        evaluate(problems("a", "a"), [])


def random_evaluation(seed, ids="abcdef", rate=0.5, samples=4):
    generator = np.random.default_rng(seed)
    held = [Problem(i, "", level=str(1 + n % 2)) for n, i in enumerate(ids)]
    verdicts = [correct("1") if generator.random() < rate else incorrect("2") for _ in range(samples * len(ids))]
    return evaluate(held, [rollout(ids[n % len(ids)], v) for n, v in enumerate(verdicts)], resamples=200)


@pytest.mark.parametrize("evaluation", [random_evaluation(0), evaluate(problems("a", "b"), []), evaluate([], [])])
def test_json_is_plain_and_brings_back_the_same_record(evaluation):
    text = json.dumps(evaluation.to_json(), allow_nan=False)
    back = Evaluation.from_json(json.loads(text))
    assert json.dumps(back.to_json(), allow_nan=False) == text
    assert repr(back) == repr(evaluation)  # NaN included, which == would call different


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d.update(schema_version=99), "schema_version 99"),
        (lambda d: d.pop("schema_version"), "schema_version None"),
        (lambda d: d.pop("tallies"), "tallies"),
        (lambda d: d["overall"].pop("greedy"), "greedy"),
        (lambda d: d["tallies"][0].update(extra=1), "extra"),
    ],
)
def test_other_json_is_refused_in_one_sentence(damage, message):
    data = json.loads(json.dumps(random_evaluation(0).to_json()))
    damage(data)
    with pytest.raises(UserError, match=message):
        Evaluation.from_json(data)


def test_a_comparison_is_paired_by_problem_id():
    """The same evaluation with its problems listed backwards: every paired difference is exactly zero."""
    before = random_evaluation(0)
    after = replace(before, tallies=before.tallies[::-1])
    found = compare(before, after)
    for change in (found.overall, *found.levels):
        for interval in change.pass_at.values():
            assert (interval.value, interval.low, interval.high) == (0, 0, 0)
    assert [c.level for c in found.levels] == ["1", "2"]
    assert found.overall.pass_at[1].problems == 6
    assert found.levels[0].pass_at[1].problems == 3


def test_a_comparison_is_the_difference_of_the_means():
    before, after = random_evaluation(1, rate=0.2), random_evaluation(2, rate=0.8, samples=8)
    found = compare(before, after)
    assert list(found.overall.pass_at) == [1, 2, 4]  # 8 only after
    for old, new, change in zip(
        (before.overall, *before.levels), (after.overall, *after.levels), (found.overall, *found.levels), strict=True
    ):
        for k, interval in change.pass_at.items():
            assert interval.value == pytest.approx(new.pass_at[k].value - old.pass_at[k].value)
        assert change.majority.value == pytest.approx(new.majority.value - old.majority.value)
    assert np.isnan(found.overall.greedy.value)
    assert found.overall.pass_at[1].excludes_zero


def test_problems_of_one_side_only_enter_no_change():
    before, after = random_evaluation(1, ids="abcd"), random_evaluation(2, ids="cdefg")
    found = compare(before, after)
    assert (found.problems, found.unpaired) == (2, 5)
    assert found.overall.pass_at[1].problems == 2


def test_nothing_in_common_cannot_be_compared():
    with pytest.raises(UserError, match="no problem in common"):
        compare(random_evaluation(0, ids="ab"), random_evaluation(0, ids="cd"))


def test_import_needs_neither_torch_nor_rich():
    code = "import sys, outrider.measure; print(*({'torch', 'rich', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
