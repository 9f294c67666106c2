"""The tree of a group that branched, as lines to draw: one for each rollout, from where it leaves its parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.view.opened_run import Row

ROW = 22  # pixels between two lines
MOST = 200  # rollouts of a tree that is drawn
_LEFT, _RIGHT = 1.0, 64.0  # percent of the width; labels stand to the right


class DrawnLine(NamedTuple):
    """The own tokens of a rollout.

    Attributes:
        row: the rollout.
        begin, end: percent of the width.
        y: pixels from the top.
        parent_y: of the line that it leaves; None for a root.
    """

    row: Row
    begin: float
    end: float
    y: float
    parent_y: float | None


class DrawnPivot(NamedTuple):
    """A place where branches leave a rollout.

    Attributes:
        x, y: percent of the width, pixels from the top.
        at: response tokens before it.
        correct, verified: of the rollouts whose response goes through it: the parent, and all that continue it from
            here on. Their share is the value of the place.
    """

    x: float
    y: float
    at: int
    correct: int
    verified: int


class DrawnTree(NamedTuple):
    """Lines in the order of the group, pivots, and the height in pixels."""

    lines: list[DrawnLine]
    pivots: list[DrawnPivot]
    height: float


def drawn(rows: Sequence[Row]) -> DrawnTree | None:
    """The tree of a group whose rows stand in its order, each below its parent.

    None where nothing branched, where lengths are not known, or beyond :data:`MOST` rollouts.
    """
    places = {_id(row): at for at, row in reversed(list(enumerate(rows)))}
    children: dict[str, list[Row]] = {}
    for at, row in enumerate(rows):
        if places.get(row["parent"], at) < at:  # what a damaged dump has in a circle is a root
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
    """A rollout and everything that continues it."""
    found, waiting = [], [row]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(_id(found[-1]), [])
    return found


def _id(row: Row) -> str:
    return f"{row['group_id']}/{row['member']}"


def _end(row: Row) -> int:
    """Response tokens at its end; what an environment said takes room too."""
    return int(row["branch_at"] + row["tokens"] + (row["observed"] or 0))


def _x(tokens: int, longest: int) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * tokens / longest, 3)


def _y(place: int) -> float:
    return ROW * place + ROW / 2
