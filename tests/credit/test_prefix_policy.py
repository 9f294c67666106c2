"""The prefix policies, on a policy whose every outcome is enumerated: the gradient is the documented one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from forests import rollouts
from outrider.arrays import Floats
from outrider.credit import Baseline, GroupMean, Members, Shaper
from outrider.credit.assign import assign
from outrider.credit.siblings_mean import SiblingsMean
from outrider.credit.tree_values import TreeValues
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.record import Group, Mode, Problem, Rollout, StopReason
from outrider.record.row import WeightedRow

POLICIES = ["mask", "count_once", "repeat"]
LENGTH, TOKENS, AT = 3, 2, 2  # of a response, in the vocabulary, where branches start
Response = tuple[int, ...]


class Fixed(Baseline):
    """Reward minus a number that no rollout has a part in."""

    def advantages(self, members: Members) -> Floats:
        return np.where(members.valid_G, members.rewards_G - 0.3, 0.0)


class Tabular:
    """A distribution over the next token for every start of a response, each with parameters of its own."""

    def __init__(self) -> None:
        starts = [s for n in range(LENGTH) for s in itertools.product(range(TOKENS), repeat=n)]
        self.index = {start: i for i, start in enumerate(starts)}
        logits = torch.from_numpy(np.random.default_rng(7).normal(size=(len(starts), TOKENS)))
        self.logits = logits.requires_grad_()

    def logprobs(self, response: Sequence[int]) -> Tensor:
        """Of each token of a response."""
        rows = [self.index[tuple(response[:k])] for k in range(len(response))]
        return torch.log_softmax(self.logits, -1)[rows, list(response)]

    def of_rows(self, rows: Sequence[WeightedRow]) -> Tensor:
        """Of the own tokens of all rows, whose contexts are the prompt and a prefix."""
        parts = [self.logprobs([*row.context_ids[1:], *row.token_ids])[-len(row.token_ids) :] for row in rows]
        return torch.cat(parts)

    def gradient(self, objective: Tensor) -> np.ndarray:
        return torch.autograd.grad(objective, self.logits)[0].numpy()


POLICY = Tabular()
RESPONSES = list(itertools.product(range(TOKENS), repeat=LENGTH))
REWARD = dict(zip(RESPONSES, [1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1.0, 0.0], strict=True))


@dataclass(frozen=True)
class Outcome:
    """A group: roots, then branches of the first one at ``AT``; whole responses and the probability of all."""

    roots: tuple[Response, ...]
    branches: tuple[Response, ...]
    probability: float

    @property
    def paths(self) -> tuple[Response, ...]:
        return (*self.roots, *self.branches)


def outcomes(roots: int, branches: int) -> Iterator[Outcome]:
    with torch.no_grad():
        p = {r: POLICY.logprobs(r).exp().numpy() for r in RESPONSES}
    for drawn in itertools.product(RESPONSES, repeat=roots):
        ends = [r for r in RESPONSES if r[:AT] == drawn[0][:AT]]
        for ended in itertools.product(ends, repeat=branches):
            chance = np.prod([p[r].prod() for r in drawn]) * np.prod([p[r][AT:].prod() for r in ended])
            yield Outcome(drawn, ended, float(chance))


def group(outcome: Outcome, stream: str = "main") -> Group:
    """On-policy rollouts: their log-probabilities are the policy's."""
    made: list[Rollout] = []
    for member, response in enumerate(outcome.paths):
        at = AT if member >= len(outcome.roots) else 0
        made.append(
            Rollout(
                problem_id="p",
                group_id="g",
                member=member,
                prompt_ids=np.array([9], np.int32),
                token_ids=np.array(response[at:], np.int32),
                logprobs_T=POLICY.logprobs(response).detach().numpy()[at:],
                prefix_ids=np.array(response[:at], np.int32),
                parent="g/0" if at else None,
                stream=stream if at else "main",
                reward=REWARD[response],
            )
        )
    return Group(Problem("p", ""), "g", tuple(made))


WEIGHT = 0.25  # of every token: constant denominators, written for a stream of n rows as lambda / (n * 1)


