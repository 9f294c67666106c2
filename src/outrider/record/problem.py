"""A problem: a prompt, and what its verifier needs to verify an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_PROMPT_END = "prompt_end"  # key of the metadata
_LONGEST_END = 200  # characters of a prompt that are kept as its end


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with a checkable answer.

    Attributes:
        id: stable across runs and machines; the same text always has the same id.
        prompt: the text that the policy continues, before any chat template; with messages the text of the last one.
        answer: what the verifier needs; plain JSON data.
        level: difficulty label used to group results; ``""`` where the task has none.
        metadata: anything else to store beside the rollouts; plain JSON data.
        messages_before: the messages before the prompt, as a chat template takes them, where the prompt is the user's
            last message of a chat; None where it is plain text.
        tools: JSON schemas of what the policy may call, which a chat template shows it.
        test_set: name of the test set that it is from; ``""`` where the task does not tell several apart.
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
        """The text by which two problems are compared: all messages but the system's, and the prompt."""
        before = [str(message["content"]) for message in self.messages_before or () if message["role"] != "system"]
        return "\n".join([*before, self.prompt])

    @property
    def prompt_end(self) -> str:
        """The end of the prompt as far as it is known: messages are written by a chat template."""
        return str(self.metadata.get(_PROMPT_END, "" if self.messages_before is not None else self.prompt))

    @property
    def templated(self) -> bool:
        """Whether the end of the prompt is known as the model read it."""
        return _PROMPT_END in self.metadata

    def prompted(self, rendered: str) -> Problem:
        """The problem with the end of its prompt as the model read it: a template may begin the reasoning there."""
        return replace(self, metadata={**self.metadata, _PROMPT_END: rendered[-_LONGEST_END:]})
