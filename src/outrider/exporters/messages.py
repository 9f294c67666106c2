"""A rollout as chat messages."""

from __future__ import annotations

from typing import NamedTuple

from outrider.exporters.source import ExportedRollout


class Said(NamedTuple):
    """One message: ``role`` is ``user`` for the prompt and for an environment, ``assistant`` for the policy."""

    role: str
    content: str


def messages_of(rollout: ExportedRollout) -> list[Said]:
    """Prompt and response; a response of several turns as one message for each turn and each observation.

    A prefix is the beginning of the first turn, with what was observed in it. An empty prompt or response stays a
    message; empty turns between observations are left out.
    """
    text, prefix = rollout.row["text"] or "", rollout.prefix or ""
    said, last = [Said("user", rollout.row["prompt"] or "")], 0
    for begin, end in rollout.observed:
        said += [Said("assistant", text[last:begin]), Said("user", text[begin:end])]
        last = end
    said.append(Said("assistant", text[last:]))
    at = next(i for i, one in enumerate(said) if one.role == "assistant")
    said[at] = Said("assistant", prefix + said[at].content)
    kept = [one for one in said[1:] if one.content] or [Said("assistant", "")]
    return [said[0], *kept]
