"""Token selection over whole optimizer batches, against hand calculation and sorted lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.objective import ClipCov, Forking, KlCov, Selection
from outrider.objective.kl import moved
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.selection import Selected, selected
from outrider.objective.tokens import TokenBatch
from outrider.record.row import WeightedRow
from policy_rows import evaluate, ragged_rows, row


def flat(rows: list[WeightedRow], selected: list[Selected], field: str) -> list[float]:
    """The answers of all trainable tokens."""
    parts = [getattr(s, field)[r.trainable_N] for r, s in zip(rows, selected, strict=True)]
    return np.concatenate(parts).tolist()


def test_forking_keeps_the_share_with_the_highest_entropy_over_all_rows() -> None:
    rows = [
        row([1.0] * 4, entropies=[0.1, 3.0, 0.2, 9.0], trainable=[True, True, True, False]),  # 9.0 was observed
        row([1.0] * 2, entropies=[2.0, 0.3]),
    ]
    assert flat(rows, selected(Forking(share=0.4), rows), "keeps_N") == [False, True, False, True, False]
    assert flat(rows, selected(Forking(share=0.01), rows), "keeps_N").count(True) == 1  # at least one
    assert all(flat(rows, selected(Forking(share=1.0), rows), "keeps_N"))
    assert float(evaluate({"select": {"forking": {"share": 0.4}}}, np.full(6, -1.0), rows)[1]["selected"]) == 2


def test_forking_keeps_all_equals_at_the_threshold() -> None:
    rows = [row([1.0] * 5, entropies=[1.0, 2.0, 1.0, 1.0, 0.5])]
    assert flat(rows, selected(Forking(share=0.4), rows), "keeps_N") == [True, True, True, True, False]


def test_a_share_is_not_a_hair_below_itself() -> None:
    """0.29 * 100 is 28.999999999999996 in floating point."""
    rows = [row([1.0] * 100, entropies=np.arange(100).tolist())]
    assert sum(flat(rows, selected(Forking(share=0.29), rows), "keeps_N")) == 29


def test_a_sampler_without_entropies_is_refused_in_one_sentence() -> None:
    with pytest.raises(UserError, match=r"objective\.select\.forking needs the entropy of every token"):
        selected(Forking(), [row([1.0])])


COVARIANCES = [2.0, -2.0, 4.0, -4.0, 0.0]


def by_covariance() -> list[WeightedRow]:
    """Mean log-probability -2 and mean advantage 0, so the covariances are those above."""
    return [
        row([2.0, -2.0], [-1.0, -1.0], seed=1),
        row([-2.0, 2.0, 0.0], [-4.0, -4.0, 0.0], seed=2),
    ]


def test_kl_cov_holds_the_tokens_of_the_highest_covariance() -> None:
    rows = by_covariance()
    assert flat(rows, selected(KlCov(share=0.2, coef=3.0), rows), "penalties_N") == [0, 0, 3.0, 0, 0]
    assert flat(rows, selected(KlCov(share=0.4, coef=3.0), rows), "penalties_N") == [3.0, 0, 3.0, 0, 0]
    # never those that cost no entropy
    assert flat(rows, selected(KlCov(share=1.0, coef=3.0), rows), "penalties_N") == [3.0, 0, 3.0, 0, 0]
    equal = [row([1.0, 1.0], [-1.0, -2.0])]
    assert flat(equal, selected(KlCov(share=1.0), equal), "penalties_N") == [0, 0]


def test_without_a_difference_no_token_has_a_covariance() -> None:
    """The mean of equal numbers may round (that of three times 0.1 does), and a residue would decide who is held."""
    spread = -np.arange(1.0, 54.0)
    for value in (0.1, 0.35, 0.7, 1 / 3):
        for n in range(2, 54):
            alike = [row([value] * n, spread[:n])]
            assert not any(flat(alike, selected(KlCov(share=1.0), alike), "penalties_N"))
            alike = [row(spread[:n], [-value] * n)]
            assert not any(flat(alike, selected(KlCov(share=1.0), alike), "penalties_N"))


def test_kl_cov_adds_the_distance_from_the_sampler_to_the_loss() -> None:
    logprobs = torch.tensor([-1.0, -1.0, -4.5, -4.0, 0.0], dtype=torch.float64).requires_grad_()
    held = {"surrogate": "unclipped", "select": {"kl_cov": {"share": 0.2, "coef": 3.0}}}
    loss, sums = evaluate(held, logprobs, by_covariance())
    plain, _ = evaluate({"surrogate": "unclipped"}, logprobs, by_covariance())
    assert float((loss - plain).detach()) == pytest.approx(3.0 * 0.5)  # only the third has moved, by 0.5
    assert torch.autograd.grad(loss - plain, logprobs)[0].tolist() == [0, 0, -3.0, 0, 0]
    assert (float(sums["penalised"]), float(sums["penalty"])) == (1.0, pytest.approx(1.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_penalty_of_kl_cov_has_no_gradient_where_a_token_moved_by_rounding_alone(dtype: torch.dtype) -> None:
    """The first update of a step holds nothing back, whatever the last bits of two forward passes are."""
    old = torch.tensor([-1.0, -40.0, -0.001, -1.0], dtype=dtype)
    by = torch.tensor([4, -4 * 40, 4, 4000], dtype=dtype) * torch.finfo(dtype).eps
    log_ratio = by.requires_grad_()
    distance = moved(log_ratio, old)
    assert torch.autograd.grad(distance.sum(), log_ratio)[0].tolist() == [0, 0, 0, 1]
    assert distance.tolist() == [0, 0, 0, by[3].item()]


def test_clip_cov_takes_the_gradient_of_tokens_in_the_range_alone() -> None:
    rows = by_covariance()
    narrow, wide = ClipCov(share=1.0, low=1.0, high=3.0), ClipCov(share=1.0, low=1.0, high=5.0)
    assert flat(rows, selected(narrow, rows), "keeps_N") == [False, True, True, True, True]
    assert flat(rows, selected(wide, rows), "keeps_N") == [False, True, False, True, True]
    assert all(flat(rows, selected(ClipCov(share=1.0, low=8.0, high=9.0), rows), "keeps_N"))  # none is in the range
    one = flat(rows, selected(ClipCov(share=2e-4, low=1.0, high=5.0), rows), "keeps_N")
    assert one.count(False) == 1
    assert one in ([False, True, True, True, True], [True, True, False, True, True])


def test_clip_cov_draws_by_the_identity_of_a_rollout() -> None:
    """Over many seeds each of two candidates is drawn in half of the cases."""
    drawn = []
    for seed in range(400):
        rows = [WeightedRow(**{**_fields(r), "seed": seed * 2 + i}) for i, r in enumerate(by_covariance())]
        drawn.append(flat(rows, selected(ClipCov(share=2e-4, low=1.0, high=5.0), rows), "keeps_N").index(False))
    assert set(drawn) == {0, 2}
    assert abs(drawn.count(0) - 200) < 50  # five standard deviations


def _fields(made: WeightedRow) -> dict[str, object]:
    return {name: getattr(made, name) for name in WeightedRow.__dataclass_fields__}


def test_8192_tokens_lose_one_of_them_however_they_are_split() -> None:
    """A share of 0.0002 of 8,192 tokens is one; chosen in eight micro-batches it was eight elsewhere."""
    rng = np.random.default_rng(0)
    rows = [row(rng.normal(0, 2, 1024), rng.normal(-2, 1, 1024), seed=i) for i in range(8)]
    assert flat(rows, selected(ClipCov(share=2e-4, low=0.5, high=5.0), rows), "keeps_N").count(False) == 1
    assert sum(p > 0 for p in flat(rows, selected(KlCov(share=2e-4), rows), "penalties_N")) == 1


OPTIONS = [Forking(share=0.3), ClipCov(share=0.1, low=0.1, high=5.0), KlCov(share=0.1)]


@pytest.mark.parametrize("options", OPTIONS)
@given(st.permutations(range(12)))
def test_the_order_of_rows_is_nothing(options: Selection, order: list[int]) -> None:
    rows = ragged_rows(12)
    chosen, permuted = selected(options, rows), selected(options, [rows[i] for i in order])
    for place, i in enumerate(order):
        for mine, other in zip(chosen[i], permuted[place], strict=True):
            assert (mine is None and other is None) or np.array_equal(mine, other)


def test_rows_that_weigh_nothing_are_not_selected_from() -> None:
    """With `with_signal`, the silent row has the highest entropies and takes none of the share."""
    rows = [row([0.0] * 2, entropies=[9.0, 8.0]), row([1.0] * 2, entropies=[1.0, 2.0])]
    options = {"select": {"forking": {"share": 0.5}}, "aggregate": {"token_mean": {"denominator": "with_signal"}}}
    told = PolicyLoss(ObjectiveOptions(**options), 4).prepare(rows)
    assert told[0].keeps_N is None
    assert told[1].keeps_N.tolist() == [False, True]


def test_nothing_to_select_from() -> None:
    assert selected(Forking(), []) == []
    assert selected(KlCov(), [row([1.0], trainable=[False])]) == [Selected()]
    assert selected(None, [row([1.0])]) == [Selected()]


def test_a_row_without_a_decision_keeps_its_gradient_beside_one_with() -> None:
    """Of a selection from outside, say: a row that lacks its flags would shift those of the others."""
    rows = [row([1.0] * 3), replace(row([1.0]), keeps_N=np.array([False]), penalties_N=np.array([0.5]))]
    found = TokenBatch.of(rows, torch.zeros(4))
    assert found.keeps.tolist() == [1, 1, 1, 0]
    assert found.penalties.tolist() == [0, 0, 0, 0.5]
