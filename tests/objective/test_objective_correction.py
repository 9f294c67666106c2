"""Off-policy correction between sampler and learner: weights and gauges against hand calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from outrider.objective import Correction, Mask, Recompute, Truncate
from outrider.objective.correction import correct
from outrider.objective.options import ObjectiveOptions
from outrider.record.row import WeightedRow
from policy_rows import evaluate, row

LOG2 = math.log(2)


def two_rows() -> tuple[list[WeightedRow], list[np.ndarray]]:
    """Token weights 4 and 1/2 in the first row, 1 in the second; its last token was observed."""
    rows = [row([1.0, 1.0], [-2.0, -1.0]), row([-1.0, 0.0], [-1.0, math.nan], trainable=[True, False])]
    return rows, [np.array([-2.0 + 2 * LOG2, -1.0 - LOG2]), np.array([-1.0, -0.3])]


def weights(options: Correction) -> tuple[list[list[float]], dict[str, float]]:
    rows, gauges = correct(options, *two_rows())
    return [r.importance_N.tolist() for r in rows], gauges


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Recompute(), [[1, 1], [1, 0]]),
        (Truncate(level="token", cap=2.0), [[2, 0.5], [1, 0]]),
        (Truncate(level="sequence", cap=10.0), [[2, 2], [1, 0]]),  # 4 * 1/2
        (Truncate(level="sequence", cap=1.5), [[1.5, 1.5], [1, 0]]),
        (Truncate(level="geometric", cap=10.0), [[math.sqrt(2)] * 2, [1, 0]]),
        (Mask(level="token", low=0.4, high=2.0), [[0, 0.5], [1, 0]]),
        (Mask(level="token", low=0.6, high=5.0), [[4, 0], [1, 0]]),
        (Mask(level="sequence", high=1.9), [[0, 0], [1, 0]]),
        (Mask(level="geometric", high=1.9), [[math.sqrt(2)] * 2, [1, 0]]),
    ],
)
def test_weights_by_hand(options: Correction, expected: list[list[float]]) -> None:
    found, _ = weights(options)
    assert [r == pytest.approx(e) for r, e in zip(found, expected, strict=True)] == [True, True]


def test_gauges_are_taken_before_the_cut() -> None:
    _, gauges = weights(Truncate(level="token", cap=2.0))
    w = np.array([4.0, 0.5, 1.0])
    assert gauges == {
        "sampler_kl_k1": pytest.approx(-LOG2 / 3),  # -(2 log 2 - log 2 + 0) / 3
        "sampler_kl_k3": pytest.approx(float((w - 1 - np.log(w)).mean())),
        "weight_p01": pytest.approx(0.51),  # 0.02 of the way from 0.5 to 1
        "weight_p50": 1.0,
        "weight_p99": pytest.approx(3.94),
        "weight_max": pytest.approx(4.0),
        "weight_ess": pytest.approx(5.5**2 / 17.25 / 3),
        "weight_clamped": pytest.approx(1 / 3),
    }
    _, by_row = weights(Mask(level="sequence", high=1.9))
    assert (by_row["weight_max"], by_row["weight_clamped"]) == (pytest.approx(2.0), 0.5)  # of two rows
    recomputed = weights(Recompute())[1]  # weighs nothing, and says all the same how far the sampler is off
    assert (recomputed["weight_clamped"], recomputed["weight_max"]) == (0.0, pytest.approx(4.0))


def test_a_range_that_holds_nothing_is_refused() -> None:
    for empty in ({"correction": {"mask": {"low": 3.0}}}, {"select": {"clip_cov": {"low": 6.0}}}):
        with pytest.raises(ValueError, match="low is above high"):
            ObjectiveOptions(**empty)


def test_equal_policies_need_no_correction() -> None:
    rows = [row([1.0, -1.0], [-2.0, -1.0])]
    for options in (Recompute(), Truncate(), Mask()):
        corrected, gauges = correct(options, rows, [rows[0].old_logprobs_N])
        assert corrected[0].importance_N.tolist() == [1, 1]
        assert (gauges["sampler_kl_k1"], gauges["sampler_kl_k3"], gauges["weight_clamped"]) == (0, 0, 0)
        assert gauges["weight_ess"] == 1


def test_top_p_sampling_shows_as_kept_mass() -> None:
    """A sampler that renormalises over the kept 80 % reports log-probabilities that are log 0.8 too high."""
    p = np.array([0.5, 0.3, 0.1, 0.1])
    sampled = row([0.0] * 2, np.log(p[:2] / 0.8))
    _, gauges = correct(Truncate(), [sampled], [np.log(p[:2])])
    assert gauges["weight_p50"] == pytest.approx(0.8)
    assert gauges["sampler_kl_k1"] == pytest.approx(-math.log(0.8))


def test_extreme_and_absent_tokens() -> None:
    rows, gauges = correct(Truncate(), [row([1.0], [-500.0])], [np.array([0.0])])
    assert rows[0].importance_N.tolist() == [2.0]
    assert math.isfinite(gauges["weight_max"])
    assert correct(Truncate(level="sequence"), [], []) == ([], {})
    rows, gauges = correct(Mask(), [row([0.0], trainable=[False])], [np.array([0.0])])
    assert (rows[0].importance_N.tolist(), gauges) == ([0.0], {})


def test_the_ratio_is_to_the_learner_and_the_weight_is_on_the_policy_term_alone() -> None:
    rows, _ = correct(Truncate(cap=2.0), *two_rows())
    logprobs = torch.tensor([-2.0 + 2 * LOG2, -1.0, -1.0, -0.3], dtype=torch.float64).requires_grad_()
    reference = torch.full((4,), -1.0, dtype=torch.float64)
    loss, sums = evaluate(
        {"surrogate": "unclipped", "kl": {"coef": 1.0, "estimator": "k1"}}, logprobs, rows, reference=reference
    )
    # tokens 1 and 3 have not moved since the step began; token 2 has doubled
    policy = 2.0 * 1 + 0.5 * 2 - 1.0
    kl = (-2.0 + 2 * LOG2) + 1.0
    assert float(loss.detach()) == pytest.approx(-policy + kl)
    assert float(sums["importance"]) == pytest.approx(2.0 + 0.5 + 1.0)
