"""The log-probabilities that updates hand back for the record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from outrider.learn.local import LocalLearner
from outrider.learn.seen_logprobs import SeenLogprobs
from policy_rows import learner
from policy_rows import ragged_rows as rows
from policy_rows import row as given_row
from small import random_model


def made_anew(**options: Any) -> LocalLearner:
    return learner(random_model("qwen2").double(), lr=0.05, **options)


def test_an_update_tells_the_log_probabilities_before_it() -> None:
    made, batch = made_anew(), rows(12)
    expected = made.logprobs(batch)
    seen = made.update(batch).logprobs
    assert len(seen) == len(batch)
    computed = [one is not None for one in seen]
    assert any(computed)
    assert not all(computed), "or no row is without a signal"
    for row, before, one in zip(batch, expected, seen, strict=True):
        if one is None:
            assert not row.has_signal
        else:
            assert one.dtype == np.float32
            assert one == pytest.approx(before, abs=1e-5)


def test_of_several_epochs_the_last_counts() -> None:
    """Its pass has the weights of an update before it, which a twin makes."""
    made, twin, batch = made_anew(epochs=2), made_anew(), rows(12)
    first = twin.update(batch).logprobs
    between = twin.logprobs(batch)
    seen = made.update(batch).logprobs
    for one, early, later in zip(seen, first, between, strict=True):
        assert (one is None) == (early is None)
        if one is not None:
            assert one == pytest.approx(later, abs=1e-5)
            assert np.abs(one - early).max() > 1e-3, "or nothing is distinguished"


class Added:
    """One of two ranks: what the other has is added."""

    rank, size = 0, 2

    def __init__(self, other: torch.Tensor) -> None:
        self.other = other

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor + self.other


def test_ranks_add_their_shares_and_a_batch_begun_again_counts_once() -> None:
    batch = [replace(given_row([1.0] * n), place=place) for place, n in enumerate((2, 3, 1))]
    seen = SeenLogprobs()
    seen.begin(batch[:2])
    seen.add(batch[:1], torch.tensor([9.0, 9.0]))
    seen.forget()
    seen.add(batch[:1], torch.tensor([-1.0, -2.0]))
    found = seen.of([2, 3, 1], Added(torch.tensor([0.0, 0.0, -3.0, -4.0, -5.0, 0.0])))  # type: ignore[arg-type]
    assert [None if one is None else one.tolist() for one in found] == [[-1.0, -2.0], [-3.0, -4.0, -5.0], None]


def test_a_row_that_another_rank_has_in_a_later_batch_is_that_ranks() -> None:
    batch = [replace(given_row([1.0, 1.0]), place=0)]
    seen = SeenLogprobs()
    seen.begin(batch)
    seen.add(batch, torch.tensor([-1.0, -1.0]))
    seen.begin(batch)  # the other rank has it now
    [found] = seen.of([2], Added(torch.tensor([-2.0, -3.0])))  # type: ignore[arg-type]
    assert found is not None
    assert found.tolist() == [-2.0, -3.0]
