"""VIP: the variance of a gradient, the allocation with the least of it, and the prediction that it goes by."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Vip
from outrider.explore.embed import Embedder
from outrider.explore.vip import LEAST, variance
from outrider.record import Context, Problem
from outrider.testing.scripted import POOL
from scripted import batch, group, members, view

ESTIMATORS = ["rloo", "dr_grpo"]


# The variance


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_variance_is_that_of_the_estimator_over_all_groups(n, p, estimator):
    """Of mean (R_i - b_i) Z_i with scores Z of mean 0 and variance 1, whatever the rewards."""
    expected = 0.0
    for rewards in map(np.array, itertools.product([0, 1], repeat=n)):
        chance = np.prod(np.where(rewards, p, 1 - p))
        others = (rewards.sum() - rewards) / (n - 1)
        baseline = others if estimator == "rloo" else rewards.mean()
        expected += chance * ((rewards - baseline) ** 2).sum() / n**2
    assert variance(n, p, estimator) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_from_the_least_floor_on_a_rollout_takes_off_less_than_the_last(estimator):
    """And below it does not, so the floor is no smaller than it must be."""
    steps = [variance(n, 0.5, estimator) - variance(n + 1, 0.5, estimator) for n in range(2, 200)]
    first = LEAST[estimator] - 2
    assert all(a > b > 0 for a, b in itertools.pairwise(steps[first:]))
    assert first == 0 or steps[first - 1] < steps[first]


# The allocation


class Vectors(Embedder):
    """Texts such as ``x0.6,0.8`` are vectors."""

    def cosines(self, queries, texts):
        a, b = ([[float(x) for x in text[1:].split(",")] for text in each] for each in (queries, texts))
        return (np.array(a) @ np.array(b).T).astype(np.float32)


def circle(degrees: float) -> str:
    return f"x{np.cos(np.radians(degrees))},{np.sin(np.radians(degrees))}"


def on_circle(*degrees: float) -> list[Problem]:
    return [Problem(f"p{i}", circle(d)) for i, d in enumerate(degrees)]


def made(**options) -> Vip:
    stage = Vip(**{"bandwidth": 0.5, **options})
    stage.embed = Vectors()
    return stage


def asked(stage: Vip, groups, **rest) -> list[int]:
    counts = {r.problem.id: r.n for r in stage.plan(view(groups, **rest))}
    return [counts.get(g.problem.id, 0) for g in groups]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from(ESTIMATORS),
    st.integers(0, 3),
    st.integers(0, 4),
)
def test_no_allocation_within_the_bounds_has_less_variance(successes, estimator, spare, width):
    low = LEAST[estimator]
    n, high = low + spare, low + spare + width
    stage = made(n=n, min_n=low, max_n=high, estimator=estimator, bandwidth=0.01)
    problems = on_circle(*range(0, 40 * len(successes), 40))
    stage.observe([group("1" * k + "0" * (12 - k), p) for k, p in zip(successes, problems, strict=True)])
    found = asked(stage, [group("", p) for p in problems])
    rates = stage.predict([p.prompt for p in problems])
    assert rates == pytest.approx(np.clip(np.array(successes) / 12, 0.05, 0.95), abs=1e-3)

    def total(counts):
        return sum(variance(c, p, estimator) for c, p in zip(counts, rates, strict=True))

    possible = [c for c in itertools.product(range(low, high + 1), repeat=len(rates)) if sum(c) == n * len(rates)]
    assert tuple(found) in possible
    assert total(found) == pytest.approx(min(map(total, possible)), rel=1e-12)


def test_the_first_step_is_uniform_and_what_has_rollouts_gets_none():
    stage = Vip(n=5)
    assert asked(stage, batch("", "", "")) == [5, 5, 5]
    numbers = stage.observe([])
    assert {key: value for key, value in numbers.items() if value == value} == {
        "known": 0.0, "predicted": 0.5, "spread": 0.0, "fewest": 5.0, "most": 5.0, "remembered": 0.0
    }  # fmt: skip
    assert asked(stage, batch("", "10", "")) == [5, 0, 5]
    assert stage.plan(view(batch("", ""), round=1)) == stage.plan(view([])) == []


# The prediction


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=4, unique_by=lambda v: v[0]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([0.3, 0.6]),
)
def test_the_prediction_is_the_recursion_over_a_whole_universe_of_problems(steps, bandwidth):
    """The mean of every problem there is, moved by each step's outcomes: what a finite data set is updated with."""
    degrees = np.array([0, 40, 80, 130, 200, 270])
    points = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    kernel = np.exp(-squares / (2 * bandwidth**2))
    mean = np.zeros(len(degrees))
    problems, stage = on_circle(*degrees), made(bandwidth=bandwidth, epsilon=0.1)
    for step in steps:
        stage.observe([group("1" * k + "0" * (4 - k), problems[i]) for i, k in step])
        met = [i for i, _ in step]
        rates = np.clip([k / 4 for _, k in step], 0.1, 0.9)
        error = np.log(rates / (1 - rates)) - mean[met]
        mean = mean + kernel[:, met] @ np.linalg.inv(kernel[np.ix_(met, met)]) @ error
    expected = np.clip(1 / (1 + np.exp(-mean)), 0.1, 0.9)
    assert stage.predict([p.prompt for p in problems]) == pytest.approx(expected, abs=2e-3)  # cosines are float32


