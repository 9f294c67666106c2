"""The objective put together: KL, entropy, what is trained, what is measured; against hand calculation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.errors import UserError
from outrider.objective import K3, KL_ESTIMATORS
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.record.row import WeightedRow
from policy_rows import evaluate, one_row, ragged_rows, row


def objective(max_tokens: int = 10, **options: object) -> PolicyLoss:
    return PolicyLoss(ObjectiveOptions(**options), max_tokens)


class K3OnFailures(K3):
    """What a newcomer writes to pull back what failed alone."""

    def acts_on(self, rows: Sequence[WeightedRow]) -> list[bool]:
        return [not row.success for row in rows]


def test_a_kl_on_failures_alone_is_one_class() -> None:
    loss = objective(kl=1.0)
    loss.options.kl.estimator = K3OnFailures()
    rows = [replace(row([1.0, 1.0]), success=success) for success in (True, False)]
    assert [told.pulled for told in loss.prepare(rows)] == [False, True]


def test_kl_is_k3_and_counts_are_exact() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.5, -1.0, -9.0], dtype=torch.float64)
    old = torch.tensor([-2.0, -2.0, -0.5], dtype=torch.float64)
    tokens = TokenBatch(old, torch.tensor([1.0, -1.0, 7.0]).double(), torch.tensor([0.5, 0.5, 0.0]).double(), [2, 1])
    loss, sums = objective(kl=0.1)(tokens, logprobs, torch.ones(3).double(), reference)
    d = reference[:2] - logprobs[:2].detach()
    kl = d.exp() - d - 1
    surrogate = 0.5 * (-1.2) + 0.5 * 1.0  # ratio e clipped at 1.2 for A = 1; ratio 1 for A = -1
    assert float(loss.detach()) == pytest.approx(surrogate + 0.1 * 0.5 * float(kl.sum()))
    assert float(sums["kl_reference"]) == pytest.approx(float(kl.sum()))
    assert float(sums["kl_old"]) == pytest.approx(math.e - 1 - 1)  # the first token's: ratio e
    counts = {name: int(sums[name]) for name in ("tokens", "clip_high", "clip_low", "log_ratio_bounded")}
    assert counts == {"tokens": 2, "clip_high": 1, "clip_low": 0, "log_ratio_bounded": 0}
    assert float(sums["entropy"]) == 2.0
    loss.backward()
    assert logprobs.grad[2] == 0  # a token of weight 0 is not trained, whatever its advantage


@pytest.mark.parametrize(("estimator", "value"), [("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) - 0.5)])
def test_kl_estimators_by_hand(estimator: str, value: float) -> None:
    """log pi = -1, log pi_ref = -1.5: d = -0.5."""
    tokens = one_row(torch.tensor([-1.0]), torch.tensor([0.0]))
    made = objective(kl={"coef": 2.0, "estimator": estimator})
    loss, sums = made(tokens, torch.tensor([-1.0]), torch.ones(1), torch.tensor([-1.5]))
    assert float(loss) == pytest.approx(2 * value)
    assert float(sums["kl_reference"]) == pytest.approx(math.exp(-0.5) + 0.5 - 1)  # always k3, which is never negative


def test_each_kl_estimator_has_the_gradient_that_is_stated() -> None:
    """Mean over the four tokens of a policy, drawn from it, against the gradients of the exact divergences."""
    torch.manual_seed(0)
    logits, reference = torch.randn(4).double().requires_grad_(), torch.randn(4).double().log_softmax(-1)

    def gradient(value: Tensor) -> Tensor:
        return torch.autograd.grad(value, logits)[0]

    logps = logits.log_softmax(-1)
    drawn = logps.detach().exp()
    found = {
        name: gradient((drawn * k().value(reference - logits.log_softmax(-1))).sum())
        for name, k in KL_ESTIMATORS.items()
    }
    reverse = gradient((logits.log_softmax(-1).exp() * (logits.log_softmax(-1) - reference)).sum())
    forward = gradient((reference.exp() * (reference - logits.log_softmax(-1))).sum())
    assert torch.allclose(found["k1"], torch.zeros(4).double(), atol=1e-15)
    assert torch.allclose(found["k2"], reverse)
    assert torch.allclose(found["k3"], forward)
    assert not torch.allclose(forward, reverse, rtol=1e-2)


def test_kl_values_of_k1_and_k3_are_unbiased() -> None:
    torch.manual_seed(1)
    policy, reference = (torch.randn(4).double().log_softmax(-1) for _ in range(2))
    exact = (policy.exp() * (policy - reference)).sum()
    for name in ("k1", "k3"):
        assert torch.allclose((policy.exp() * KL_ESTIMATORS[name]().value(reference - policy)).sum(), exact)


def test_kl_masked_without_signal_spares_silent_groups_and_no_others() -> None:
    """Also a row that is exactly average, so without advantage, in a group with signal is pulled."""
    rows = [row([0.0, 0.0], group="silent"), row([1.0], group="loud"), row([0.0], group="loud")]
    logprobs = np.array([-2.0, -0.5, -1.0, -3.0])
    reference = torch.full((4,), -1.0).double()
    for masked, spared in ((False, 0), (True, 2)):
        logprobs_N = torch.from_numpy(logprobs).requires_grad_()
        options = {"kl": {"coef": 0.5, "mask_without_signal": masked}, "surrogate": "unclipped"}
        evaluate(options, logprobs_N, rows, reference=reference)[0].backward()
        pull = [0.5 * (1 - math.exp(-1.0 - lp)) for lp in logprobs]  # d k3 / d log pi = 1 - e^d
        pull[:spared] = [0.0] * spared
        pull[2] -= 1.0  # the policy gradient of A = 1 at ratio 1
        assert logprobs_N.grad.tolist() == pytest.approx(pull)
        assert [told.trained for told in objective(**options).prepare(rows)] == [not masked, True, True]


def test_group_means_the_rows_of_one_stream() -> None:
    rows = [row([0.0], group="g"), row([1.0], group="g", stream="branch")]
    made = objective(kl={"coef": 1.0, "mask_without_signal": True}, streams={"main": 1, "branch": 1})
    assert [told.trained for told in made.prepare(rows)] == [False, True]


@pytest.mark.parametrize(
    ("options", "all_rows"),
    [
        ({}, False),
        ({"kl": 0.1}, True),
        ({"kl": {"coef": 0.1, "mask_without_signal": True}}, False),
        ({"entropy": {"bonus": 0.1}}, True),
        ({"kl": 0.1, "aggregate": {"token_mean": {"denominator": "with_signal"}}}, False),
    ],
)
def test_what_is_trained_without_advantage(options: dict[str, object], all_rows: bool) -> None:
    made = objective(**options)
    assert made.needs.all_rows == all_rows
    silent = row([0.0, 0.0], group="silent")
    assert [told.trained for told in made.prepare([row([1.0]), silent])] == [True, all_rows]
    untrainable = row([0.0], trainable=[False])
    assert [told.trained for told in made.prepare([untrainable])] == [False]


def test_a_steered_bonus_trains_rows_without_advantage_in_the_steps_that_have_one() -> None:
    """Else a batch without any advantage would be an update by AdamW's momentum alone."""
    made = objective(entropy={"target": 1.0, "bonus": 0.001})
    assert made.needs.all_rows
    for entropy, trained in ((0.5, True), (1.5, False), (0.5, True)):
        silent = row([0.0], entropies=[entropy])
        made.begin([silent], lambda rows: [])
        assert [told.trained for told in made.prepare([silent])] == [trained]
    with pytest.raises(ValueError, match=r"bonus is 0\.1, the initial coefficient, but the maximum, most, is 0\.005"):
        objective(entropy={"target": 1.0, "bonus": 0.1})


