"""The ratio of training and the clip, token by token, against the loss that trains."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.config import load_recipe
from outrider.objective.clip import Clip as ClipLoss
from outrider.objective.ratio import TokenRatios
from outrider.view.trained import clip_of, trained_tokens

NUMBERS = st.floats(-2, 2, width=32)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=8),
    st.sampled_from([None, 1.5]),
    st.sampled_from(["token", "sequence", "sequence_token"]),
)
def test_clipped_tokens_are_those_that_the_loss_marks(
    tokens: list[tuple[float, float, bool]], dual: float | None, level: str
) -> None:
    log_ratios, advantages, sampled = (list(column) for column in zip(*tokens, strict=True))
    surrogate = ClipLoss(low=0.2, high=0.28, dual=dual, ratio=level)  # type: ignore[arg-type]
    live = torch.tensor(sampled)
    ratio_N = torch.where(live, torch.tensor(log_ratios, dtype=torch.float64), 0.0)
    advantages_N = torch.where(live, torch.tensor(advantages, dtype=torch.float64), 0.0)
    _, marks = surrogate.gain(TokenRatios(ratio_N, ratio_N, advantages_N, live, [len(tokens)]))
    expected = torch.stack(list(marks.values())).any(0).tolist()
    config = {"objective": {"surrogate": {"clip": surrogate.model_dump(mode="json")}}}
    found = trained_tokens(log_ratios, sampled, advantages, clip_of(config))
    # at a bound itself the last bits of two means decide
    near = [abs(math.log(bound) - r) < 1e-6 for bound in (0.8, 1.28, 1.5) for r in [*log_ratios, _mean(tokens)]]
    for one, mark, mine in zip(found, expected, sampled, strict=True):
        assert (one is None) == (not mine)
        assert one is None or one.clipped == mark or any(near)


def _mean(tokens: list[tuple[float, float, bool]]) -> float:
    own = [ratio for ratio, _, mine in tokens if mine]
    return sum(own) / len(own) if own else 0.0


@pytest.mark.parametrize(("recipe", "clips"), [("grpo", True), ("gspo", True), ("cispo", False)])
def test_a_shipped_recipe_clips_or_has_another_loss(recipe: str, clips: bool) -> None:
    config: dict[str, Any] = load_recipe(recipe).resolved()
    assert (clip_of(config) is not None) == clips
    [token] = trained_tokens([0.5], [True], [1.0], clip_of(config))
    assert token is not None
    assert token.ratio == pytest.approx(math.exp(0.5))
    assert token.clipped == (True if clips else None)


def test_what_is_not_known_is_none() -> None:
    assert trained_tokens(None, [True, False], [1.0, 1.0], None) == [None, None]
    assert trained_tokens([math.nan, 0.0], [True, True], [1.0, None], None)[0] is None
    assert clip_of({}) is None
    assert clip_of({"objective": {"surrogate": {"clip": [0.2, 0.28]}}}) is None


@pytest.mark.parametrize(
    ("recipe", "change", "clips"),
    [
        ("grpo", "objective.correction=truncate", False),
        ("grpo", "objective.correction=recompute", False),
        ("grpo", "objective.prefix=repeat", True),
        ("gspo", "objective.prefix=mask", True),
        ("gspo", "objective.prefix=repeat", False),
    ],
)
def test_no_token_is_called_clipped_by_another_ratio_than_that_of_training(
    recipe: str, change: str, clips: bool
) -> None:
    """A correction puts the learner's log-probabilities into the ratio, and the record has the sampler's."""
    assert (clip_of(load_recipe(recipe, [change]).resolved()) is not None) == clips
