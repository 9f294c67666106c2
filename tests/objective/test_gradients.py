"""Gradients by enumeration: every response of a policy that has seven, and every group of two or three of them.

For each estimator that claims to be unbiased the mean over all outcomes is the true gradient; for the others it is
seen that it is not. All through the real credit, denominators and loss.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.credit import GroupMean, LeaveOneOut, Link, MaxRL, Members, NoBaseline, PassK, advantages
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from policy_rows import evaluate, row

# Two letters and an end; a response ends with the end or after two tokens, so lengths differ.
RESPONSES = [(2,), *itertools.product((0, 1), (0, 1, 2))]
REWARDS = np.array([0.3, 1.0, 0.0, 0.0, 2.0, 0.5, 1.0])
LONGEST = 2
Policy = list[Tensor]


def tables(seed: int) -> Policy:
    """Logits of the first token, and of the second given the first."""
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(0, 1, shape)).requires_grad_() for shape in ((3,), (2, 3))]


def along(policy: Policy) -> list[list[Tensor]]:
    """For each response the log-probabilities of all tokens at each of its places."""
    first, second = (logits.log_softmax(-1) for logits in policy)
    return [[first, *(second[token] for token in response[:-1])] for response in RESPONSES]


def logprobs_of(policy: Policy) -> list[Tensor]:
    """For each response the log-probabilities of its tokens."""
    return [
        torch.stack([logps[token] for logps, token in zip(places, response, strict=True)])
        for places, response in zip(along(policy), RESPONSES, strict=True)
    ]


def entropy(logps: Tensor) -> Tensor:
    return -(logps.exp() * logps).sum()


def probabilities(policy: Policy) -> list[Tensor]:
    return [lp.sum().exp() for lp in logprobs_of(policy)]


def flat(policy: Policy, value: Tensor) -> Tensor:
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, policy)])


def true_gradient(policy: Policy) -> Tensor:
    return flat(policy, torch.stack(probabilities(policy)) @ torch.from_numpy(REWARDS))


def mean_gradient(
    objective: dict[str, Any],
    policy: Policy,
    group: int = 1,
    chain: Sequence[Link] = (NoBaseline(),),
    sampler: Policy | None = None,
    reference: Policy | None = None,
    rewards: np.ndarray = REWARDS,
) -> Tensor:
    """Mean, over all groups drawn from ``sampler``, of what the loss of one of them lets the policy gain.

    ``constant`` divides by the group and by ``LONGEST``. The order of a group is nothing (see the tests of credit and
    of the split), so each is drawn once and counts for all of its orders.
    """
    loss = PolicyLoss(ObjectiveOptions(**{"surrogate": "unclipped", "aggregate": "constant", **objective}), LONGEST)
    logprobs, entropies = logprobs_of(policy), [torch.stack([entropy(p) for p in ps]) for ps in along(policy)]
    drawn = [lp.detach() for lp in logprobs_of(sampler or policy)]
    pulling = [lp.detach() for lp in logprobs_of(reference or policy)]
    total = torch.zeros((), dtype=torch.float64)
    for outcome in itertools.combinations_with_replacement(range(len(RESPONSES)), group):
        orders = math.factorial(group) // math.prod(math.factorial(outcome.count(i)) for i in set(outcome))
        lengths = np.array([len(RESPONSES[i]) for i in outcome])
        earned = rewards[list(outcome)]
        shares = advantages(chain, Members(earned, earned == 1, lengths))
        rows = [replace(row(a), old_logprobs_N=drawn[i].numpy()) for i, a in zip(outcome, shares, strict=True)]
        begun, _ = loss.begin(rows, lambda rows, outcome=outcome: [logprobs[i].detach().numpy() for i in outcome])
        gathered = [torch.cat([of[i] for i in outcome]) for of in (logprobs, entropies, pulling)]
        value, _ = loss(TokenBatch.of(loss.prepare(begun), gathered[0].detach()), *gathered)
        total = total - orders * math.prod(float(drawn[i].sum().exp()) for i in outcome) * value
    return flat(policy, total)


def multiple(found: Tensor, of: Tensor) -> float:
    """By what number ``of`` is multiplied in ``found``; NaN where that is another direction."""
    factor = float(found @ of / (of @ of))
    return factor if torch.allclose(found, factor * of, rtol=1e-8, atol=1e-10) else math.nan


def times_true(found: Tensor, policy: Policy) -> float:
    return multiple(found, true_gradient(policy)) * LONGEST


LEVELS = ("token", "sequence", "sequence_token")
SURROGATES: list[dict[str, Any]] = [
    *({"clip": {"low": 0.2, "high": 0.28, "dual": 3.0, "ratio": level}} for level in LEVELS),
    *({"unclipped": {"ratio": level}} for level in LEVELS),
    {"cispo": [0.2, 0.5]},
    {"gmpo": [0.4, 0.4]},
    {"sapo": {}},
]


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_on_policy_every_surrogate_is_the_policy_gradient(surrogate: dict[str, Any]) -> None:
    policy = tables(0)
    assert times_true(mean_gradient({"surrogate": surrogate}, policy), policy) == pytest.approx(1)


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("baseline", [NoBaseline(), LeaveOneOut(), GroupMean(std=False)])
def test_the_constant_denominator_has_the_true_gradient(baseline: Link, group: int) -> None:
    """Shortened by 1/G where a member's own reward is in its baseline: Dr. GRPO."""
    policy = tables(0)
    shorter = 1 - 1 / group if isinstance(baseline, GroupMean) else 1.0
    assert times_true(mean_gradient({}, policy, group, [baseline]), policy) == pytest.approx(shorter)