def surrogate(outcome: Outcome, policy: str, chains: dict[str, list], stream: str = "main") -> Tensor:
    """The loss of one group, from rows to a number, as the learner takes it. Every token weighs ``WEIGHT``."""
    rows = assign([group(outcome, stream)], chains, 1, False, lambda problem: np.array([9]), policy).rows
    sizes = {name: sum(row.stream == name for row in rows) for name in chains}
    options = ObjectiveOptions(
        aggregate={"constant": {"length": 1}}, streams={name: WEIGHT * n for name, n in sizes.items()}
    )
    loss = PolicyLoss(options, LENGTH)
    logprobs = POLICY.of_rows(rows)
    return loss(TokenBatch.of(loss.prepare(rows), logprobs), logprobs, torch.zeros_like(logprobs), None)[0]


def expected(roots: int, branches: int, policy: str, chains: dict[str, list], stream: str = "main") -> np.ndarray:
    """What the gradient of the loss is on average, over every outcome."""
    return POLICY.gradient(sum(o.probability * surrogate(o, policy, chains, stream) for o in outcomes(roots, branches)))


def share_of(positions: slice) -> np.ndarray:
    """The part of the gradient of the expected reward that is due to decisions at some positions."""
    chances = {r: float(POLICY.logprobs(r).detach().sum().exp()) for r in RESPONSES}
    return POLICY.gradient(sum(chances[r] * REWARD[r] * POLICY.logprobs(r)[positions].sum() for r in RESPONSES))


def true_gradient() -> np.ndarray:
    return POLICY.gradient(sum(POLICY.logprobs(r).sum().exp() * REWARD[r] for r in RESPONSES))


BEFORE, AFTER = share_of(slice(0, AT)), share_of(slice(AT, None))


def test_the_two_shares_are_the_gradient_of_the_expected_reward() -> None:
    np.testing.assert_allclose(BEFORE + AFTER, true_gradient(), atol=1e-12)
    assert np.abs(BEFORE).max() > 0.01
    assert np.abs(AFTER).max() > 0.01


# One outcome: the definitions


def by_definition(outcome: Outcome, policy: str, advantages: Sequence[float]) -> np.ndarray:
    """Advantages of whole paths; 0 to ``AT`` of the first root and of the branches are the same tokens."""
    first = [0, *range(len(outcome.roots), len(outcome.paths))]
    total = torch.zeros((), dtype=torch.float64)
    for i, (response, a) in enumerate(zip(outcome.paths, advantages, strict=True)):
        logprobs = POLICY.logprobs(response)
        branch = i >= len(outcome.roots)
        total = total + a * logprobs[AT:].sum()
        if policy == "repeat" or not branch:
            mean = np.mean([advantages[j] for j in first]) if policy == "count_once" and i == 0 else a
            total = total + mean * logprobs[:AT].sum()
    return POLICY.gradient(-WEIGHT * total)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_gradient_of_every_outcome_is_the_definition(policy: str) -> None:
    for outcome in outcomes(roots=2, branches=1):
        rewards = np.array([REWARD[r] for r in outcome.paths])
        found = POLICY.gradient(surrogate(outcome, policy, {"main": [GroupMean(std=False)]}))
        np.testing.assert_allclose(found, by_definition(outcome, policy, rewards - rewards.mean()), atol=1e-12)


# On average


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [("mask", 2, 3), ("count_once", 2, 3), ("repeat", 3, 3)],  # how often each share counts: 2 roots, 3 paths
)
def test_with_a_baseline_from_outside_repeat_is_as_many_independent_rollouts(
    policy: str, before: int, after: int
) -> None:
    """The others count each sampled token once, and the prefix was sampled twice only."""
    found = expected(2, 1, policy, {"main": [Fixed()]})
    np.testing.assert_allclose(found, -WEIGHT * (before * BEFORE + after * AFTER), atol=1e-12)


