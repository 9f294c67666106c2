"""Reads texts of a run from disk when a page needs them: prompts, beginnings of rollouts, and environment
observations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb

from outrider.report.content import Observed
from outrider.report.data import Place


def prompts_of_run(db: duckdb.DuckDBPyConnection, tokenizer: Path | None, problem_ids: Sequence[str]) -> dict[str, str]:
    """Return prompts keyed by problem id, decoded with the run's exported tokenizer; empty if there is no tokenizer
    yet."""
    query = (
        "SELECT problem_id, arg_min(prompt_ids, context_kind) FROM files "  # `plain` before `seeded`
        "WHERE problem_id IN (SELECT unnest(?)) GROUP BY problem_id"
    )
    return _decoded(tokenizer, lambda: db.execute(query, [list(problem_ids)]).fetchall() if problem_ids else [])


def beginnings_of(db: duckdb.DuckDBPyConnection, tokenizer: Path | None, places: Sequence[Place]) -> dict[Place, str]:
    """Return the decoded text of the first tokens of rollouts. Each of ``places`` is (step, rollout id, number of
    tokens). The first tokens of a rollout are those after any prefix that it copied from another rollout. ``tokenizer``
    is the folder of the run's exported tokenizer."""
    tokens = "SELECT group_id || '/' || member AS id, token_ids FROM files WHERE step IN (SELECT unnest(?))"

    def read() -> list[tuple[Place, list[int]]]:
        if not places:
            return []
        steps, ids = list({step for step, _, _ in places}), list({id for _, id, _ in places})
        records = dict(db.execute(f"SELECT * FROM ({tokens}) WHERE id IN (SELECT unnest(?))", [steps, ids]).fetchall())
        return [(place, records[place[1]][: place[2]]) for place in places if place[1] in records]

    return _decoded(tokenizer, read)


def observed_in(
    db: duckdb.DuckDBPyConnection, places: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], list[Observed]]:
    """Return the ranges of rollout texts that environments wrote, keyed by step and rollout id."""
    there = {row[0] for row in db.execute("DESCRIBE files").fetchall()} if places else set()
    if "observations" not in there:
        return {}
    steps, ids = list({step for step, _ in places}), list({id for _, id in places})
    found = db.execute(
        "SELECT * FROM (SELECT step, group_id || '/' || member AS id, "
        "[one for one in observations if one.tokens > 0 OR one.error] AS heard FROM files "
        "WHERE step IN (SELECT unnest(?))) WHERE id IN (SELECT unnest(?))",
        [steps, ids],
    ).fetchall()
    return {
        (step, id): [Observed(one["begin"], one["end"], one["error"]) for one in heard]
        for step, id, heard in found
        if heard
    }


_Key = TypeVar("_Key", bound=Hashable)


def _decoded(tokenizer: Path | None, read: Callable[[], Sequence[tuple[_Key, Sequence[int]]]]) -> dict[_Key, str]:
    """Decode token ids to texts without special tokens; return an empty dict if there is no tokenizer."""
    if tokenizer is None or not tokenizer.is_file():
        return {}
    from tokenizers import Tokenizer

    rows = read()
    texts = Tokenizer.from_file(str(tokenizer)).decode_batch([list(ids) for _, ids in rows])
    return {key: text for (key, _), text in zip(rows, texts, strict=True)}
