"""Reads one rollout, with its prompt, its tokens, its verdict, and the rollouts of its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import Tokenizer

from outrider.errors import UserError
from outrider.view.listing import texts_of
from outrider.view.messages import Message, messages_in, messages_of, turns_of
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.tokens import ShownToken, analysed_tokens, tokens_of
from outrider.view.trained import clip_of

# COLUMNS selects only existing columns, since files from earlier Outrider versions lack some columns
_RECORD = """
SELECT COLUMNS('^(prompt_ids|prefix_text|token_ids|logprobs|entropies|trainable|observations|advantages|log_ratios)$')
FROM read_parquet(?, file_row_number = true) WHERE file_row_number = ?
"""


class Branching(NamedTuple):
    """A branch of a rollout: the number of the rollout's own tokens before the branch point, and the row of the
    branch."""

    at: int
    row: Row


class ShownRollout(NamedTuple):
    """The content of a rollout's page.

    Attributes:
        row: all columns of the rollout, including ``text``, ``prompt``, ``answer`` and ``detail``.
        prompt: text of the prompt; "" if unknown.
        prefix: text that the rollout continues, from its parent or a given solution; "" if the rollout starts at the
            prompt.
        tokens: the rollout's own tokens; empty if the tokens are not on disk, or if this machine has no tokenizer.
        messages: messages of the prompt; empty if the prompt has no roles.
        turns: turns of the response; empty if the response is a single text.
        observed: for each reply of an environment, the number of own tokens before the reply, the number of tokens in
            the reply, and whether the policy's request was invalid.
    """

    row: Row
    prompt: str
    prefix: str
    tokens: list[ShownToken]
    messages: list[Message]
    turns: list[Message]
    observed: list[tuple[int, int, bool]]


def find(run: OpenedRun, split: str, step: int, group: str, member: int) -> Row:
    """Return the row of one rollout, without texts.

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
    """Return a rollout with its texts and tokens."""
    texts = texts_of(run, [row], ["text", "prompt", "answer", "detail"]).get((row["file"], row["row"]), {})
    row = row | {name: value for name, value in texts.items() if name not in ("file", "row")}
    if not run.has_tokens:
        prompt, text = row.get("prompt") or "", row.get("text") or ""
        return ShownRollout(row, prompt, "", [], messages_in(prompt), messages_in(text), [])
    record = run.rows(_RECORD, [row["file"], row["row"]])[0]
    said = record.get("observations") or []
    turns = turns_of(row.get("text") or "", [(one["begin"], one["end"]) for one in said])
    observed = [(one["at"], one["tokens"], one["error"]) for one in said]
    if tokenizer is None:
        return ShownRollout(row, "", record["prefix_text"], [], [], turns, observed)
    ids = record["prompt_ids"]
    prompt = tokenizer.decode(ids, skip_special_tokens=False)
    analysed = analysed_tokens(run, row, record["token_ids"], tokenizer)
    tokens = tokens_of(tokenizer, record, row["advantage"], analysed, clip_of(run.data.config))
    return ShownRollout(row, prompt, record["prefix_text"], tokens, messages_of(tokenizer, ids), turns, observed)


def branchings(row: Row, group: Sequence[Row]) -> list[Branching]:
    """Return the branches that start within a rollout's own tokens, in the order of their branch points."""
    own = f"{row['group_id']}/{row['member']}"
    found = [Branching(other["branch_at"] - row["branch_at"], other) for other in group if other["parent"] == own]
    return sorted((one for one in found if one.at >= 0), key=lambda one: one.at)


def group_of(run: OpenedRun, row: Row) -> list[Row]:
    """Return all rollouts of a rollout's group, with the beginnings of their texts.

    Each branch comes after the rollout that it continues. ``depth`` is a rollout's depth in the tree of branches.
    """
    rows = run.rows(
        "SELECT * FROM seen WHERE split = ? AND step = ? AND group_id = ? ORDER BY member",
        [row["split"], row["step"], row["group_id"]],
    )
    texts = texts_of(run, rows, ["text"], 160)
    return _as_tree([each | texts.get((each["file"], each["row"]), {}) for each in rows])


def _as_tree(rows: list[Row]) -> list[Row]:
    """Sort rows depth-first. A rollout whose parent is missing or is the rollout itself counts as a root."""
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
    # in damaged files, parents may form a cycle, which no root reaches
    order = [*depths, *(at for at in range(len(rows)) if at not in depths)]
    return [rows[at] | {"depth": depths.get(at, 0)} for at in order]
