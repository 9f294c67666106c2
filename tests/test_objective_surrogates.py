"""Surrogates: hand numbers, numerical gradients, and means over all outcomes of a policy that can be enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.row import Row
from outrider.objective.tokens import Tokens
from policy_rows import evaluate, one_row, row


def gain(surrogate: object, ratios: list[float], advantages: list[float]) -> tuple[float, list[float]]:
    """Sum of gains over one row and its derivative by each log pi; sampled with probability 1/2 each."""
    old = torch.full((len(ratios),), -math.log(2), dtype=torch.float64)
    logprobs = (old + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    tokens = one_row(old, torch.tensor(advantages, dtype=torch.float64))
    loss, _ = PolicyLoss(ObjectiveOptions(surrogate=surrogate), 1)(tokens, logprobs, torch.zeros(len(ratios)), None)
    loss.backward()
    return -loss.item(), (-logprobs.grad).tolist()


CLIP = {"clip": [0.2, 0.28]}


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "slope"),
    [
        (1.0, 2.0, 2.0, 2.0),  # on-policy: the policy gradient
        (1.1, 2.0, 2.2, 2.2),  # inside the clip range
        (1.5, 2.0, 1.28 * 2, 0.0),  # good and already likelier than 1 + 0.28: nothing more to gain
        (0.5, 2.0, 1.0, 1.0),  # good but less likely: never clipped
        (0.5, -2.0, -1.6, 0.0),  # bad and already less likely than 1 - 0.2: nothing more to lose
        (1.5, -2.0, -3.0, -3.0),  # bad and likelier: never clipped
    ],
)
def test_clip(ratio: float, advantage: float, value: float, slope: float) -> None:
    assert gain(CLIP, [ratio], [advantage]) == (pytest.approx(value), pytest.approx([slope]))


def test_dual_clip_bounds_what_a_bad_token_can_cost() -> None:
    dual = {"clip": {"low": 0.2, "high": 0.28, "dual": 3.0}}
    assert gain(dual, [5.0], [-1.0]) == (pytest.approx(-3.0), [0.0])  # without: -5, slope -5
    for ratio, advantage in ((2.0, -1.0), (5.0, 1.0), (0.5, -1.0)):  # up to c, and where A > 0, it changes nothing
        assert gain(dual, [ratio], [advantage]) == gain(CLIP, [ratio], [advantage])


def test_unclipped_is_the_ratio_times_the_advantage() -> None:
    assert gain("unclipped", [5.0, 0.1], [-1.0, 2.0]) == (pytest.approx(-4.8), pytest.approx([-5.0, 0.2]))


def test_sequence_ratio_is_the_geometric_mean_and_its_gradient_goes_through_all_tokens() -> None:
    """GSPO by hand: ratios 2 and 1 give s = sqrt 2, beyond 1.28. d s / d log pi_t = s / 2, and two tokens gain s."""
    s = math.sqrt(2)
    sequence = {"clip": {"low": 0.2, "high": 0.28, "ratio": "sequence"}}
    assert gain(sequence, [2.0, 1.0], [-1.0, -1.0]) == (pytest.approx(-2 * s), pytest.approx([-s, -s]))
    assert gain(sequence, [2.0, 1.0], [1.0, 1.0]) == (pytest.approx(2 * 1.28), [0.0, 0.0])
    assert gain("unclipped", [2.0, 1.0], [-1.0, -1.0])[1] == pytest.approx([-2.0, -1.0])  # by token: not the same


def test_sequence_token_ratio_has_the_value_of_one_and_the_gradient_of_the_other() -> None:
    s = math.sqrt(2)
    level = {"unclipped": {"ratio": "sequence_token"}}
    # one advantage for all: as GSPO, value and gradient
    whole = gain({"unclipped": {"ratio": "sequence"}}, [2.0, 1.0], [3.0, 3.0])
    assert gain(level, [2.0, 1.0], [3.0, 3.0]) == (pytest.approx(whole[0]), pytest.approx(whole[1]))
    # an advantage of one token alone reaches that token alone
    assert gain(level, [2.0, 1.0], [3.0, 0.0])[1] == pytest.approx([3 * s, 0.0])
    assert gain({"unclipped": {"ratio": "sequence"}}, [2.0, 1.0], [3.0, 0.0])[1] == pytest.approx([1.5 * s] * 2)


def test_cispo_bounds_the_weight_and_keeps_the_gradient() -> None:
    log_pi = math.log(2 * 0.5)  # ratio 2 of a token sampled with 1/2
    assert gain({"cispo": [None, 0.5]}, [2.0], [3.0]) == (pytest.approx(1.5 * 3 * log_pi), pytest.approx([4.5]))
    assert gain({"cispo": [None, 0.5]}, [0.25], [3.0])[1] == pytest.approx([0.75])  # no bound below
    assert gain({"cispo": [0.2, 0.5]}, [0.25], [3.0])[1] == pytest.approx([2.4])
    assert gain({"cispo": [0.2, 0.5]}, [2.0], [-1.0])[1] == pytest.approx([-1.5])  # whatever the sign


def test_gmpo_clips_each_token_and_averages_logarithms() -> None:
    """Ratios 2 and 1, A = 1: log 2 = 0.69 is cut at 0.4, the mean of 0.4 and 0 is 0.2; the cut token has no slope."""
    up, down = math.exp(0.2), math.exp(-0.2)
    assert gain("gmpo", [2.0, 1.0], [1.0, 1.0]) == (pytest.approx(2 * up), pytest.approx([0.0, up]))
    assert gain("gmpo", [0.5, 1.0], [-1.0, -1.0]) == (pytest.approx(-2 * down), pytest.approx([0.0, -down]))
    # the other sides are never clipped
    assert gain("gmpo", [2.0, 1.0], [-1.0, -1.0])[0] == pytest.approx(-2 * math.sqrt(2))
    assert gain("gmpo", [0.5, 1.0], [1.0, 1.0])[0] == pytest.approx(2 * math.sqrt(0.5))


@pytest.mark.parametrize(("advantage", "tau"), [(1.0, 1.0), (-1.0, 1.05)])
def test_sapo_gates_both_sides(advantage: float, tau: float) -> None:
    for ratio in (0.5, 2.0):
        gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
        slope = 4 * gate * (1 - gate) * ratio * advantage  # by the chain rule: d ratio / d log pi = ratio
        assert gain("sapo", [ratio], [advantage]) == (
            pytest.approx(4 / tau * gate * advantage),
            pytest.approx([slope]),
        )
    assert gain("sapo", [1.0], [advantage])[1] == pytest.approx([advantage])


LEVELS = ("token", "sequence", "sequence_token")
SURROGATES: list[dict[str, object]] = [
    *({"clip": {"low": 0.2, "high": 0.28, "dual": 3.0, "ratio": level}} for level in LEVELS),
    *({"unclipped": {"ratio": level}} for level in LEVELS),
    {"cispo": [0.2, 0.5]},
    {"gmpo": [0.4, 0.4]},
    {"sapo": {}},
]


@pytest.mark.parametrize("surrogate", [s for s in SURROGATES if "cispo" not in s and "sequence_token" not in str(s)])
def test_gradients_are_those_of_the_value(surrogate: dict[str, object]) -> None:
    """By finite differences, away from kinks. (CISPO and sequence_token hold parts back from the gradient.)"""
    rng = np.random.default_rng(3)
    batch = [row(np.full(n, a), rng.normal(-1, 0.3, n)) for n, a in ((3, 1.5), (1, -1.0), (4, -0.5), (2, 0.0))]
    logprobs = torch.from_numpy(rng.normal(-1, 0.5, 10)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: evaluate({"surrogate": surrogate}, x, batch)[0], (logprobs,))


# All outcomes of a policy over two tokens out of three.

SEQUENCES = list(itertools.product(range(3), repeat=2))
REWARDS = np.array([0.3, 1.0, 0.0, 0.0, 2.0, 0.5, 1.0, 0.0, 0.1])


def tables(seed: int) -> list[Tensor]:
    """Logits of the first token, and of the second given the first."""
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(0, 1, shape)).requires_grad_() for shape in ((3,), (3, 3))]


def logprobs_of(policy: list[Tensor]) -> Tensor:
    """``[9, 2]``: log-probability of each token of each sequence."""
    first, second = (logits.log_softmax(-1) for logits in policy)
    return torch.stack([torch.stack([first[a], second[a, b]]) for a, b in SEQUENCES])


def flat(policy: list[Tensor], value: Tensor) -> Tensor:
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, policy)])


def expected_gradient(
    objective: dict[str, object], policy: list[Tensor], sampler: Tensor, learner_old: Tensor
) -> Tensor:
    """Mean, over sequences drawn from ``sampler``, of the gradient of the gain of one of them."""
    loss = PolicyLoss(ObjectiveOptions(**objective), 1)
    rows = [
        Row(**{**_fields(row([r, r])), "old_logprobs_N": lp.numpy()}) for r, lp in zip(REWARDS, sampler, strict=True)
    ]
    total = torch.zeros((), dtype=torch.float64)
    for one, logprobs, lp, old in zip(rows, logprobs_of(policy), sampler, learner_old, strict=True):
        begun, _ = loss.begin([one], lambda rows, old=old: [old.numpy()])
        told = [t._replace(weight=1.0) for t in loss.prepare(begun)]
        value, _ = loss(Tokens.of(told, logprobs.detach()), logprobs, torch.zeros(2), None)
        total = total - lp.sum().exp() * value
    return flat(policy, total)


def _fields(made: Row) -> dict[str, object]:
    return {name: getattr(made, name) for name in Row.__dataclass_fields__}


def true_gradient(policy: list[Tensor]) -> Tensor:
    return flat(policy, (logprobs_of(policy).sum(1).exp() * torch.from_numpy(REWARDS)).sum())


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_on_policy_every_surrogate_is_the_policy_gradient(surrogate: dict[str, object]) -> None:
    policy = tables(0)
    now = logprobs_of(policy).detach()
    assert torch.allclose(expected_gradient({"surrogate": surrogate}, policy, now, now), true_gradient(policy))


def test_the_product_of_a_responses_weights_is_the_unbiased_correction_and_the_others_are_not() -> None:
    """Sampled by another policy, learned at the policy itself: E over the sampler of prod w * grad log pi * R."""
    policy, sampler = tables(0), logprobs_of(tables(1)).detach()
    now, true = logprobs_of(policy).detach(), true_gradient(policy)
    for level, exact in (("sequence", True), ("token", False), ("geometric", False)):
        objective = {"correction": {"truncate": {"level": level, "cap": 1e6}}}
        assert torch.allclose(expected_gradient(objective, policy, sampler, now), true, rtol=1e-6) == exact


def test_single_tokens_cannot_be_left_out_of_a_ratio_of_all() -> None:
    for surrogate in ({"clip": {"ratio": "sequence"}}, {"unclipped": {"ratio": "sequence"}}, "gmpo"):
        for select in ("forking", "clip_cov"):
            with pytest.raises(ValueError, match="one ratio for a whole response"):
                ObjectiveOptions(surrogate=surrogate, select=select)
        with pytest.raises(ValueError, match="correction leaves single tokens out"):
            ObjectiveOptions(surrogate=surrogate, correction={"mask": {"level": "token"}})
        ObjectiveOptions(surrogate=surrogate, select="kl_cov", correction={"mask": {"level": "sequence"}})
    by_token = {"clip": {"ratio": "sequence_token"}}
    ObjectiveOptions(surrogate=by_token, select="forking", correction={"mask": {"level": "token"}})