@pytest.mark.parametrize(
    ("baseline", "objective"),
    [
        (GroupMean(std=True), {}),  # GRPO: divided by a spread that depends on the outcome
        (LeaveOneOut(), {"aggregate": "token_mean"}),  # divided by lengths that depend on the outcome
        (LeaveOneOut(), {"aggregate": "sequence_mean"}),
    ],
)
def test_these_are_no_multiple_of_the_true_gradient(baseline: Link, objective: dict[str, Any]) -> None:
    policy = tables(0)
    assert math.isnan(times_true(mean_gradient(objective, policy, 2, [baseline]), policy))


SOLVES = (REWARDS == 1).astype(np.float64)


def test_what_follows_pass_at_k_follows_it_through_the_loss() -> None:
    """Three drawn: the gradient of pass@2 under PKPO, and of the first two terms of log pass@1 under MaxRL."""
    policy = tables(0)
    solved = torch.stack(probabilities(policy)) @ torch.from_numpy(SOLVES)
    pass_at_2, truncated = 1 - (1 - solved) ** 2, solved + (1 - (1 - solved) ** 2) / 2
    for baseline, value in ((PassK(k=2, variant="pkpo"), pass_at_2), (MaxRL(), truncated)):
        found = mean_gradient({}, policy, 3, [baseline], rewards=SOLVES)
        true = torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, policy, retain_graph=True)])
        assert multiple(found, true) * LONGEST == pytest.approx(1)


@pytest.mark.parametrize(
    ("objective", "exact"),
    [
        ({"correction": {"truncate": {"level": "sequence", "cap": 1e6}}}, True),
        ({"correction": {"mask": {"level": "sequence", "high": 1e6}}}, True),
        ({"correction": {"truncate": {"level": "sequence", "cap": 1.0}}}, False),
        ({"correction": {"truncate": {"level": "token", "cap": 1e6}}}, False),  # leaves out the other tokens' ratios
        ({"correction": {"truncate": {"level": "geometric", "cap": 1e6}}}, False),
        ({"correction": "recompute"}, False),
        ({"surrogate": {"unclipped": {"ratio": "token"}}}, False),
        ({"surrogate": {"unclipped": {"ratio": "sequence"}}}, False),
    ],
)
def test_off_policy_the_product_of_a_responses_weights_is_exact_and_nothing_else_is(
    objective: dict[str, Any], exact: bool
) -> None:
    """Sampled by another policy; with a baseline of the others' rewards too, which need no weight."""
    policy, sampler = tables(0), tables(1)
    for group, baseline, shorter in ((1, NoBaseline(), 1), (2, LeaveOneOut(), 1), (2, GroupMean(std=False), 1 / 2)):
        factor = times_true(mean_gradient(objective, policy, group, [baseline], sampler), policy)
        assert factor == pytest.approx(shorter) if exact else math.isnan(factor)


def responses_kl(policy: Policy, reference: Policy, held: bool) -> Tensor:
    """KL(policy || reference) of whole responses; ``held``: without what a token does to those after it."""
    first, second = (logits.log_softmax(-1) for logits in policy)
    first_ref, second_ref = (logits.detach().log_softmax(-1) for logits in reference)
    reached = first.exp()[:2]
    after = (second.exp() * (second - second_ref)).sum(-1)
    return (first.exp() * (first - first_ref)).sum() + (reached.detach() if held else reached) @ after