@pytest.mark.parametrize(
    ("policy", "before"),
    [
        # a prefix shared by k of n paths sees k/n of its own value in the baseline: 1 - 2/3 and 1 - 1/3
        ("mask", (1 - 2 / 3) + (1 - 1 / 3)),
        ("count_once", (1 - 2 / 3) + (1 - 1 / 3)),
        ("repeat", 2 * (1 - 2 / 3) + (1 - 1 / 3)),
    ],
)
def test_with_the_mean_of_the_group_a_shared_prefix_is_part_of_its_own_baseline(policy: str, before: float) -> None:
    found = expected(2, 1, policy, {"main": [GroupMean(std=False)]})
    np.testing.assert_allclose(found, -WEIGHT * (before * BEFORE + 3 * (1 - 1 / 3) * AFTER), atol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_values_of_segments_are_the_same_masked_and_counted_once(policy: str) -> None:
    """The start has two leaves, so (2 V - 2 V0) / sqrt 2 with V0 holding 2/3 of V; an end has 2 r - V0 - V, which hold
    1/3 and 1/2 of its r; the second root has 2 r - 2 V0, and 1/3 of V0 is its r."""
    start, end, lone = 2 * (1 - 2 / 3) / 2**0.5, 2 - 1 / 3 - 1 / 2, 2 - 2 / 3
    times = 2 if policy == "repeat" else 1
    found = expected(2, 1, policy, {"main": [TreeValues()]})
    wanted = -WEIGHT * ((times * start + lone) * BEFORE + (2 * end + lone) * AFTER)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_branches_in_a_stream_of_their_own_teach_suffixes_only(policy: str) -> None:
    """Siblings' advantages add up to 0, so repeating their prefix changes nothing; the parents' rows are their own."""
    chains = {"main": [GroupMean(std=False)], "branch": [SiblingsMean()]}
    found = expected(2, 2, policy, chains, stream="branch")
    roots, siblings = 2 * (1 - 1 / 2), 2 * (1 - 1 / 2)
    np.testing.assert_allclose(found, -WEIGHT * (roots * (BEFORE + AFTER) + siblings * AFTER), atol=1e-12)


# Rows of ragged groups with observed tokens


def responses(drawn: list[Rollout]) -> dict[str, list[tuple[int, int]]]:
    """Each path as (member, own position), by its definition."""
    paths: dict[str, list[tuple[int, int]]] = {}
    for r in drawn:
        before = paths[r.parent][: r.branch_at] if r.parent else []
        paths[r.id] = before + [(r.member, k) for k in range(len(r.token_ids))]
    return paths


@given(rollouts(), st.data())
def test_rows_hold_every_token_as_often_as_the_policy_says(drawn: list[Rollout], data: st.DataObject) -> None:
    rewards = data.draw(st.lists(st.sampled_from([0.0, 1.0, 0.5, np.nan]), min_size=len(drawn), max_size=len(drawn)))
    drawn = [r.verified(None, reward) for r, reward in zip(drawn, rewards, strict=True)]
    by_member = {r.member: r for r in drawn}
    paths = responses(drawn)
    sampled = {
        (r.member, k) for r in drawn for k in range(len(r.token_ids)) if r.trainable_T is None or r.trainable_T[k]
    }
    for policy in POLICIES:
        made = Group(Problem("p", ""), "g", tuple(drawn))
        rows, groups = assign([made], {"main": [Fixed()]}, 1, True, lambda p: np.array([1]), policy)
        trained = [r for r in drawn if [t for t in whose(r, paths, policy) if t in sampled]]
        assert [r.id for r in groups[0].rollouts if not r.unused] == [r.id for r in trained]
        for row, r in zip(rows, trained, strict=True):
            tokens = whose(r, paths, policy)
            assert [*row.context_ids, *row.token_ids] == [1, *r.response_ids]
            assert row.token_ids.tolist() == [int(by_member[m].token_ids[k]) for m, k in tokens]
            assert row.trainable_N.tolist() == [t in sampled for t in tokens]
            wanted = [told(t, r, drawn, paths, policy, sampled) if t in sampled else 0.0 for t in tokens]
            np.testing.assert_allclose(row.advantages_N, wanted, atol=1e-12)
            old = [by_member[m].logprobs_T[k] for m, k in tokens]
            np.testing.assert_array_equal(row.old_logprobs_N[row.trainable_N], np.array(old)[row.trainable_N])


def whose(r: Rollout, paths: dict, policy: str) -> list[tuple[int, int]]:
    return paths[r.id] if policy == "repeat" else paths[r.id][r.branch_at :]


def told(token: tuple, r: Rollout, drawn: list[Rollout], paths: dict, policy: str, sampled: set) -> float:
    """The advantage of a token in the row of ``r``: whole paths are valid members where credit sees whole paths."""

    def value(other: Rollout) -> float | None:
        seen = [t for t in (paths[other.id] if policy != "mask" else whose(other, paths, policy)) if t in sampled]
        return other.reward - 0.3 if seen and not np.isnan(other.reward) else None

    if policy != "count_once":
        return value(r) or 0.0
    values = [w for other in drawn if token in paths[other.id] and (w := value(other)) is not None]
    return float(np.mean(values)) if values else 0.0


# Edges


def branched(**of_branch: object) -> list[Rollout]:
    """A root of three tokens and a branch after its second."""
    outcome = Outcome(((0, 1, 1),), ((0, 1, 0),), 1.0)
    root, branch = group(outcome).rollouts
    return [root, replace(branch, **of_branch)]


def rows_of(drawn: list[Rollout], policy: str, chains: dict | None = None) -> list[WeightedRow]:
    made = Group(Problem("p", ""), "g", tuple(drawn))
    return assign([made], chains or {"main": [Fixed()]}, 1, False, lambda p: np.array([5], np.int32), policy).rows


def test_a_branch_of_a_rollout_that_is_excluded_trains_its_path_under_repeat_alone() -> None:
    root, branch = branched()
    left = root.excluded("dropped")
    for policy, tokens in (("mask", [0]), ("count_once", [0]), ("repeat", [0, 1, 0])):
        (row,) = rows_of([left, branch], policy)
        assert row.token_ids.tolist() == tokens
        assert row.trainable_N.all()


def test_a_rollout_that_is_excluded_takes_no_part_in_a_mean() -> None:
    root, branch = branched()
    alone = rows_of([root, branch.excluded("dropped")], "count_once")
    assert alone[0].advantages_N.tolist() == [root.reward - 0.3] * 3
    both = rows_of([root, branch], "count_once")[0].advantages_N
    np.testing.assert_allclose(both, [*[(root.reward + branch.reward) / 2 - 0.3] * 2, root.reward - 0.3])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_prefix_whose_owner_is_not_there_stays_context(policy: str) -> None:
    _, orphan = branched()
    (row,) = rows_of([orphan], policy)
    assert [*row.context_ids, *row.token_ids] == [9, 0, 1, 0]
    assert row.trainable_N.sum() == 1
    assert row.advantages_N[~row.trainable_N].tolist() == [0.0] * (len(row.token_ids) - 1)
    assert not np.isnan(row.old_logprobs_N[row.trainable_N]).any()


def test_a_segments_value_does_not_cross_streams() -> None:
    """The prefix belongs to stream main, so in stream branch nobody knows its value: it stays context."""
    root, branch = branched(stream="branch")
    twin = branched(stream="branch", member=2, reward=0.0)[1]
    chains = {"main": [GroupMean(std=False)], "branch": [TreeValues()]}
    rows = rows_of([root, branch, twin], "repeat", chains)
    assert [(row.stream, row.trainable_N.tolist()) for row in rows] == [
        ("main", [True] * 3),
        ("branch", [False, False, True]),
        ("branch", [False, False, True]),
    ]


def test_branches_of_their_own_stream_train_the_prefix_there_under_repeat_and_leave_their_parent_alone() -> None:
    root, branch = branched(stream="branch")
    chains = {"main": [Fixed()], "branch": [Fixed()]}
    repeated = rows_of([root, branch], "repeat", chains)
    assert [row.stream for row in repeated] == ["main", "branch"]
    assert [row.trainable_N.tolist() for row in repeated] == [[True] * 3] * 2
    once = rows_of([root, branch], "count_once", chains)
    assert [row.advantages_N.tolist() for row in once] == [[root.reward - 0.3] * 3, [branch.reward - 0.3]]


def test_a_branch_drawn_in_another_mode_than_its_prefix_cannot_train_it() -> None:
    drawn = branched(mode=Mode(0.7))
    assert len(rows_of(drawn, "mask")) == 2
    for policy in ("count_once", "repeat"):
        with pytest.raises(ValueError, match="rollout g/1 and its parent g/0 have different log-probability modes"):
            rows_of(drawn, policy)


def test_a_branch_of_a_truncated_rollout_is_as_any_other() -> None:
    root, branch = branched()
    for policy in POLICIES:
        cut = rows_of([replace(root, stop=StopReason.LENGTH), branch], policy)
        whole = rows_of([root, branch], policy)
        assert [r.advantages_N.tolist() for r in cut] == [r.advantages_N.tolist() for r in whole]


def test_credit_sees_whole_paths_where_they_are_trained() -> None:
    """A shaper is given as many log-probabilities as there are tokens to shape."""
    seen: list[list[int]] = []

    class Looks(Shaper):
        """Notes what it is shown."""

        def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
            seen.append([len(a) for a in members.logprobs_GT])
            return list(advantages_GT)

    for policy in POLICIES:
        rows_of(branched(), policy, {"main": [GroupMean(), Looks()]})
        rows_of(branched(), policy, {"main": [TreeValues(), Looks()]})
    assert seen == [[3, 1], [3, 1], [3, 3], [3, 1], [3, 3], [3, 1]]
