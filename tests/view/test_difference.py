"""Two texts side by side: each is whole, and what is shared is shared."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from outrider.view.difference import difference

WORDS = st.lists(st.sampled_from(["a", "b", " ", "\n", "12", "+", "=", "long"]), max_size=30).map("".join)


@given(first=WORDS, second=WORDS)
def test_the_stretches_are_the_texts_and_the_shared_ones_are_equal(first: str, second: str) -> None:
    sides = difference(first, second)
    assert ["".join(one.text for one in side) for side in sides] == [first, second]
    assert [one.text for one in sides[0] if one.shared] == [one.text for one in sides[1] if one.shared]


@given(text=WORDS)
def test_equal_texts_share_everything(text: str) -> None:
    assert all(one.shared for side in difference(text, text) for one in side)


def test_two_responses_that_loop_are_compared_in_a_moment() -> None:
    begun = time.process_time()
    difference("x = 1 and " * 450, "x = 2 and " * 450)
    assert time.process_time() - begun < 10
