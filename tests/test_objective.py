"""Token weights and the policy loss, against hand calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss, Tokens
from outrider.objective.row import Row
from outrider.objective.weights import token_weights


def row(own: int, advantage: float = 1.0, stream: str = "main", untrained: int = 0) -> Row:
    trainable = np.ones(own, np.bool_)
    trainable[:untrained] = False
    return Row(
        np.array([1], np.int32),
        np.full(own, 5, np.int32),
        np.zeros(own, np.float32),
        np.where(trainable, advantage, 0.0),
        trainable,
        stream,
        f"g{own}",
    )


def test_token_mean_gives_every_trainable_token_the_same_weight() -> None:
    weights = token_weights([row(3), row(5, untrained=2), row(2, advantage=0.0)], ObjectiveOptions(), 100)
    assert [w.tolist() for w in weights] == [[1 / 8] * 3, [0, 0] + [1 / 8] * 3, [1 / 8] * 2]


def test_sequence_mean_gives_every_row_the_same_weight() -> None:
    weights = token_weights([row(4), row(2), row(3, untrained=3)], ObjectiveOptions(aggregate="sequence_mean"), 100)
    assert [w.sum() for w in weights] == [0.5, 0.5, 0.0]
    assert weights[0].tolist() == [1 / 8] * 4


def test_constant_denominator_knows_no_length() -> None:
    options = ObjectiveOptions(aggregate="constant")
    assert token_weights([row(4), row(2)], options, 10)[0].tolist() == [1 / 20] * 4
    fixed = ObjectiveOptions(aggregate="constant", constant_length=50)
    assert token_weights([row(4), row(2)], fixed, 10)[0].tolist() == [1 / 100] * 4


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["main", "branch"])), min_size=1, max_size=9))
def test_each_stream_weighs_its_lambda_whatever_its_size(rows: list[tuple[int, str]]) -> None:
    options = ObjectiveOptions(streams={"main": 1.0, "branch": 0.25})
    made = [row(own, stream=stream) for own, stream in rows]
    weights = token_weights(made, options, 10)
    for stream, weight in options.streams.items():
        total = sum(w.sum() for w, r in zip(weights, made, strict=True) if r.stream == stream)
        assert total == pytest.approx(weight if any(s == stream for _, s in rows) else 0.0)


def test_a_stream_without_weight_is_refused_and_one_without_tokens_weighs_nothing() -> None:
    with pytest.raises(UserError, match="no weight for stream 'brnch' \\(did you mean 'branch'"):
        token_weights([row(2, stream="brnch")], ObjectiveOptions(streams={"main": 1, "branch": 1}), 10)
    for aggregate in ("token_mean", "sequence_mean", "constant"):
        assert token_weights([row(2, untrained=2)], ObjectiveOptions(aggregate=aggregate), 10)[0].tolist() == [0, 0]


def loss_of(ratio: float, advantage: float, **options: object) -> tuple[float, float]:
    """Loss and its derivative by log pi of a single token of weight 1."""
    logprob = torch.tensor([np.log(ratio)], dtype=torch.float64, requires_grad=True)
    tokens = Tokens(*(torch.tensor([x], dtype=torch.float64) for x in (0.0, advantage, 1.0)))
    loss, _ = PolicyLoss(ObjectiveOptions(**options))(tokens, logprob, torch.zeros(1), None)
    loss.backward()
    return loss.item(), logprob.grad.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),  # on-policy: the policy gradient
        (1.1, 2.0, -2.2, -2.2),  # inside the clip range
        (1.5, 2.0, -1.28 * 2, 0.0),  # good and already likelier than 1 + 0.28: nothing more to gain
        (0.5, 2.0, -1.0, -1.0),  # good but less likely: never clipped
        (0.5, -2.0, 1.6, 0.0),  # bad and already less likely than 1 - 0.2: nothing more to lose
        (1.5, -2.0, 3.0, 3.0),  # bad and likelier: never clipped
    ],
)
def test_clip(ratio: float, advantage: float, loss: float, slope: float) -> None:
    assert loss_of(ratio, advantage, clip=(0.2, 0.28)) == pytest.approx((loss, slope))


def test_kl_is_k3_and_counts_are_exact() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.5, -1.0, -9.0], dtype=torch.float64)
    old = torch.tensor([-2.0, -2.0, -0.5], dtype=torch.float64)
    tokens = Tokens(old, torch.tensor([1.0, -1.0, 7.0]).double(), torch.tensor([0.5, 0.5, 0.0]).double())
    loss, sums = PolicyLoss(ObjectiveOptions(kl=0.1))(tokens, logprobs, torch.ones(3).double(), reference)
    d = reference[:2] - logprobs[:2].detach()
    kl = d.exp() - d - 1
    surrogate = 0.5 * (-1.2) + 0.5 * 1.0  # ratio e clipped at 1.2 for A = 1; ratio 1 for A = -1
    assert float(loss.detach()) == pytest.approx(surrogate + 0.1 * 0.5 * float(kl.sum()))
    assert float(sums["kl_reference"]) == pytest.approx(float(kl.sum()))
    assert {name: int(sums[name]) for name in ("tokens", "clip_high", "clip_low", "log_ratio_bounded")} == {
        "tokens": 2,
        "clip_high": 1,
        "clip_low": 0,
        "log_ratio_bounded": 0,
    }
    assert float(sums["entropy"]) == 2.0
    loss.backward()
    assert logprobs.grad[2] == 0  # a token of weight 0 is not trained, whatever its advantage


def test_a_huge_ratio_is_bounded_and_counted() -> None:
    tokens = Tokens(*(torch.tensor([x]) for x in (-200.0, -1.0, 1.0)))
    loss, sums = PolicyLoss(ObjectiveOptions())(tokens, torch.tensor([0.0]), torch.zeros(1), None)
    assert torch.isfinite(loss)
    assert int(sums["log_ratio_bounded"]) == 1


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_a_token_without_log_probability_changes_neither_loss_nor_gradient(kl: float) -> None:
    """Tokens that were observed, not sampled, have the log-probability NaN and the weight 0."""

    def trained(n: int) -> tuple[float, list[float], dict[str, float]]:
        logprobs = torch.tensor([-1.0, -3.0])[:n].requires_grad_()
        tokens = Tokens(*(torch.tensor(x)[:n] for x in ([-1.5, math.nan], [2.0, 0.0], [1.0, 0.0])))
        reference = torch.tensor([-1.2, math.nan])[:n]
        loss, sums = PolicyLoss(ObjectiveOptions(kl=kl))(tokens, logprobs, torch.ones(n), reference)
        loss.backward()
        return float(loss.detach()), logprobs.grad.tolist(), {name: float(value) for name, value in sums.items()}

    (alone, slope, counted), (with_observed, slopes, counted_too) = trained(1), trained(2)
    assert (with_observed, slopes, counted_too) == (alone, [*slope, 0.0], counted)
