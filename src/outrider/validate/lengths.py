"""Prompt lengths under a model's tokenizer, and the prompts that leave too little room for a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.errors import UserError
from outrider.preflight.prompts import Prompts
from outrider.validate.sides import SideEntry


class PromptLengths(NamedTuple):
    """The prompt lengths of a side.

    Attributes:
        tokens: length of each prompt that can be written, in order.
        context: the model's context length.
        too_long: entries whose prompts leave less than the maximum response length, with their prompt lengths.
    """

    tokens: list[int]
    context: int
    too_long: list[tuple[SideEntry, int]]


def measure(prompts: Prompts, entries: Sequence[SideEntry], max_tokens: int) -> PromptLengths:
    """Measure the prompts as a policy gets them; prompts that cannot be written are reported by another check."""
    lengths = []
    for entry in entries:
        try:
            lengths.append((entry, len(prompts.policy.encode(entry.problem))))
        except UserError:
            continue
    too_long = [(entry, tokens) for entry, tokens in lengths if tokens > prompts.context - max_tokens]
    return PromptLengths([tokens for _, tokens in lengths], prompts.context, too_long)