def test_a_problem_is_known_by_what_is_alike():
    stage = made(bandwidth=0.3)
    near, far, solved, failed = on_circle(5, 180, 0, 90)
    stage.observe([group("1111", solved), group("0000", failed)])
    found = stage.predict([p.prompt for p in (near, far, solved, failed)])
    assert found[0] > 0.9
    assert found[1:] == pytest.approx([0.5, 0.95, 0.05], abs=1e-3)


def test_the_last_visit_counts_however_often_a_problem_came():
    stage, [one] = made(), on_circle(0)
    for endings, rate in (("0000", 0.05), ("1000", 0.25), ("1111", 0.95), ("1100", 0.5)):
        stage.observe([group(endings, one)])
        assert stage.predict([one.prompt]) == pytest.approx([rate], abs=1e-3)


def test_questions_that_contradict_each_other_share_their_mean_however_often_they_come():
    stage, [one, other] = made(), [Problem("a", circle(0)), Problem("b", circle(1e-4))]
    for _ in range(50):
        stage.observe([group("1111", one), group("0000", other)])
    assert stage.predict([circle(d) for d in (0, 1e-4, 10)]) == pytest.approx([0.5] * 3, abs=1e-3)
    assert all(abs(share) < 10 for _, _, share in stage.state_dict()["seen"])


def test_words_that_questions_share_make_them_alike():
    stage = Vip(bandwidth=0.7)
    solved, failed = Problem("a", "the sum of 3 and 4"), Problem("b", "integrate x squared")
    stage.observe([group("1111", solved), group("0000", failed)])
    like_a, like_b = stage.predict(["the sum of 5 and 6", "integrate x cubed"])
    assert like_b < 0.4 < 0.6 < like_a


def test_off_is_the_mean_distance_from_what_was_predicted():
    stage, problems = made(bandwidth=0.01), on_circle(0, 90)
    stage.plan(view([group("", p) for p in problems]))
    numbers = stage.observe([group("1110", problems[0]), group("0000", problems[1]), group("ee", POOL[5])])
    assert numbers["off"] == pytest.approx((0.25 + 0.5) / 2)
    assert numbers["remembered"] == 2.0


def test_only_the_plain_prompt_and_what_a_verifier_verified_are_evidence():
    [problem] = on_circle(0)
    base = group("10ee", problem)
    parent = base.rollouts[0]
    base = base.joined(members("11", problem, first=4, parent=parent.id, prefix_ids=parent.token_ids[:1]))
    base = base.joined(members("11", problem, first=6, context=Context("seeded", ("p1",))))
    base = base.joined(members("1", problem, first=8, context=Context(trained="excluded")))  # the greedy yardstick
    stage = made()
    stage.observe([base])
    assert stage.predict([problem.prompt]) == [0.5]
    assert [key for key, *_ in stage.state_dict()["seen"]] == ["p0"]


def test_the_order_of_a_step_leaves_no_trace_and_a_resumed_stage_predicts_the_same_to_the_bit():
    problems = on_circle(0, 10, 200)
    groups = [group(text, p) for text, p in zip(("1000", "1100", "1111"), problems, strict=True)]
    stage, turned, again = made(), made(), made()
    stage.observe(groups)
    turned.observe(groups[::-1])
    assert stage.state_dict() == turned.state_dict()
    again.load_state_dict(json.loads(json.dumps(stage.state_dict())))
    questions = [circle(d) for d in (3, 77, 190)]
    assert again.predict(questions) == stage.predict(questions)


def test_what_is_seen_longest_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr("outrider.explore.vip.MOST_TEXTS", 2)
    stage, problems = made(bandwidth=0.01), on_circle(0, 90, 180)
    for problem in problems:
        stage.observe([group("1111", problem)])
    assert stage.predict([p.prompt for p in problems]) == pytest.approx([0.5, 0.95, 0.95], abs=1e-3)
    stage.observe([group("1111", problem) for problem in problems])  # more in a step than are remembered
    assert stage.observe([])["remembered"] == 2.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n": 2}, "must lie between min_n, which is 3, and max_n, which is 32"),
        ({"max_n": 7}, "must lie between"),
        ({"min_n": 2, "estimator": "dr_grpo"}, "min_n is 2, but with dr_grpo it must be at least 3"),
        ({"embed": "random"}, "embed is random, which is not a similarity"),
    ],
)
def test_what_cannot_be_is_refused_when_the_recipe_is_read(options, says):
    with pytest.raises(ValidationError, match=says):
        Vip(**options)
