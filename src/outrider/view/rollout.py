"""One rollout: its tokens with their numbers, its prompt, its verdict, and the rollouts of its group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from outrider.errors import UserError
from outrider.view.listing import texts_of
from outrider.view.opened_run import OpenedRun, Row


class ShownToken(NamedTuple):
    """A token of a response.

    Attributes:
        text: what it adds to the text; empty where a character is not complete yet.
        sampled: False where an environment said it.
        logprob, entropy: as recorded when it was drawn, in nats; None where not known.
        alternative: the text of the most likely other token, with its log-probability; None where `outrider analyse
            tokens` has not been run on the rollout.
    """

    text: str
    id: int
    sampled: bool
    logprob: float | None
    entropy: float | None
    alternative: tuple[str, float] | None = None


class ShownRollout(NamedTuple):
    """What a page shows of a rollout.

    Attributes:
        row: its numbers, with ``text``, ``prompt``, ``answer`` and ``detail``.
        prefix: what it continues, of its parent or of a given solution; empty where it began anew.
        tokens: its own; empty where the tokens are not on disk or no tokenizer is on this machine.
    """

    row: Row
    prompt: str
    prefix: str
    tokens: list[ShownToken]


def find(run: OpenedRun, split: str, step: int, group: str, member: int) -> Row:
    """The numbers of one rollout.

    Raises:
        UserError: the run has no such rollout.
    """
    rows = run.rows(
        "SELECT * FROM seen WHERE split = ? AND step = ? AND group_id = ? AND member = ? LIMIT 1",
        [split, step, group, member],
    )
    if not rows:
        raise UserError(f"{run.name} has no {split} rollout {group}/{member} of step {step}")
    return rows[0]


def shown(run: OpenedRun, row: Row, tokenizer: Tokenizer | None) -> ShownRollout:
    """A rollout with its texts and tokens."""
    texts = texts_of(run, [row], ["text", "prompt", "answer", "detail"]).get((row["file"], row["row"]), {})
    row = row | {name: value for name, value in texts.items() if name not in ("file", "row")}
    if not run.has_tokens:
        return ShownRollout(row, row.get("prompt") or "", "", [])
    record = run.rows(
        "SELECT prompt_ids, prefix_text, token_ids, logprobs, entropies, trainable "
        "FROM read_parquet(?, file_row_number = true) WHERE file_row_number = ?",
        [row["file"], row["row"]],
    )[0]
    if tokenizer is None:
        return ShownRollout(row, "", record["prefix_text"], [])
    prompt = tokenizer.decode(record["prompt_ids"], skip_special_tokens=False)
    others = _alternatives(run, row, tokenizer)
    return ShownRollout(row, prompt, record["prefix_text"], _tokens(tokenizer, record, others))


def _alternatives(run: OpenedRun, row: Row, tokenizer: Tokenizer) -> dict[int, tuple[str, float]]:
    """By own token, what ``outrider analyse tokens`` has found; its positions count the prefix too."""
    parts = run.path / "analysis" / "tokens" / "parts"
    files = sorted(str(file) for file in parts.glob("*.parquet"))
    if not files:
        return {}
    rows = run.rows(
        "SELECT position - ? AS at, alternative_id, alternative_logprob FROM read_parquet(?) "
        "WHERE split = ? AND step = ? AND group_id = ? AND member = ?",
        [row["branch_at"], files, row["split"], row["step"], row["group_id"], row["member"]],
    )
    return {
        one["at"]: (tokenizer.decode([one["alternative_id"]], skip_special_tokens=False), one["alternative_logprob"])
        for one in rows
    }


def _tokens(tokenizer: Tokenizer, record: Row, others: Mapping[int, tuple[str, float]]) -> list[ShownToken]:
    ids = record["token_ids"]
    nothing: list[Any] = [None] * len(ids)
    sampled = record["trainable"] or [True] * len(ids)
    numbers = zip(ids, sampled, record["logprobs"] or nothing, record["entropies"] or nothing, strict=True)
    texts = pieces_of(tokenizer, ids)
    return [
        ShownToken(text, id, was_sampled, _finite(logprob), _finite(entropy), others.get(at))
        for at, (text, (id, was_sampled, logprob, entropy)) in enumerate(zip(texts, numbers, strict=True))
    ]


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each token adds to the text; a character of several tokens is the last one's."""
    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(tokenizer, id) or "" for id in ids]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def group_of(run: OpenedRun, row: Row) -> list[Row]:
    """All rollouts of the same problem in the same step, with the beginnings of their texts.

    A branch stands below the rollout that it continues; ``depth`` says how deep in the tree.
    """
    rows = run.rows(
        "SELECT * FROM seen WHERE split = ? AND step = ? AND group_id = ? ORDER BY member",
        [row["split"], row["step"], row["group_id"]],
    )
    texts = texts_of(run, rows, ["text"], 160)
    return _as_tree([each | texts.get((each["file"], each["row"]), {}) for each in rows])


def _as_tree(rows: list[Row]) -> list[Row]:
    """Depth first. What continues a rollout that is not there, or itself, is a root."""
    by_id = {f"{row['group_id']}/{row['member']}": row for row in rows}
    below: dict[str | None, list[str]] = {}
    for id, row in by_id.items():
        below.setdefault(row["parent"] if row["parent"] in by_id and row["parent"] != id else None, []).append(id)
    ordered: list[Row] = []
    waiting = [(id, 0) for id in reversed(below.get(None, []))]
    while waiting:
        id, depth = waiting.pop()
        ordered.append(by_id[id] | {"depth": depth})
        waiting += [(child, depth + 1) for child in reversed(below.get(id, []))]
    placed = {(row["group_id"], row["member"]) for row in ordered}  # a damaged dump may have a circle
    return ordered + [row | {"depth": 0} for row in rows if (row["group_id"], row["member"]) not in placed]
