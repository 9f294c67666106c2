"""Lengths of prompts under a model's tokenizer, and those that leave little room to respond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.errors import UserError
from outrider.preflight.prompts import Prompts
from outrider.validate.sides import SideEntry


class PromptLengths(NamedTuple):
    """Tokens of each prompt that can be written, in order; the model's context; and the entries that leave less than
    the longest response of it, with their tokens."""

    tokens: list[int]
    context: int
    too_long: list[tuple[SideEntry, int]]


def measure(prompts: Prompts, entries: Sequence[SideEntry], max_tokens: int) -> PromptLengths:
    """Lengths of the prompts as a policy gets them; those that cannot be written are refused elsewhere."""
    lengths = []
    for entry in entries:
        try:
            lengths.append((entry, len(prompts.policy.encode(entry.problem))))
        except UserError:
            continue
    too_long = [(entry, tokens) for entry, tokens in lengths if tokens > prompts.context - max_tokens]
    return PromptLengths([tokens for _, tokens in lengths], prompts.context, too_long)