def test_the_entropy_bonus_is_in_the_units_of_the_tokens_weights() -> None:
    tokens = TokenBatch(torch.zeros(2), torch.zeros(2), torch.tensor([0.25, 0.0]), [2])
    entropies = torch.tensor([2.0, 8.0], requires_grad=True)
    loss, _ = objective(entropy={"bonus": 0.5})(tokens, torch.zeros(2), entropies, None)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(-0.5 * 0.25 * 2.0)
    assert entropies.grad.tolist() == [-0.125, 0.0]


def test_the_entropy_target_steers_the_coefficient_and_its_state_goes_on() -> None:
    """Below the target it rises, above it falls and is off; never below 0 nor above `most`."""
    made = objective(entropy={"bonus": 0.1, "target": 1.0, "step": 0.1, "most": 0.25})

    def coefficient(of: PolicyLoss, *entropies: float) -> float:
        rows = [row([0.0] * len(entropies), entropies=list(entropies))]
        return of.begin(rows, lambda rows: [])[1]["entropy_coefficient"]

    assert [coefficient(made, e) for e in (0.5, 0.5, 0.5, 1.5, 1.5)] == pytest.approx([0.1, 0.2, 0.25, 0.0, 0.0])
    again = objective(entropy={"bonus": 0.1, "target": 1.0, "step": 0.1, "most": 0.25})
    again.load_state_dict(made.state_dict())
    # the mean is over tokens: (0.2 + 1.2 + 1.3) / 3 is below 1
    assert coefficient(again, 0.2, 1.2, 1.3) == coefficient(made, 0.2, 1.2, 1.3) == pytest.approx(0.05)
    assert again.begin([], lambda rows: [])[1] == {"entropy_coefficient": pytest.approx(0.05)}
    with pytest.raises(UserError, match=r"objective\.entropy\.target needs the entropy of every token"):
        made.begin([row([0.0])], lambda rows: [])


