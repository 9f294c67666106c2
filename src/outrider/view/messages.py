"""Splits prompts and responses into messages with roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import Tokenizer

from outrider.record.turns import text_parts

ROLES = ("system", "developer", "user", "assistant", "model", "tool", "ipython")
_HEADING = re.compile(rf"(?:\A|\n\n)\[({'|'.join(ROLES)})\]\n")


class Message(NamedTuple):
    """A role and its text. In a rollout's response, the role is ``policy`` or ``environment``."""

    role: str
    text: str


def messages_in(text: str) -> list[Message]:
    r"""Split a text into messages, each preceded by a line with its role in brackets, such as ``[user]``.

    Chat messages from other frameworks are imported as such texts. The list is empty if the text does not begin with a
    role.

    >>> messages_in("[system]\nAdd.\n\n[user]\n2 + 2?")
    [Message(role='system', text='Add.'), Message(role='user', text='2 + 2?')]
    """
    _, *parts = _HEADING.split(text)
    if not _HEADING.match(text):
        return []
    return [Message(role, part) for role, part in zip(parts[::2], parts[1::2], strict=True)]


def turns_of(text: str, observations: Sequence[tuple[int, int]]) -> list[Message]:
    """Split a response into turns at its observations, whose bounds are in characters.

    The list is empty if there are no observations.

    >>> [turn.role for turn in turns_of("2 + 2 is [calc: 4] so 4", [(9, 18)])]
    ['policy', 'environment', 'policy']
    """
    parts = text_parts(text, observations) if observations else []
    return [Message("policy" if part.sampled else "environment", part.text) for part in parts if part.text]


def messages_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Message]:
    """Return the messages of a tokenized prompt. The list is empty if the chat template is not supported.

    The chat templates of ChatML (Qwen, SmolLM2), Gemma and Llama 3 are supported. In these templates, a special token
    stands before each role, and a line break or another special token after the role. A message without text, such as
    the generation prompt, is omitted.
    """
    special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    found: list[Message] = []
    role = ""
    for text in _between(tokenizer, ids, special):
        first, line, rest = text.partition("\n")
        if first.strip() in ROLES and line and rest.strip():
            found.append(Message(first.strip(), rest.strip("\n")))
        elif text.strip() in ROLES:  # only a role, so the message follows the next special token
            role = text.strip()
        elif role and text.strip():
            found.append(Message(role, text.strip("\n")))
            role = ""
        elif text.strip():
            return []  # text without a role, so the template is unsupported
    return found


def _between(tokenizer: Tokenizer, ids: Sequence[int], special: set[int]) -> list[str]:
    """Return the decoded texts between special tokens."""
    parts: list[list[int]] = [[]]
    for id in ids:
        if id in special:
            parts.append([])
        else:
            parts[-1].append(id)
    return [str(tokenizer.decode(part, skip_special_tokens=False)) for part in parts if part]
