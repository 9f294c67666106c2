"""The drawn tree of a group: where lines begin and end, and the values of pivots, by hand and by brute force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.view.rollout import _as_tree
from outrider.view.tree import MOST, DrawnPivot, drawn


def member(
    number: int, tokens: int | None, outcome: str | None, parent: int | None = None, at: int = 0
) -> dict[str, Any]:
    name = None if parent is None else f"g/{parent}"
    return {
        "group_id": "g", "member": number, "tokens": tokens, "observed": None, "outcome": outcome, "parent": name,
        "branch_at": at,
    }  # fmt: skip


def test_a_pivot_has_the_share_of_all_that_pass_through_it() -> None:
    rows = _as_tree(
        [
            member(0, 10, "incorrect"),
            member(1, 6, "correct", 0, 4),
            member(2, 6, "incorrect", 0, 4),
            member(3, 2, "correct", 0, 8),  # leaves later: it passes through token 4 too
            member(4, 3, "correct", 1, 7),
            member(5, 10, "incorrect"),  # another root passes through none
        ]
    )
    tree = drawn(rows)
    assert tree is not None
    of = {(pivot.at, pivot.y): (pivot.correct, pivot.verified) for pivot in tree.pivots}
    place = {line.row["member"]: line.y for line in tree.lines}
    assert of == {(4, place[0]): (3, 5), (8, place[0]): (1, 2), (7, place[1]): (2, 2)}
    lines = {line.row["member"]: line for line in tree.lines}
    assert lines[0].begin == lines[5].begin < lines[1].begin == lines[2].begin < lines[3].begin < lines[0].end
    assert lines[4].parent_y == place[1]
    assert lines[5].parent_y is None


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [member(0, 5, "correct"), member(1, 5, "incorrect")],
        [member(0, None, "correct"), member(1, 5, "incorrect", 0, 2)],
        [member(i, 5, "correct", 0 if i else None, 2) for i in range(MOST + 1)],
        [member(1, 5, "correct", 9, 3)],  # its parent is in another group
        [member(0, 5, "correct", 0, 1)],  # a circle
    ],
)
def test_without_branches_or_lengths_nothing_is_drawn(rows: list[dict[str, Any]]) -> None:
    assert drawn(_as_tree(rows)) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 11), st.integers(0, 9), st.sampled_from(["correct", "incorrect", None])), max_size=12
    )
)
def test_values_are_those_of_paths(given: list[tuple[int, int, str | None]]) -> None:
    """A rollout passes a place of another one if its path, prefix by prefix, holds that token."""
    rows, paths = [], dict[int, list[tuple[int, int]]]()
    for number, (parent, at, outcome) in enumerate(given):
        if parent < number:
            start = min(at + rows[parent]["branch_at"], len(paths[parent]))
            rows.append(member(number, 5, outcome, parent, max(start, rows[parent]["branch_at"])))
        else:
            rows.append(member(number, 5, outcome))
        before = paths[parent][: rows[number]["branch_at"]] if rows[number]["parent"] else []
        paths[number] = [*before, *((number, len(before) + i) for i in range(5))]
    tree = drawn(_as_tree(rows))
    if tree is None:
        assert all(row["parent"] is None for row in rows)
        return
    owner = {line.y: line.row for line in tree.lines}
    for pivot in tree.pivots:
        assert pivot == expected(pivot, owner[pivot.y], rows, paths)


def expected(pivot: DrawnPivot, row: dict[str, Any], rows: list[dict[str, Any]], paths: dict[int, Any]) -> DrawnPivot:
    own = paths[row["member"]][: pivot.at]
    passing = [
        one
        for one in rows
        if paths[one["member"]][: pivot.at] == own
        and (one["member"] == row["member"] or continues(one, row["member"], rows))
    ]
    outcomes = [one["outcome"] for one in passing if one["outcome"]]
    return pivot._replace(correct=outcomes.count("correct"), verified=len(outcomes))


def continues(one: dict[str, Any], ancestor: int, rows: list[dict[str, Any]]) -> bool:
    while one["parent"] is not None:
        number = int(one["parent"].rpartition("/")[2])
        if number == ancestor:
            return True
        one = rows[number]
    return False
