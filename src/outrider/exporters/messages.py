"""Convert a rollout to chat messages."""

from __future__ import annotations

from typing import NamedTuple

from outrider.exporters.source import ExportedRollout
from outrider.record.turns import text_parts


class Said(NamedTuple):
    """One message. ``role`` is ``user`` for the prompt and for an environment's messages, and ``assistant`` for the
    policy's messages.
    """

    role: str
    content: str


def messages_of(rollout: ExportedRollout) -> list[Said]:
    """Return the prompt and the response as messages. In a multi-turn response, each turn and each observation is a
    message.

    The response of a branch starts with the prefix from the parent rollout. The whole prefix, with any observations, is
    part of the response's first message. An empty prompt or response still becomes a message, but an empty turn between
    observations is skipped.
    """
    first, *rest = text_parts(rollout.row["text"] or "", rollout.observed)
    parts = [first._replace(text=(rollout.prefix or "") + first.text), *rest]
    said = [Said("assistant" if part.sampled else "user", part.text) for part in parts if part.text]
    return [Said("user", rollout.row["prompt"] or ""), *(said or [Said("assistant", "")])]
