"""Lengths of prompts under a model's tokenizer, and those that leave no room to respond."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from outrider.errors import UserError
from outrider.model.options import PolicyOptions
from outrider.model.places import model_folder
from outrider.validate.sides import SideEntry


class PromptLengths(NamedTuple):
    """Tokens of each prompt, in order; the model's context; and the entries that do not fit it, with their tokens."""

    tokens: list[int]
    context: int | None
    too_long: list[tuple[SideEntry, int]]


class PromptMeasure:
    """A model's tokenizer and context length, without its weights.

    Raises:
        UserError: there is no such model or tokenizer, or it cannot write a prompt.
    """

    def __init__(self, model: str, options: PolicyOptions, max_tokens: int) -> None:
        from transformers import AutoConfig, AutoTokenizer  # takes seconds, and only who names a model needs it

        from outrider.model.load import Policy

        folder = model_folder(model)
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            config = AutoConfig.from_pretrained(folder)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise UserError(f"model {model!r}: its tokenizer or configuration cannot be loaded ({reason})") from error
        if options.chat and not tokenizer.chat_template:
            raise UserError(f"model {model!r}: its tokenizer has no chat template, which policy.chat=true would apply")
        self._policy = Policy(cast(Any, None), tokenizer, options)  # encoding a prompt needs no weights
        self.context: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
        self._max_tokens = max_tokens

    def measure(self, entries: Sequence[SideEntry]) -> PromptLengths:
        """Lengths of the prompts as a policy gets them.

        Raises:
            UserError: the tokenizer cannot write one, as a run would find.
        """
        try:
            tokens = [len(self._policy.encode(entry.problem)) for entry in entries]
        except UserError as error:
            raise UserError(f"{error}; name your model, or model=null to measure no prompts") from error
        room = math.inf if self.context is None else self.context - self._max_tokens
        too_long = [(entry, n) for entry, n in zip(entries, tokens, strict=True) if n > room]
        return PromptLengths(tokens, self.context, too_long)
