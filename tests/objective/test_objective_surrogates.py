"""Surrogates against hand numbers. Their gradients by enumeration and finite differences: test_gradients.py."""

from __future__ import annotations

import math

import pytest
import torch

from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from policy_rows import one_row


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


def test_gmpo_clips_each_token_and_takes_the_mean_logarithm() -> None:
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


RATIOS, ADVANTAGES = [0.5, 0.5, 1.0, 2.0, 2.0, 5.0], [1.0, -1.0, 1.0, 1.0, -1.0, -1.0]
HALVES = (0.5 * (-0.5), 1.0 * (-0.5), 0.0, 0.5 * 1.0, 1.0 * 1.0, 1.0 * 4.0)  # tau / 2 times the ratio less 1
GATES = sum(1 / math.cosh(x) ** 2 for x in HALVES)  # 4 s (1 - s) of a sigmoid s at 2 x


@pytest.mark.parametrize(
    ("surrogate", "expected"),
    [
        ({"clip": {"low": 0.2, "high": 0.28}}, {"clip_low": 1, "clip_high": 1}),  # the second; the fourth
        ({"clip": {"low": 0.2, "high": 0.28, "dual": 3.0}}, {"clip_low": 1, "clip_high": 1, "clip_dual": 1}),
        # the geometric mean is 5^(1/6) = 1.31, beyond 1.28, for the three good tokens
        ({"clip": {"low": 0.2, "high": 0.28, "ratio": "sequence"}}, {"clip_low": 0, "clip_high": 3}),
        ({"cispo": [0.2, 0.5]}, {"clip_low": 2, "clip_high": 3}),  # whatever the sign
        ({"cispo": [None, 0.5]}, {"clip_low": 0, "clip_high": 3}),
        ({"gmpo": [0.4, 0.4]}, {"clip_low": 1, "clip_high": 1}),
        ({"sapo": {"tau_positive": 1.0, "tau_negative": 2.0}}, {"gate": GATES}),
        ("unclipped", {}),
    ],
)
def test_a_surrogate_counts_the_tokens_that_it_holds_back(surrogate: object, expected: dict[str, float]) -> None:
    """One more token of the row is not trained and counts nowhere."""
    old = torch.full((7,), -math.log(2), dtype=torch.float64)
    told = one_row(old, torch.tensor([*ADVANTAGES, 9.0], dtype=torch.float64))
    told = told._replace(weights=torch.tensor([1.0] * 6 + [0.0], dtype=torch.float64))
    logprobs = old + torch.tensor([*RATIOS, 100.0], dtype=torch.float64).log()
    made = PolicyLoss(ObjectiveOptions(surrogate=surrogate), 1)
    _, sums = made(told, logprobs, torch.zeros(7), None)
    always = {"tokens", "entropy", "kl_old", "log_ratio_bounded"}
    assert {name: float(value) for name, value in sums.items() if name not in always} == pytest.approx(expected)


def test_single_tokens_cannot_be_excluded_of_a_ratio_of_all() -> None:
    for surrogate in ({"clip": {"ratio": "sequence"}}, {"unclipped": {"ratio": "sequence"}}, "gmpo"):
        for select in ("forking", "clip_cov"):
            with pytest.raises(ValueError, match="one ratio per response"):
                ObjectiveOptions(surrogate=surrogate, select=select)
        with pytest.raises(ValueError, match="correction excludes single tokens"):
            ObjectiveOptions(surrogate=surrogate, correction={"mask": {"level": "token"}})
        ObjectiveOptions(surrogate=surrogate, select="kl_cov", correction={"mask": {"level": "sequence"}})
    by_token = {"clip": {"ratio": "sequence_token"}}
    ObjectiveOptions(surrogate=by_token, select="forking", correction={"mask": {"level": "token"}})
