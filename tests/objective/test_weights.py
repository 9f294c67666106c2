"""Denominators: what one token's loss counts in the loss of an optimizer batch, against hand calculation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.objective.options import ObjectiveOptions
from outrider.objective.weights import token_weights
from outrider.record.row import WeightedRow
from policy_rows import row


def plain(own: int, advantage: float = 1.0, stream: str = "main", untrained: int = 0) -> WeightedRow:
    trainable = np.arange(own) >= untrained
    return row(np.where(trainable, advantage, 0.0), trainable=trainable, stream=stream)


def weights(rows: list[WeightedRow], max_tokens: int = 100, **options: object) -> list[float]:
    return token_weights(rows, ObjectiveOptions(**options), max_tokens).tolist()


def test_token_mean_gives_every_trainable_token_the_same_weight() -> None:
    assert weights([plain(3), plain(5, untrained=2), plain(2, advantage=0.0)]) == [1 / 8] * 3


def test_sequence_mean_gives_every_row_the_same_weight() -> None:
    rows = [plain(4), plain(2), plain(3, untrained=3)]
    assert weights(rows, aggregate="sequence_mean") == [1 / 8, 1 / 4, 0.0]


def test_constant_denominator_knows_no_length() -> None:
    assert weights([plain(4), plain(2)], 10, aggregate="constant") == [1 / 20] * 2
    assert weights([plain(4), plain(2)], 10, aggregate={"constant": {"length": 50}}) == [1 / 100] * 2
    # a row without any trainable token is a row all the same
    assert weights([plain(4), plain(2, untrained=2)], 10, aggregate="constant") == [1 / 20, 0.0]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("token_mean", [1 / 6, 0.0, 1 / 6, 1 / 3]),
        ("sequence_mean", [1 / 8, 0.0, 1 / 4, 1 / 3]),
        ("constant", [1 / 20, 0.0, 1 / 20, 1 / 10]),
    ],
)
def test_with_signal_neither_counts_nor_trains_a_row_without_advantage(aggregate: str, expected: list[float]) -> None:
    rows = [plain(4), plain(7, advantage=0.0), plain(2), plain(3, stream="branch")]
    options = {"aggregate": {aggregate: {"denominator": "with_signal"}}, "streams": {"main": 1.0, "branch": 1.0}}
    assert weights(rows, 10, **options) == expected
    assert weights([plain(7, advantage=0.0)], 10, **options) == [0.0]


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["main", "branch"])), min_size=1, max_size=9))
def test_each_stream_weighs_its_lambda_whatever_its_size(rows: list[tuple[int, str]]) -> None:
    options = ObjectiveOptions(streams={"main": 1.0, "branch": 0.25})
    made = [plain(own, stream=stream) for own, stream in rows]
    per_row = token_weights(made, options, 10) * [len(r.token_ids) for r in made]
    for stream, weight in options.streams.items():
        total = sum(w for w, r in zip(per_row, made, strict=True) if r.stream == stream)
        assert total == pytest.approx(weight if any(s == stream for _, s in rows) else 0.0)


def test_a_stream_without_weight_is_refused_and_one_without_tokens_weighs_nothing() -> None:
    with pytest.raises(UserError, match="no weight for stream 'brnch' \\(did you mean 'branch'"):
        weights([plain(2, stream="brnch")], streams={"main": 1, "branch": 1})
    for aggregate in ("token_mean", "sequence_mean", "constant"):
        assert weights([plain(2, untrained=2)], aggregate=aggregate) == [0.0]
    assert weights([]) == []
