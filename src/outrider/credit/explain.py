"""Explains how a recipe computes advantages: shows the rewards and advantages of a small example group after each
component under ``credit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Link, split
from outrider.credit.members import Members

GroupShape = Literal["roots", "greedy", "tree", "siblings"]


class After(NamedTuple):
    """The rewards and advantages of a group after the component ``link`` (a reward shaper, baseline or shaper).

    Attributes:
        rewards_G: rewards after the reward shapers that have run so far.
        advantages_GT: one advantage per trainable token of each member; None if the baseline has not run yet.
    """

    link: Link
    rewards_G: Floats
    advantages_GT: list[Floats] | None


class Worked(NamedTuple):
    """An example group, with a short description of each member in ``names``."""

    names: list[str]
    members: Members


def explain(chain: Sequence[Link], members: Members, step: int = 1) -> list[After]:
    """Return the rewards and advantages of one group after each component of ``chain``.

    A baseline with batch statistics treats the group as the whole batch.

    Raises:
        ValueError: see :func:`outrider.credit.split`.

    >>> from outrider.credit import GroupMean, Novelty
    >>> worked = worked_group()
    >>> for after in explain([GroupMean(std=False), Novelty()], worked.members):
    ...     print(type(after.link).__name__, [round(float(a[0]), 2) for a in after.advantages_GT])
    GroupMean [0.67, 0.67, -0.33, -0.33, -0.33, -0.33, 0.0]
    Novelty [0.67, 1.0, -0.33, -0.33, -0.33, -0.33, 0.0]
    >>> worked.names[1]
    'right, unlikely'
    """
    before, baseline, after = split(chain)
    account = []
    for reward_shaper in before:
        members = replace(members, rewards_G=reward_shaper.rewards(members, step))
        account.append(After(reward_shaper, members.rewards_G, None))
    [advantages_GT] = baseline.of_stream([members], step)
    account.append(After(baseline, members.rewards_G, advantages_GT))
    for shaper in after:
        advantages_GT = shaper.shape(advantages_GT, members, step)
        account.append(After(shaper, members.rewards_G, advantages_GT))
    return account


class _Row(NamedTuple):
    """One member of an example group. ``length`` and ``start`` (the length of the prefix that a branch copies) are
    fractions of the length limit."""

    name: str
    right: bool | None
    length: float
    logprob: float
    parent: int = -1
    start: float = 0.0
    family: int = 0
    greedy: bool = False


_ROOTS = [
    _Row("right", True, 0.5, -0.3),
    _Row("right, unlikely", True, 0.6, -0.9),
    _Row("wrong", False, 0.4, -0.3),
    _Row("wrong, short", False, 0.2, -0.6),
    _Row("wrong, unlikely", False, 0.5, -0.9),
    _Row("wrong, truncated", False, 1.0, -0.5),
    _Row("no verdict", None, 0.3, -0.5),
]
_TREE = [
    _Row("1 right", True, 0.6, -0.3),
    _Row("2 wrong", False, 0.6, -0.5),
    _Row("3 wrong", False, 0.5, -0.4),
    _Row("from 1, wrong", False, 0.3, -0.6, parent=0, start=0.3, family=1),
    _Row("from 2, right, unlikely", True, 0.4, -0.9, parent=1, start=0.2, family=2),
    _Row("from 2, wrong", False, 0.4, -0.4, parent=1, start=0.2, family=2),
]
_SIBLINGS = [
    _Row("from a, right, unlikely", True, 0.4, -0.9, start=0.2),
    _Row("from a, wrong", False, 0.4, -0.3, start=0.2),
    _Row("from a, wrong, truncated", False, 0.8, -0.5, start=0.2),
    _Row("from b, wrong", False, 0.4, -0.4, start=0.4, family=1),
    _Row("from b, wrong", False, 0.3, -0.6, start=0.4, family=1),
]
_GREEDY = [*_ROOTS, _Row("greedy, wrong", False, 0.4, -0.2, greedy=True)]
_SHAPES: dict[GroupShape, list[_Row]] = {"roots": _ROOTS, "greedy": _GREEDY, "tree": _TREE, "siblings": _SIBLINGS}


def worked_group(shape: GroupShape = "roots", right: float = 1.0, wrong: float = 0.0, longest: int = 10) -> Worked:
    """Return an example group of one of four shapes.

    The shape ``roots`` has successes, failures, a truncated response and a response without a verdict. The shape
    ``greedy`` has the same responses and a greedy response. The shape ``tree`` has three rollouts from the prompt and
    three branches. The shape ``siblings`` has only branches, which continue two different prefixes. The rollouts from
    which these prefixes come are not in the group. Every fourth token has an entropy of 1.4 nats, and all other tokens
    have 0.2 nats.

    Args:
        right, wrong: rewards of correct (right) and incorrect (wrong) responses.
        longest: length limit of a response in tokens, which the truncated response reaches. The length of each response
            is a fixed multiple of one tenth of this limit, rounded to whole tokens.
    """
    rows = _SHAPES[shape]
    tokens = [max(1, round(row.length * longest)) for row in rows]
    members = Members(
        rewards_G=np.array([np.nan if row.right is None else right if row.right else wrong for row in rows]),
        success_G=np.array([bool(row.right) for row in rows]),
        tokens_G=np.array(tokens),
        logprobs_GT=[np.full(n, row.logprob) for n, row in zip(tokens, rows, strict=True)],
        entropies_GT=[np.where(np.arange(n) % 4 == 0, 1.4, 0.2) for n in tokens],
        token_texts_GT=[np.full(n, "x") for n in tokens],  # no token closes an answer box
        parents_G=np.array([row.parent for row in rows]),
        starts_G=np.array([round(row.start * longest) for row in rows]),
        families_G=np.array([row.family for row in rows]),
        greedy_G=np.array([row.greedy for row in rows]),
    )
    return Worked([row.name for row in rows], members)
