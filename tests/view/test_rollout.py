"""The parts of a rollout's page: texts of tokens, and the tree of its group."""

from __future__ import annotations

from typing import Any

import pytest
from byte_tokenizer import byte_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from outrider.view.rollout import _as_tree
from outrider.view.tokens import texts_of


@pytest.fixture(scope="module")
def bytes_alone() -> Tokenizer:
    return byte_tokenizer()


@given(text=st.text(max_size=30))
def test_the_parts_are_the_text(bytes_alone: Tokenizer, text: str) -> None:
    ids = bytes_alone.encode(text).ids
    parts = texts_of(bytes_alone, ids)
    assert len(parts) == len(ids)
    assert "".join(parts) == text


@given(ids=st.lists(st.integers(0, 255), max_size=40))
def test_bytes_that_are_no_text_are_shown_as_such(bytes_alone: Tokenizer, ids: list[int]) -> None:
    parts = texts_of(bytes_alone, ids)
    assert len(parts) == len(ids)
    whole = bytes_alone.decode(ids, skip_special_tokens=False)
    assert ("\ufffd" in "".join(parts)) == ("\ufffd" in whole)


def member(number: int, parent: str | None = None) -> dict[str, Any]:
    return {"group_id": "g", "member": number, "parent": parent}


def test_a_branch_stands_below_what_it_continues() -> None:
    rows = [member(0), member(1), member(2, "g/0"), member(3, "g/2"), member(4, "g/0"), member(5, "elsewhere/0")]
    assert [(row["member"], row["depth"]) for row in _as_tree(rows)] == [(0, 0), (2, 1), (3, 2), (4, 1), (1, 0), (5, 0)]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.none() | st.integers(0, 5)).map(
            lambda pair: member(pair[0], None if pair[1] is None else f"g/{pair[1]}")
        ),
        max_size=12,
    )
)
def test_no_rollout_is_lost_whatever_a_dump_says(rows: list[dict[str, Any]]) -> None:
    found = _as_tree(rows)
    assert sorted((row["member"], str(row["parent"])) for row in found) == sorted(
        (row["member"], str(row["parent"])) for row in rows
    )
