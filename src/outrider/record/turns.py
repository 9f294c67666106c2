"""Who wrote which token, and which part of the text, of a rollout with turns: the policy or the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.record.rollout import Rollout


def sampled(rollout: Rollout, relatives: Mapping[str, Rollout]) -> NDArray[np.bool_]:
    """Which response tokens the policy sampled, bool ``[T]``; the prefix as its own rollouts say.

    What continues a rollout of an earlier step, which is no relative, continues nothing that an environment has said.
    """
    own_T = np.ones(len(rollout.token_ids), np.bool_) if rollout.trainable_T is None else rollout.trainable_T
    parent = relatives.get(rollout.parent or "")
    before_T = np.ones(rollout.branch_at, np.bool_) if parent is None else sampled(parent, relatives)
    return np.concatenate([before_T[: rollout.branch_at], own_T])


def observed(rollout: Rollout, relatives: Mapping[str, Rollout], upto: int) -> tuple[tuple[int, int], ...]:
    """Begin and end of what the environment said in the first ``upto`` response tokens; its prefix as recorded there.

    What ends there belongs to it, also where nothing was said: the turn before it has been answered.
    """
    at, parent = rollout.branch_at, relatives.get(rollout.parent or "")
    before = () if parent is None else observed(parent, relatives, min(at, upto))
    own = [(at + begin, at + end) for begin, end in (one.span for one in rollout.observations)]
    return (*before, *((begin, min(end, upto)) for begin, end in own if begin < upto or end <= upto))


class TextPart(NamedTuple):
    """Characters of a response that the policy sampled, or that an environment said."""

    sampled: bool
    text: str


def text_parts(text: str, observed: Sequence[tuple[int, int]]) -> list[TextPart]:
    """A response cut where an environment was observed (begin and end in characters, in order): the policy's parts and
    the environment's in turn, the policy's first and last. Parts may be empty; together they are the text.

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
