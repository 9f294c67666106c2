"""A problem consists of a prompt and the data that a verifier needs to verify an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_PROMPT_END = "prompt_end"  # metadata key
_LONGEST_END = 200  # maximum characters of a stored prompt end


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with a checkable answer.

    Attributes:
        id: identifier that is the same in all runs and on all machines. The same text always has the same id.
        prompt: text of the question, without a chat template. In a chat, the prompt is only the last message, and
            ``messages_before`` has the earlier ones.
        answer: gold answer, or other data for the verifier; plain JSON data.
        level: difficulty label by which results are grouped; ``""`` if the task has no levels.
        metadata: other data to store with the problem; plain JSON data.
        messages_before: the chat messages before the prompt, in the format of chat templates; None if the prompt is
            plain text rather than a user's message in a chat.
        tools: JSON schemas of the tools that the policy may call. A chat template writes them into the prompt.
        test_set: name of the problem's test set; ``""`` if the task does not distinguish test sets.
    """

    id: str
    prompt: str
    answer: Any = None
    level: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    messages_before: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    test_set: str = ""

    @property
    def question(self) -> str:
        """The text that is compared to find duplicate problems: earlier messages, except system messages, and the
        prompt."""
        before = [str(message["content"]) for message in self.messages_before or () if message["role"] != "system"]
        return "\n".join([*before, self.prompt])

    @property
    def prompt_end(self) -> str:
        """The end of the rendered prompt; empty for a chat prompt that no chat template has rendered yet."""
        return str(self.metadata.get(_PROMPT_END, "" if self.messages_before is not None else self.prompt))

    @property
    def templated(self) -> bool:
        """Whether the end of the rendered prompt is stored."""
        return _PROMPT_END in self.metadata

    def prompted(self, rendered: str) -> Problem:
        """Return a copy of the problem whose metadata contain the last characters of its rendered prompt. They show
        whether the chat template opens a thinking block before the response."""
        return replace(self, metadata={**self.metadata, _PROMPT_END: rendered[-_LONGEST_END:]})
