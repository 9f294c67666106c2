"""Prompts and responses as messages: of chat templates, of importers, and of environments."""

from __future__ import annotations

import pytest
from byte_tokenizer import byte_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from outrider.importers.text import as_text
from outrider.view.messages import Message, messages_in, messages_of, turns_of

MARKS = ["<|im_start|>", "<|im_end|>", "<|begin|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<turn>"]
SYSTEM, USER = Message("system", "Add.\nBriefly."), Message("user", "2 + 2?")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """With the special tokens of three templates."""
    return byte_tokenizer(MARKS)


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        (
            "<|im_start|>system\nAdd.\nBriefly.<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n",
            [SYSTEM, USER],
        ),
        (
            "<|begin|><|start_header_id|>system<|end_header_id|>\n\nAdd.\nBriefly.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n2 + 2?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
            [SYSTEM, USER],
        ),
        ("<turn>user\n2 + 2?<turn>\n<turn>model\n", [USER]),
        ("<|im_start|>user\nuser\nsays<|im_end|>", [Message("user", "user\nsays")]),
        ("2 + 2?", []),
        ("<|begin|>Question: 2 + 2?\n", []),
        ("user\n2 + 2? <|im_start|>of nobody", []),
        ("", []),
    ],
)
def test_a_chat_is_its_messages(tokenizer: Tokenizer, prompt: str, messages: list[Message]) -> None:
    assert messages_of(tokenizer, tokenizer.encode(prompt).ids) == messages


@given(bodies=st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), st.text()), min_size=2))
def test_messages_that_an_importer_wrote_come_back(bodies: list[tuple[str, str]]) -> None:
    if any("[" in body for _, body in bodies):
        return  # a body may imitate a heading
    text = as_text([{"role": role, "content": body} for role, body in bodies])
    assert messages_in(text) == [Message(*each) for each in bodies]


@pytest.mark.parametrize("text", ["", "2 + 2?", "a\n\n[user]\nb", "[note]\nb", "[user] b"])
def test_a_text_without_headings_is_no_chat(text: str) -> None:
    assert messages_in(text) == []


@given(text=st.text(min_size=1), cuts=st.lists(st.integers(0, 40), max_size=6))
def test_no_character_of_a_response_is_lost_between_turns(text: str, cuts: list[int]) -> None:
    ends = sorted(min(cut, len(text)) for cut in cuts)
    observations = list(zip(ends[::2], ends[1::2], strict=False))
    turns = turns_of(text, observations)
    assert "".join(turn.text for turn in turns) == (text if observations else "")
    said = [text[begin:end] for begin, end in observations if begin < end]
    assert [turn.text for turn in turns if turn.role == "environment"] == said
