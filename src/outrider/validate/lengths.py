"""Measures prompts with a model's tokenizer, and finds prompts that leave too little room for a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.errors import UserError
from outrider.preflight.prompts import Prompts
from outrider.validate.sides import SideEntry


class PromptLengths(NamedTuple):
    """The prompt lengths of a side (training or held-out data), in tokens.

    Attributes:
        tokens: length of each prompt, in the order of the entries. Prompts with errors are excluded.
        context: the model's context length.
        too_long: entries whose prompts leave too little context for a response of maximum length, with the prompt
            lengths.
    """

    tokens: list[int]
    context: int
    too_long: list[tuple[SideEntry, int]]


def measure(prompts: Prompts, entries: Sequence[SideEntry], max_tokens: int) -> PromptLengths:
    """Measure the prompts that the policy would receive, in tokens. Prompts with errors are skipped."""
    lengths = []
    for entry in entries:
        try:
            lengths.append((entry, len(prompts.policy.encode(entry.problem))))
        except UserError:
            continue
    too_long = [(entry, tokens) for entry, tokens in lengths if tokens > prompts.context - max_tokens]
    return PromptLengths([tokens for _, tokens in lengths], prompts.context, too_long)
