"""Convert a rollout to a sample of an Inspect log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from outrider.exporters.messages import messages_of
from outrider.exporters.source import ExportedRollout
from outrider.importers.plain import PLAIN
from outrider.record import Outcome, StopReason

SCORER = "verdict"
NO_SCORE = (Outcome.TIMEOUT, Outcome.ERROR)
_LETTERS = {Outcome.CORRECT: "C", Outcome.INCORRECT: "I", Outcome.UNPARSEABLE: "N"}
_STOPS = {
    StopReason.STOP: "stop",
    StopReason.TEXT: "stop",
    StopReason.DONE: "stop",
    StopReason.LENGTH: "max_tokens",
    StopReason.CONTEXT: "model_length",
}
_TEXTS = ("prompt", "text", "answer", "detail")  # columns for which a sample has separate fields


class Known(NamedTuple):
    """Data that all samples of a log share: the model's name, and gold answers by problem id."""

    model: str
    gold: Mapping[str, str]


def sample_of(rollout: ExportedRollout, epoch: int, known: Known) -> dict[str, Any]:
    """Convert a rollout to a sample of an Inspect log (log version 2). The prompt, the response, the answer and the
    verifier's explanation (``detail``) have their own fields in a sample. All other non-empty columns of the rollout
    become the sample's metadata.

    The score is ``C`` for a correct answer, ``I`` for an incorrect answer, ``N`` for an answer that could not be
    parsed, and NaN if the verifier failed. A rollout that was never verified has no score.
    """
    row, tokens = rollout.row, rollout.row["tokens"]
    said = [{"role": one.role, "content": one.content} for one in messages_of(rollout)]
    for place, message in enumerate(said):
        own = {"source": "generate", "model": known.model} if message["role"] == "assistant" else {"source": "input"}
        message |= {"id": f"m{place}", **(own if place == 0 or message["role"] == "assistant" else {})}
    usage = {"input_tokens": 0, "output_tokens": tokens, "total_tokens": tokens} if tokens is not None else None
    choice = {"message": said[-1], "stop_reason": _STOPS.get(row["stop"], "unknown")}
    if said[-1]["role"] != "assistant":  # the last message is from an environment
        choice["message"] = {"role": "assistant", "content": "", "id": "last", "source": "generate"}
    return {
        "id": row["problem_id"],
        "epoch": epoch,
        "input": row["prompt"] or "",
        "target": known.gold.get(row["problem_id"], ""),
        "messages": said,
        "output": {
            "model": known.model,
            "choices": [choice],
            "completion": choice["message"]["content"],  # type: ignore[index]
            **({"usage": usage} if usage else {}),
        },
        "scores": score_of(row),
        "metadata": _metadata(row),
        "store": {},
        "events": [],
        "model_usage": {known.model: usage} if usage else {},
        "uuid": f"{row['split']}-{row['step']}-{row['group_id']}-{row['member']}",
        "attachments": {},
    }


def score_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping from the scorer's name to the sample's score; empty if the sample has no score."""
    if row["outcome"] not in set(Outcome):  # no outcome, or an outcome that Outrider does not know
        return {}
    outcome = Outcome(row["outcome"])
    score = {"value": _LETTERS.get(outcome, math.nan), "answer": row["answer"], "explanation": row["detail"]}
    if outcome in NO_SCORE:
        score["reason"] = "scoring_failed"
    return {SCORER: {**score, "metadata": {"outcome": outcome.value}, "history": []}}


def summary_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a sample for the log's sample list. Long texts are truncated, as in Inspect's own logs."""
    names = ("id", "epoch", "target", "scores", "model_usage", "uuid", "metadata")
    seen = {name: sample[name] for name in names}
    seen["scores"] = {
        name: {**score, "answer": _short(score["answer"]), "explanation": _short(score["explanation"])}
        for name, score in sample["scores"].items()
    }
    turns = sum(message["role"] == "assistant" for message in sample["messages"])
    counts = {"message_count": len(sample["messages"]), "turn_count": turns}
    return {**seen, **counts, "input": _short(sample["input"]), "target": _short(sample["target"]), "completed": True}


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= 1024 else text[:1021] + "..."


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row's non-empty values, except columns with their own fields in a sample. NaN is written as text,
    since JSON has no NaN."""
    known = {name: row[name] for name in PLAIN.names if name not in _TEXTS and row[name] not in (None, "")}
    return {name: "NaN" if isinstance(value, float) and math.isnan(value) else value for name, value in known.items()}
