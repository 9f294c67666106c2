"""Splits the tokens and the text of a multi-turn rollout into the policy's parts and the environment's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.record.rollout import Rollout


def sampled(rollout: Rollout, relatives: Mapping[str, Rollout]) -> NDArray[np.bool_]:
    """Return a mask ``[T]`` of the response tokens that the policy sampled.

    ``relatives`` maps ids to the group's rollouts, including the parent from which the rollout's prefix was copied. If
    the parent is missing, all tokens of the prefix count as sampled. Only a parent from an earlier step may be missing;
    the prefix copied from such a parent contains no observations.
    """
    own_T = np.ones(len(rollout.token_ids), np.bool_) if rollout.trainable_T is None else rollout.trainable_T
    parent = relatives.get(rollout.parent or "")
    before_T = np.ones(rollout.branch_at, np.bool_) if parent is None else sampled(parent, relatives)
    return np.concatenate([before_T[: rollout.branch_at], own_T])


def observed(rollout: Rollout, relatives: Mapping[str, Rollout], upto: int) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each observation (reply of an environment) within the first ``upto`` response tokens.
    These tokens include the rollout's prefix.

    An observation that continues after ``upto`` is cut there. An empty observation at ``upto`` (a reply without text)
    is included.
    """
    at, parent = rollout.branch_at, relatives.get(rollout.parent or "")
    before = () if parent is None else observed(parent, relatives, min(at, upto))
    own = [(at + begin, at + end) for begin, end in (one.span for one in rollout.observations)]
    return (*before, *((begin, min(end, upto)) for begin, end in own if begin < upto or end <= upto))


class TextPart(NamedTuple):
    """A part of a response's text. ``sampled`` is True if the policy wrote the part, and False if the environment wrote
    it."""

    sampled: bool
    text: str


def text_parts(text: str, observed: Sequence[tuple[int, int]]) -> list[TextPart]:
    """Split a response into parts that the policy and the environment wrote in turn; the first and last part are the
    policy's.

    ``observed`` lists the start and end of each observation in order, in characters. Parts may be empty. The parts
    joined together are the whole text.

    >>> [tuple(part) for part in text_parts("2 + 2 is [calc: 4] so 4", [(9, 18)])]
    [(True, '2 + 2 is '), (False, '[calc: 4]'), (True, ' so 4')]
    >>> text_parts("4", [])
    [TextPart(sampled=True, text='4')]
    """
    found, at = list[TextPart](), 0
    for begin, end in observed:
        found += [TextPart(True, text[at:begin]), TextPart(False, text[begin:end])]
        at = end
    return [*found, TextPart(True, text[at:])]
