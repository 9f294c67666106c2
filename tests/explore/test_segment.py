"""Segmenters against cuts found token by token and character by character."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from forests import rollouts
from outrider.explore.segment import Chunk, Delimiter, Segmenter, Turns
from outrider.record import Rollout
from outrider.record.turns import sampled
from outrider.testing.scripted import ScriptedEngine

texts = st.lists(st.text("ab.\n#", min_size=0, max_size=4), max_size=12)


class Texts(ScriptedEngine):
    """Token i reads as the i-th of some texts."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def token_texts(self, ids: np.ndarray) -> list[str]:
        return [self.texts[i] for i in ids]


def root(tokens: int, **rest: object) -> Rollout:
    return Rollout(
        problem_id="p",
        group_id="g",
        member=0,
        prompt_ids=np.array([1], np.int32),
        token_ids=np.arange(tokens, dtype=np.int32),
        logprobs_T=np.zeros(tokens, np.float32),
        prefix_ids=np.zeros(0, np.int32),
        **rest,
    )


def candidates(segmenter: Segmenter, texts: list[str]) -> list[int]:
    return list(segmenter.chain(root(len(texts)), {}, Texts(texts)).candidates)


@given(st.integers(0, 40), st.integers(1, 12))
def test_chunks_are_all_of_one_length_but_the_last(length, tokens):
    bounds = Chunk(tokens=tokens).chain(root(length), {}, ScriptedEngine()).bounds
    lengths = np.diff([0, *bounds, length])
    assert (lengths[:-1] == tokens).all()
    assert lengths[-1] <= tokens
    assert lengths[-1] > 0 or length == 0


@given(texts, st.sampled_from([".", "\n\n", "a.", ".\n"]))
def test_a_segment_ends_with_the_token_that_completes_a_mark(texts, mark):
    owner = [token for token, text in enumerate(texts) for _ in text]
    text, at, expected = "".join(texts), 0, set()
    while at < len(text):
        if text.startswith(mark, at):
            at += len(mark)
            expected.add(owner[at - 1] + 1)
        else:
            at += 1
    assert Delimiter(marks=[mark]).bounds(texts, np.ones(len(texts), bool)) == sorted(expected - {len(texts)})


@pytest.mark.parametrize(
    ("texts", "marks", "bounds"),
    [
        (["One", ".", " Two", ".\n", "Three", "."], ["."], [2, 4]),  # merged, and the last ends the response
        (["x", "\n", "\n", "y"], ["\n\n"], [3]),  # a blank line of two tokens
        (["x", "\n\n", "y", "\n", "z"], ["\n\n", "\n"], [2, 4]),
        (["1-1=0", ",", "8", ";", "8"], [";", ","], [2, 4]),
        (["no", " mark"], ["."], []),
        (["."], ["."], []),
        ([], ["."], []),
    ],
)
def test_delimiters(texts, marks, bounds):
    assert candidates(Delimiter(marks=marks), texts) == bounds


@given(texts, st.integers(1, 4), st.lists(st.sampled_from(["#", "a.", "a", ".a#"]), min_size=1, max_size=3))
def test_no_candidate_holds_an_answer_mark(texts, tokens, marks):
    plain, marked = Chunk(tokens=tokens), Chunk(tokens=tokens, answer_marks=marks)
    held = [t for t in candidates(plain, texts) if any(mark in "".join(texts[:t]) for mark in marks)]
    assert candidates(marked, texts) == [t for t in candidates(plain, texts) if t not in held]


@given(rollouts())
def test_turns_begin_where_an_observation_ends(group):
    """Token by token, from the flags that each rollout keeps of its own."""
    by_id = {r.id: r for r in group}

    def flags(r: Rollout) -> list[bool]:
        own = [True] * len(r.token_ids) if r.trainable_T is None else r.trainable_T.tolist()
        return own if r.parent is None else flags(by_id[r.parent])[: r.branch_at] + own

    for r in group:
        path = flags(r)
        assert sampled(r, by_id).tolist() == path
        turns = [t for t in range(1, len(path)) if path[t] and not path[t - 1]]
        chain = Turns().chain(r, by_id, ScriptedEngine())
        assert list(chain.bounds) == turns
        assert list(chain.candidates) == [t for t in turns if t > r.branch_at]
        every = Chunk(tokens=1).chain(r, by_id, ScriptedEngine(), taken={2})
        assert list(every.bounds) == list(range(1, len(path)))
        assert list(every.candidates) == [t for t in range(r.branch_at + 1, len(path)) if path[t] and t != 2]


def test_marks_are_not_empty():
    with pytest.raises(ValidationError, match="at least 1 character"):
        Delimiter(marks=[""])
    with pytest.raises(ValidationError, match="at least 1 item"):
        Delimiter(marks=[])
    with pytest.raises(ValidationError, match="at least 1 character"):
        Chunk(answer_marks=[""])


def test_text_is_read_only_if_it_matters():
    class Mute(ScriptedEngine):
        def token_texts(self, ids: np.ndarray) -> list[str]:
            raise AssertionError

    assert list(Chunk(tokens=2).chain(root(5), {}, Mute()).candidates) == [2, 4]
    with pytest.raises(AssertionError):
        Chunk(tokens=2, answer_marks=["#"]).chain(root(5), {}, Mute())
