"""SimKO where responses fork: against the paper's formula over whole distributions, and by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.model.head import logit_statistics
from outrider.objective import Simko
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.ratio import TokenRatios
from outrider.objective.tokens import TokenBatch
from outrider.record.row import WeightedRow

LENGTHS, SAMPLED = [6, 1, 4], [0, 3, 1, 2, 2, 0, 1, 4, 0, 0, 2]
ADVANTAGES = [0.7] * 6 + [1.3] + [-0.4] * 4


def logits(seed: int) -> Tensor:
    return torch.randn(len(SAMPLED), 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gain(component: Simko, now: Tensor, old: Tensor, live: Tensor) -> Tensor:
    """What the component makes of what a learner tells."""
    sampled = torch.tensor(SAMPLED)
    logprobs, entropies, top = logit_statistics(now, sampled, top=component.reads_top)
    before, _, _ = logit_statistics(old, sampled)
    log_ratio = torch.where(live, logprobs - before.detach(), 0.0)
    advantages = torch.where(live, torch.tensor(ADVANTAGES, dtype=torch.float64), 0.0)
    found, _ = component.gain(TokenRatios(log_ratio, logprobs, advantages, live, LENGTHS, entropies, top))
    return torch.where(live, found, 0.0)


def by_formula(component: Simko, now: Tensor, old: Tensor, live: Tensor) -> Tensor:
    """Token by token over the whole distributions, with the ratio of each of the likeliest tokens written out."""
    gains, start = [], 0
    new_V, old_V = now.log_softmax(-1), old.log_softmax(-1).detach()
    entropies = -(new_V.exp() * new_V).sum(-1).detach()
    for length in LENGTHS:
        places = range(start, start + length)
        start += length
        of_row = [float(entropies[t]) for t in places if live[t]]
        bound = np.quantile(of_row, component.quantile) if of_row else math.nan
        for t in places:
            if not live[t]:
                gains.append(now.new_zeros(()))
                continue
            advantage, ratio = ADVANTAGES[t], (new_V[t, SAMPLED[t]] - old_V[t, SAMPLED[t]]).exp()
            likeliest = sorted(range(5), key=lambda v: -float(new_V[t, v].detach()))[: component.top]
            if float(entropies[t]) > bound and advantage > 0:
                each = [(new_V[t, v] - old_V[t, v]).exp() for v in likeliest]
                shared = torch.stack([(ratio / one).detach() * one for one in each]).mean()
                ratio = (1 - component.share) * ratio + component.share * shared
            if float(entropies[t]) > bound and advantage < 0 and SAMPLED[t] == likeliest[0]:
                advantage = component.penalty * advantage
            clipped = ratio.clamp(1 - component.low, 1 + component.high)
            gains.append(torch.minimum(ratio * advantage, clipped * advantage))
    return torch.stack(gains)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("top", [1, 3, 9])
@pytest.mark.parametrize("quantile", [0.0, 0.3, 0.8])
def test_value_and_gradient_are_those_of_the_formula(seed: int, top: int, quantile: float) -> None:
    """Also with an observed token, off-policy, and with more likeliest tokens than there are."""
    component = Simko(low=0.2, high=0.3, quantile=quantile, top=top, share=0.4, penalty=1.7)
    live = torch.ones(len(SAMPLED), dtype=torch.bool)
    live[2] = False
    old, now = logits(seed), (logits(seed) + 0.3 * logits(seed + 100)).requires_grad_()
    found, expected = gain(component, now, old, live), by_formula(component, now, old, live)
    torch.testing.assert_close(found, expected)
    mix = torch.randn(len(SAMPLED), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    [slopes], [wanted] = (torch.autograd.grad((mix * each).sum(), now) for each in (found, expected))
    torch.testing.assert_close(slopes, wanted)


def test_a_share_of_a_success_goes_to_the_likeliest() -> None:
    """Two tokens, p = (0.5, 0.25, 0.25) and (1, 0, 0): the first forks. It drew the second of the three."""
    now = torch.tensor([[math.log(2.0), 0.0, 0.0], [50.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    logprobs, entropies, top = logit_statistics(now, torch.tensor([1, 0]), top=1)
    ones = torch.ones(2, dtype=torch.float64)
    told = TokenRatios(logprobs - logprobs.detach(), logprobs, ones, ones > 0, [2], entropies, top)
    found, marks = Simko(quantile=0.5, top=1, share=0.2).gain(told)
    [slopes] = torch.autograd.grad(found.sum(), now)
    # 0.8 (e_1 - p) + 0.2 (e_0 - p)
    assert slopes[0].tolist() == pytest.approx([0.2 - 0.5, 0.8 - 0.25, -0.25])
    assert marks["forking"].tolist() == [True, False]


def test_tokens_that_cannot_be_sampled_have_no_gradient() -> None:
    """A mask of logits: of the three likeliest one has a log-probability of -inf."""
    now = torch.tensor([[1.0, 0.5, -math.inf], [9.0, 0.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    logprobs, entropies, top = logit_statistics(now, torch.tensor([1, 0]), top=3)
    ones = torch.ones(2, dtype=torch.float64)
    told = TokenRatios(logprobs - logprobs.detach(), logprobs, ones, ones > 0, [2], entropies, top)
    found, _ = Simko(quantile=0.5, share=0.5).gain(told)
    [slopes] = torch.autograd.grad(found.sum(), now)
    assert found.tolist() == [1.0, 1.0]
    assert torch.isfinite(slopes[:, :2]).all()


def test_the_objective_hands_over_what_it_is_told() -> None:
    """A failure of two tokens, of which the first forks and is the likeliest: 1.5 + 1 in the place of 2."""
    loss = PolicyLoss(ObjectiveOptions(surrogate={"simko": {"quantile": 0.5, "penalty": 1.5}}, aggregate="constant"), 1)
    assert loss.needs.top == 3
    row = WeightedRow(
        np.zeros(1, np.int32), np.zeros(2, np.int32), np.log([0.5, 0.9]), np.full(2, -1.0), np.ones(2, bool)
    )
    weighted = [replace(row, weight=1.0, trained=True)]
    logprobs = torch.log(torch.tensor([0.5, 0.9], dtype=torch.float64))
    top = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]], dtype=torch.float64))
    value, told = loss(TokenBatch.of(weighted, logprobs), logprobs, torch.tensor([1.0, 0.4]), None, top)
    assert value.item() == pytest.approx(2.5)
    assert told["forking"].item() == 1
