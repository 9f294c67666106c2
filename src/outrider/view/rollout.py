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
        "SELECT * FROM seen WHERE split = ? AND step = ? AND group_id = ? AND member = ? ORDER BY file, row LIMIT 1",
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
    others = _alternatives(run, row, record["token_ids"], tokenizer)
    return ShownRollout(row, prompt, record["prefix_text"], _tokens(tokenizer, record, others))


def _alternatives(
    run: OpenedRun, row: Row, token_ids: Sequence[int], tokenizer: Tokenizer
) -> dict[int, tuple[str, float]]:
    """By own token, what ``outrider analyse tokens`` has found; its positions count the prefix too.

    Nothing where it was of another text, as of a step that a resume has done again.
    """
    parts = run.path / "analysis" / "tokens" / "parts"
    files = sorted(str(file) for file in parts.glob("*.parquet"))
    if not files:
        return {}
    rows = run.rows(
        "SELECT position - ? AS at, token_id, alternative_id, alternative_logprob FROM read_parquet(?) "
        "WHERE split = ? AND step = ? AND group_id = ? AND member = ?",
        [row["branch_at"], files, row["split"], row["step"], row["group_id"], row["member"]],
    )
    own = [one for one in rows if one["at"] >= 0]
    if any(one["at"] >= len(token_ids) or token_ids[one["at"]] != one["token_id"] for one in own):
        return {}
    return {
        one["at"]: (tokenizer.decode([one["alternative_id"]], skip_special_tokens=False), one["alternative_logprob"])
        for one in own
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
    """What each token adds to the text; a character of several tokens is the last one's.

    Bytes that are no text, as a random policy draws them, are U+FFFD.
    """
    stream, pieces = DecodeStream(skip_special_tokens=False), list[str | None]()
    for id in ids:
        try:
            pieces.append(stream.step(tokenizer, id))
        except Exception:  # noqa: BLE001 - the library's own, of no type: an "invalid prefix"
            stream = DecodeStream(skip_special_tokens=False)
            pieces.append("\ufffd")
    if pieces and pieces[-1] is None:
        pieces[-1] = "\ufffd"
    return [piece or "" for piece in pieces]


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
    first: dict[str, int] = {}
    for at, row in enumerate(rows):
        first.setdefault(f"{row['group_id']}/{row['member']}", at)
    below: dict[int | None, list[int]] = {}
    for at, row in enumerate(rows):
        parent = first.get(row["parent"] or "")
        below.setdefault(None if parent == at else parent, []).append(at)
    depths: dict[int, int] = {}
    waiting = [(at, 0) for at in reversed(below.get(None, []))]
    while waiting:
        at, depth = waiting.pop()
        depths[at] = depth
        waiting += [(child, depth + 1) for child in reversed(below.get(at, []))]
    # a damaged dump may have a circle, which hangs below no root
    order = [*depths, *(at for at in range(len(rows)) if at not in depths)]
    return [rows[at] | {"depth": depths.get(at, 0)} for at in order]
