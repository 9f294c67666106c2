"""Finds prompts that are too long for the model's context, or that the tokenizer or chat template does not support."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from outrider.errors import UserError
from outrider.model.chat import chat_of
from outrider.model.load import lost_characters, prompt_policy
from outrider.model.options import PolicyOptions
from outrider.record import Problem


class Fault(NamedTuple):
    """A problem, and the reason why its prompt cannot be used."""

    problem: Problem
    reason: str


class LongPrompt(NamedTuple):
    """A problem whose prompt leaves too little context for a response of the maximum length, and the prompt's token
    count."""

    problem: Problem
    tokens: int


class PromptCheck(NamedTuple):
    """The prompts that cannot be encoded, and the prompts that leave too little context for the longest response."""

    faults: list[Fault]
    long: list[LongPrompt]


class Prompts:
    """Encodes prompts with a model's tokenizer and chat template. No weights are read.

    Raises:
        UserError: the model or its tokenizer does not exist, or lacks the chat template that ``options`` require.
    """

    def __init__(self, model: str, options: PolicyOptions) -> None:
        self.policy, self.context = prompt_policy(model, options)
        self._options = options

    def check(self, problems: Sequence[Problem], max_tokens: int) -> PromptCheck:
        """Find prompts that leave fewer than ``max_tokens`` tokens of the context or that cannot be encoded.

        Encoding a large table takes minutes, so only prompts that may be faulty are encoded. A prompt may be faulty if
        it would be too long with one token per byte, or if it has a character that the tokenizer does not know. The
        first prompt with each sequence of chat roles, such as system and user, is also encoded, to measure the
        template's length.
        """
        faults: list[Fault] = []
        long: list[LongPrompt] = []
        characters = set("".join(text for problem in problems for text in _texts(problem)))
        unknown = set(lost_characters(self.policy.tokenizer, "\n".join(sorted(characters))))
        templates: dict[tuple[str, ...] | None, int] = {}  # token count of the template alone, by roles
        for problem in problems:
            try:
                turns = chat_of(problem, self._options)
                roles = None if turns is None else tuple(str(turn["role"]) for turn in turns)
                may_be_written = roles in templates and unknown.isdisjoint("".join(_texts(problem)))
                if may_be_written and _most_tokens(problem) + templates[roles] <= self.context - max_tokens:
                    continue
                length = len(self.policy.encode(problem))
                if roles not in templates:
                    templates[roles] = len(self.policy.encode(_emptied(problem)))
            except UserError as error:
                faults.append(Fault(problem, str(error)))
                continue
            if length > self.context - max_tokens:
                long.append(LongPrompt(problem, length))
        return PromptCheck(faults, long)


def _texts(problem: Problem) -> Iterator[str]:
    yield problem.prompt
    for message in problem.messages_before or ():
        if isinstance(message["content"], str):
            yield message["content"]


def _emptied(problem: Problem) -> Problem:
    """Return the problem with each text replaced by one character, to count the tokens of the chat template alone.

    The character comes from the prompt, since a tokenizer with few characters may not know other characters.
    """
    one = problem.prompt.strip()[:1] or problem.prompt[:1]
    before = problem.messages_before
    return replace(
        problem, prompt=one, messages_before=before and tuple({**message, "content": one} for message in before)
    )


def _most_tokens(problem: Problem) -> int:
    """Return an upper bound on a prompt's token count: the number of UTF-8 bytes of the prompt after NFKC
    normalisation, since each token has at least one byte."""
    text = "\n".join(_texts(problem))
    return len(text) if text.isascii() else len(unicodedata.normalize("NFKC", text).encode("utf-8", "surrogatepass"))
