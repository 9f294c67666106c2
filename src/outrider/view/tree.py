"""Computes the layout of a group's tree of branches. Each rollout is a line that starts where the rollout leaves its
parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.view.opened_run import Row

ROW = 22  # pixels between two lines
MOST = 200  # maximum number of rollouts in a tree; larger trees are not drawn
_LEFT, _RIGHT = 1.0, 64.0  # percent of the width; the labels are to the right


class DrawnLine(NamedTuple):
    """The line for a rollout's own tokens.

    Attributes:
        row: the rollout.
        begin, end: horizontal bounds in percent of the width.
        y: vertical position in pixels from the top.
        parent_y: vertical position of the parent's line; None for a rollout that starts at the prompt.
    """

    row: Row
    begin: float
    end: float
    y: float
    parent_y: float | None


class DrawnPivot(NamedTuple):
    """A pivot: a position at which branches leave a rollout.

    Attributes:
        x: horizontal position in percent of the width.
        y: vertical position in pixels from the top.
        at: number of response tokens before the pivot.
        correct, verified: number of correct rollouts and number of verified rollouts that pass through the pivot. These
            are the rollout itself, its branches at the pivot or later, and their descendants. ``correct / verified``
            estimates the success probability from the pivot on.
    """

    x: float
    y: float
    at: int
    correct: int
    verified: int


class DrawnTree(NamedTuple):
    """The drawing of a group's tree: one line per rollout in the order of the group, the pivots (branch points), and
    the height in pixels."""

    lines: list[DrawnLine]
    pivots: list[DrawnPivot]
    height: float


def drawn(rows: Sequence[Row]) -> DrawnTree | None:
    """Return the layout of a group's tree. In ``rows``, each rollout must come after its parent.

    The result is None if the group has no branches, if it has more than :data:`MOST` rollouts, or if lengths are
    unknown.
    """
    places = {_id(row): at for at, row in reversed(list(enumerate(rows)))}
    children: dict[str, list[Row]] = {}
    for at, row in enumerate(rows):
        if places.get(row["parent"], at) < at:  # rollouts in a cycle (damaged files) count as roots
            children.setdefault(row["parent"], []).append(row)
    if not children or len(rows) > MOST or any(row["tokens"] is None for row in rows):
        return None
    longest = max(_end(row) for row in rows) or 1
    lines, pivots = [], []
    for at, row in enumerate(rows):
        parent = places.get(row["parent"], at)
        above = _y(parent) if parent < at else None
        lines.append(DrawnLine(row, _x(row["branch_at"], longest), _x(_end(row), longest), _y(at), above))
        for place in sorted({child["branch_at"] for child in children.get(_id(row), [])}):
            passing = [row, *(below for child in children[_id(row)] if child["branch_at"] >= place
                              for below in _below(child, children))]  # fmt: skip
            verified = [one["outcome"] for one in passing if one["outcome"] is not None]
            pivots.append(DrawnPivot(_x(place, longest), _y(at), place, verified.count("correct"), len(verified)))
    return DrawnTree(lines, pivots, ROW * len(rows) + 4)


def _below(row: Row, children: dict[str, list[Row]]) -> list[Row]:
    """Return a rollout and all its descendants."""
    found, waiting = [], [row]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(_id(found[-1]), [])
    return found


def _id(row: Row) -> str:
    return f"{row['group_id']}/{row['member']}"


def _end(row: Row) -> int:
    """Return a rollout's length in tokens, including its prefix and tokens from an environment."""
    return int(row["branch_at"] + row["tokens"] + (row["observed"] or 0))


def _x(tokens: int, longest: int) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * tokens / longest, 3)


def _y(place: int) -> float:
    return ROW * place + ROW / 2