def test_a_huge_ratio_is_bounded_and_counted() -> None:
    tokens = one_row(torch.tensor([-200.0]), torch.tensor([-1.0]))
    loss, sums = objective()(tokens, torch.tensor([0.0]), torch.zeros(1), None)
    assert torch.isfinite(loss)
    assert int(sums["log_ratio_bounded"]) == 1


EVERYTHING: list[dict[str, object]] = [
    {},
    {"kl": {"coef": 0.1, "estimator": "k2"}},
    {"surrogate": {"clip": {"dual": 3.0, "ratio": "sequence"}}},
    {"surrogate": {"cispo": [0.2, 0.5]}, "entropy": {"bonus": 0.1}},
    {"surrogate": "gmpo"},
    {"surrogate": "sapo", "select": "forking"},
    {"surrogate": "unclipped", "select": "kl_cov", "correction": "truncate"},
    {"select": {"clip_cov": {"low": 0.0}}, "correction": {"mask": {}}, "kl": 0.1},
]


@pytest.mark.parametrize("options", EVERYTHING)
def test_a_token_without_log_probability_changes_neither_loss_nor_gradient(options: dict[str, object]) -> None:
    """Tokens that were observed, not sampled, have the log-probability NaN and the weight 0."""

    def trained(n: int) -> tuple[float, list[float], dict[str, float]]:
        made = objective(**options)
        observed = row([2.0, -1.0, 0.0][:n], [-1.5, -1.0, math.nan][:n], [1.0, 0.5, 0.7][:n], [True, True, False][:n])
        begun, _ = made.begin([observed], lambda rows: [np.array([-1.4, -1.1, -0.1])[:n]])
        logprobs = torch.tensor([-1.0, -1.2, -3.0])[:n].requires_grad_()
        told = TokenBatch.of(made.prepare(begun), logprobs.detach())
        loss, sums = made(told, logprobs, torch.ones(n), torch.tensor([-1.2, -1.0, math.nan])[:n])
        loss.backward()
        return float(loss.detach()), logprobs.grad.tolist(), {name: float(value) for name, value in sums.items()}

    (alone, slope, counted), (with_observed, slopes, counted_too) = trained(2), trained(3)
    assert (with_observed, slopes, counted_too) == (alone, [*slope, 0.0], counted)


@pytest.mark.parametrize("options", EVERYTHING)
def test_a_call_returns_the_diagnostics_that_were_announced(options: dict[str, object]) -> None:
    """A rank without rows must know what to add."""
    made = objective(**{"streams": {"main": 1.0, "branch": 1.0}, **options})
    rows, _ = made.begin(ragged_rows(), lambda rows: [r.old_logprobs_N for r in rows])
    told = [t for t in made.prepare(rows) if t.trained]
    n = sum(len(t.token_ids) for t in told)
    reference = torch.zeros(n) if made.needs.reference else None
    _, sums = made(TokenBatch.of(told, torch.zeros(n)), torch.zeros(n), torch.ones(n), reference)
    assert sorted(sums) == sorted(made.needs.diagnostics)
