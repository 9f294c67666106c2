"""Reads prime-rl's trace stream, written since version 0.9.1.dev29 (September 2026): episodes with the traces
(conversations) of their agents, and later updates of these traces.

::

    traces/stream/00000.jsonl.zst              sealed chunks of episodes, in order of arrival
    traces/stream/00001.jsonl                  the chunk that is being written
    traces/stream.index.jsonl                  one row per episode
    traces/annotations/<producer>/00000.jsonl  updates of traces: whether and when a trace was trained on, …

The ``info`` of an update is merged into the ``info`` of the trace, where newer values replace older values. An update
also has advantages and entropies per token, for each branch (alternative continuation) of the conversation; null means
unknown. Only their means over all branches are kept, since the table of rollouts has no per-token columns.

Source: the pull requests prime-rl#3444 and #3465, and ``monitors/file/traces/update.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.importers.lines import in_form, json_lines, opened
from outrider.importers.notes import Notes

STREAMS = ("advantages", "entropies")
"""Names of the per-token numbers in an update; their means become columns of the table of rollouts."""
_CHUNK = re.compile(r"(\d+)\.jsonl(\.zst)?")


@dataclass(slots=True)
class TraceUpdate:
    """The merged updates of one trace (the sampled conversation of one agent).

    Attributes:
        info: the merged ``info`` of all updates.
        means: mean of the known per-token numbers, by name (``advantages``, ``entropies``).
    """

    info: dict[str, Any] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)

    @property
    def trained(self) -> bool:
        """Whether the trace was in a training batch."""
        return bool(self.info.get("effective"))

    @property
    def step(self) -> int | None:
        """The training step that trained on the trace; None if unknown."""
        ship = self.info.get("ship")
        return ship.get("step") if isinstance(ship, Mapping) else None


def is_update(names: Iterable[str]) -> bool:
    """Whether a record with these keys is an update of a trace."""
    return {"trace_id", "info", "branches"} <= set(names)


def is_chunk(path: Path) -> bool:
    """Whether a file is a chunk of a trace stream."""
    return path.parent.name == "stream" and _CHUNK.fullmatch(path.name) is not None


def is_annotation(path: Path) -> bool:
    """Whether a file has updates of traces (``annotations/<producer>/00000.jsonl``)."""
    return path.parent.parent.name == "annotations" and _CHUNK.fullmatch(path.name) is not None


def read_updates(paths: Sequence[Path], notes: Notes) -> dict[str, TraceUpdate]:
    """Return the merged updates of every trace, by trace id. The files of each folder must be in the order of their
    names.
    """
    updates: dict[str, TraceUpdate] = {}
    for path in paths:
        for record, where in json_lines(path, notes):
            with in_form(where, "prime-rl"):
                update = updates.setdefault(str(record["trace_id"]), TraceUpdate())
                update.info = _merged(update.info, record["info"] or {})
                for name in STREAMS:
                    numbers = [
                        x for branch in record["branches"] or () for x in branch.get(name) or () if x is not None
                    ]
                    if numbers:
                        update.means[name] = sum(numbers) / len(numbers)
    return updates


def missing_parts(chunks: Sequence[Path], annotations: Sequence[Path], run: str) -> list[str]:
    """Return a sentence if chunks of the stream are missing, and another sentence if there are no annotations."""
    numbers = sorted({int(match[1]) for path in chunks if (match := _CHUNK.fullmatch(path.name))})
    of = f" of {run}" if run else ""
    gaps = [n for n in range(numbers[-1] if numbers else 0) if n not in numbers]
    sentences = []
    if gaps:
        names = ", ".join(f"{n:05d}" for n in gaps[:5]) + (", …" if len(gaps) > 5 else "")
        sentences.append(f"Read in part: chunks {names} of the trace stream{of} are missing.")
    if not annotations:
        sentences.append(
            f"Read in part: no annotations{of} were found (traces/annotations/), so advantages, and which rollouts "
            "were trained on, are unknown."
        )
    return sentences


def indexed_episodes(chunks: Sequence[Path]) -> int | None:
    """Return the number of episodes in the index next to a stream; None if there is no index."""
    index = chunks[0].parent.parent / "stream.index.jsonl"
    if not index.is_file():
        return None
    with opened(index) as file:
        return sum(1 for line in file if line.endswith(b"\n"))


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return new
