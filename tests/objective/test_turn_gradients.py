"""Gradients with an environment in the loop, on a policy whose every rollout is enumerated.

The environment speaks first, answers the first turn, and ends behind the second; one token ends it at once. So there
are rollouts of one turn and of two, with observed tokens at the start and in the middle.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.credit import Baseline, GroupMean, NoBaseline
from outrider.credit.assign import assign
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.record import Group, Problem, Rollout
from outrider.record.row import WeightedRow

TOKENS, LAST, OPENING = 4, 3, 2


class Way(NamedTuple):
    """A rollout: its tokens, which of them were sampled, and its advantage."""

    ids: tuple[int, ...]
    sampled: tuple[bool, ...]
    reward: float


def ways() -> list[Way]:
    rng = np.random.default_rng(1)
    found = [Way((OPENING, LAST), (False, True), 0.5)]
    for first, second in itertools.product(range(LAST), range(TOKENS)):
        said = (first + 1) % TOKENS
        found.append(Way((OPENING, first, said, second), (False, True, False, True), float(rng.integers(2))))
    return found


WAYS = ways()
STATES = {way.ids[:k]: 0 for way in WAYS for k in range(len(way.ids))}
STATES = {state: place for place, state in enumerate(STATES)}
LOGITS = torch.from_numpy(np.random.default_rng(2).normal(size=(len(STATES), TOKENS))).requires_grad_()


def logprobs(ids: Sequence[int]) -> Tensor:
    """Of every token, also of those that the environment wrote: they are a policy's too, and must not count."""
    return torch.log_softmax(LOGITS, -1)[[STATES[tuple(ids[:k])] for k in range(len(ids))], list(ids)]


def chance(way: Way) -> Tensor:
    return logprobs(way.ids)[list(way.sampled)].sum().exp()


def gradient(value: Tensor) -> np.ndarray:
    return torch.autograd.grad(value, LOGITS)[0].numpy()


def group(drawn: Sequence[Way]) -> Group:
    made = []
    for member, way in enumerate(drawn):
        flags = np.array(way.sampled)
        old = np.where(flags, logprobs(way.ids).detach().numpy(), np.nan).astype(np.float32)
        none = np.zeros(0, np.int32)
        ids = np.array(way.ids, np.int32)
        made.append(Rollout("p", "g", member, np.array([9], np.int32), ids, old, none, trainable_T=flags))
    return Group(Problem("p", ""), "g", tuple(r.verified(None, w.reward) for r, w in zip(made, drawn, strict=True)))


def loss_of(drawn: Sequence[Way], aggregate: object, weight: float = 1.0, baseline: Baseline | None = None) -> Tensor:
    chains = {"main": [baseline or GroupMean(std=False)]}
    rows: list[WeightedRow] = assign([group(drawn)], chains, 1, True, lambda p: np.array([9]), "mask").rows
    loss = PolicyLoss(ObjectiveOptions(aggregate=aggregate, streams={"main": weight}), 4)
    now = torch.cat([logprobs(row.token_ids.tolist()) for row in rows])
    found = loss(TokenBatch.of(loss.prepare(rows), now), now, torch.zeros_like(now), None)[0]
    assert torch.isfinite(found), "the unknown log-probability of an observed token is in it"
    return found


def test_the_ways_are_all_there_are() -> None:
    assert sum(float(chance(way).detach()) for way in WAYS) == pytest.approx(1.0)


def test_the_mean_gradient_is_that_of_the_expected_reward() -> None:
    """Of groups of two, a rollout is half of its own baseline."""
    total = torch.zeros((), dtype=torch.float64)
    for drawn in itertools.product(WAYS, repeat=2):
        p = float((chance(drawn[0]) * chance(drawn[1])).detach())
        total = total + p * loss_of(drawn, {"constant": {"length": 1}}, weight=2.0)
    expected = gradient(sum(chance(way) * way.reward for way in WAYS))
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(gradient(total), -2 * (1 - 1 / 2) * expected, atol=1e-7)  # old ones are float32


@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean"])
def test_observed_tokens_are_in_no_denominator(aggregate: str) -> None:
    one, two = WAYS[0], next(way for way in WAYS if way.reward == 0.0 and len(way.ids) == 4)
    advantages = (0.25, -0.25)
    sums = [logprobs(way.ids)[list(way.sampled)].sum() for way in (one, two)]
    tokens = [sum(way.sampled) for way in (one, two)]
    share = [1 / sum(tokens)] * 2 if aggregate == "token_mean" else [1 / (2 * n) for n in tokens]
    wanted = gradient(-sum(a * w * s for a, w, s in zip(advantages, share, sums, strict=True)))
    np.testing.assert_allclose(gradient(loss_of((one, two), aggregate)), wanted, atol=1e-7)


def test_what_the_environment_wrote_has_no_gradient() -> None:
    # with a baseline advantages add up to 0, and so would what they do to an opening that all have in common
    found = gradient(loss_of(WAYS[:6], "token_mean", baseline=NoBaseline()))
    assert (found[STATES[()]] == 0).all(), "its opening"
    for first in range(LAST):
        assert (found[STATES[OPENING, first]] == 0).all(), "its answer"
    assert (found[STATES[OPENING,]] != 0).any()