def test_each_kl_has_the_gradient_that_is_stated() -> None:
    """k1 none; k2 that of each token's KL, given what stands before it; k3 that of the KL the other way round.

    None has the gradient of the KL of whole responses, which counts how a token leads to those after it.
    """
    policy, reference = tables(0), tables(2)

    def pull(estimator: str) -> Tensor:
        objective = {"kl": {"coef": 1.0, "estimator": estimator}}
        return -LONGEST * mean_gradient(objective, policy, reference=reference, rewards=np.zeros(len(RESPONSES)))

    held, whole = (flat(policy, responses_kl(policy, reference, held)) for held in (True, False))
    first, second = (logits.log_softmax(-1) for logits in policy)
    first_ref, second_ref = (logits.detach().log_softmax(-1) for logits in reference)
    after = -(second_ref.exp() * second).sum(-1)
    forward = flat(policy, -(first_ref.exp() * first).sum() + first.detach().exp()[:2] @ after)
    assert torch.allclose(pull("k1"), torch.zeros(9, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(pull("k2"), held)
    assert torch.allclose(pull("k3"), forward)
    assert not any(torch.allclose(pull(name), whole, rtol=1e-2) for name in ("k1", "k2", "k3"))


def test_the_entropy_bonus_follows_the_entropy_of_each_token_given_what_stands_before_it() -> None:
    policy = tables(0)
    first, second = (logits.log_softmax(-1) for logits in policy)
    after = -(second.exp() * second).sum(-1)
    true = flat(policy, entropy(first) + first.detach().exp()[:2] @ after)
    found = mean_gradient({"entropy": {"bonus": 1.0}}, policy, rewards=np.zeros(len(RESPONSES)))
    assert torch.allclose(LONGEST * found, true)


def off_policy_batch() -> tuple[list[Any], Tensor]:
    """Rows of several lengths and signs, and a policy away from theirs and from every kink."""
    rng = np.random.default_rng(3)
    batch = [row(np.full(n, a), rng.normal(-1, 0.3, n)) for n, a in ((3, 1.5), (1, -1.0), (4, -0.5), (2, 0.0))]
    return batch, torch.from_numpy(rng.normal(-1, 0.5, 10)).requires_grad_()


@pytest.mark.parametrize("surrogate", [s for s in SURROGATES if "cispo" not in s and "sequence_token" not in str(s)])
def test_off_policy_gradients_are_those_of_the_value(surrogate: dict[str, Any]) -> None:
    """By finite differences. (CISPO and sequence_token hold parts back from the gradient, see the next.)"""
    batch, logprobs = off_policy_batch()
    assert torch.autograd.gradcheck(lambda x: evaluate({"surrogate": surrogate}, x, batch)[0], (logprobs,))


@pytest.mark.parametrize("term", ["k1", "k2", "k3", "kl_cov", "entropy"])
def test_gradients_of_the_other_terms_are_those_of_their_values(term: str) -> None:
    batch, logprobs = off_policy_batch()
    objective: dict[str, Any] = {"surrogate": "unclipped"}
    if term == "kl_cov":
        objective["select"] = {"kl_cov": {"share": 0.5, "coef": 2.0}}
    elif term == "entropy":
        objective["entropy"] = {"bonus": 0.3}
    else:
        objective["kl"] = {"coef": 0.7, "estimator": term}
    reference = None if "kl" not in objective else torch.linspace(-2, 0, 10, dtype=torch.float64)

    def loss(x: Tensor) -> Tensor:
        return evaluate(objective, x, batch, entropies=-x * x.exp(), reference=reference)[0]

    assert torch.autograd.gradcheck(loss, (logprobs,))
    plain = evaluate({"surrogate": "unclipped"}, logprobs, batch)[0]
    assert not torch.allclose(*(torch.autograd.grad(value, logprobs)[0] for value in (loss(logprobs), plain)))


def test_what_is_held_back_from_the_gradient() -> None:
    """CISPO's weight is a constant; sequence_token has the ratio of the response as a constant on each token's own."""
    batch, logprobs = off_policy_batch()
    advantages = torch.from_numpy(np.concatenate([r.advantages_N for r in batch]))
    old = torch.from_numpy(np.concatenate([r.old_logprobs_N for r in batch]).astype(np.float64))
    ratio = (logprobs - old).detach().exp()
    means = [part.log().mean().exp().expand(len(part)) for part in ratio.split([len(r.token_ids) for r in batch])]
    for surrogate, weight in (
        ({"cispo": [0.2, 0.1]}, ratio.clamp(0.8, 1.1)),
        ({"unclipped": {"ratio": "sequence_token"}}, torch.cat(means)),
    ):
        assert not torch.allclose(weight, ratio)
        value, _ = evaluate({"surrogate": surrogate}, logprobs, batch)
        assert torch.allclose(torch.autograd.grad(value, logprobs)[0], -weight * advantages)
