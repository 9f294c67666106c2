"""A rollout as chat messages."""

from __future__ import annotations

from typing import NamedTuple

from outrider.exporters.source import ExportedRollout
from outrider.record.turns import text_parts


class Said(NamedTuple):
    """One message: ``role`` is ``user`` for the prompt and for an environment, ``assistant`` for the policy."""

    role: str
    content: str


def messages_of(rollout: ExportedRollout) -> list[Said]:
    """Prompt and response; a response of several turns as one message for each turn and each observation.

    A prefix is the beginning of the first turn, with what was observed in it. An empty prompt or response stays a
    message; empty turns between observations are excluded.
    """
    first, *rest = text_parts(rollout.row["text"] or "", rollout.observed)
    parts = [first._replace(text=(rollout.prefix or "") + first.text), *rest]
    said = [Said("assistant" if part.sampled else "user", part.text) for part in parts if part.text]
    return [Said("user", rollout.row["prompt"] or ""), *(said or [Said("assistant", "")])]
