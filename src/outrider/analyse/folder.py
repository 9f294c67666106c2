"""The output folder of an analysis, which is written in parts so that an interrupted analysis can be resumed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from outrider.analyse.selection import WorkUnit
from outrider.errors import UserError
from outrider.processes.ranks import Ranks
from outrider.record.disk import sweep, write_atomically
from outrider.runs.folder import lock_folder
from outrider.screen.progress import Progress

_ABOUT = "about.json"
_LOCK = ".lock"


class AnalysisFolder:
    """The output folder of an analysis, which has these files:

    ======================  ==================================================================================
    ``about.json``          the analysis and its settings, hashes of the weights and rollouts, and all part names
    ``parts/*.parquet``     the rows, ``<split>-<step>-<number>.parquet``; a file is complete or absent
    ``vocabulary.parquet``  ``token_id`` and ``text`` of every token of the model
    ======================  ==================================================================================

    A written part never changes. Readers need no lock and may read while the analysis runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None

    def begin(self, about: Mapping[str, Any], vocabulary: Sequence[str]) -> None:
        """Begin an analysis in an empty folder, or continue the folder's analysis if ``about.json`` equals ``about``.

        Raises:
            UserError: the folder contains another analysis or other files, is in use by another process, or cannot be
                written.
        """
        self._lock = lock_folder(self.path)
        file = self.path / _ABOUT
        if not file.exists():
            others = sorted(p.name for p in self.path.iterdir() if p.name != _LOCK and not p.name.endswith(".tmp"))
            if others and others != ["vocabulary.parquet"]:  # left by a killed process
                raise UserError(f"{self.path} is not empty (it holds {others[0]}); choose another folder with --out")
            texts = pa.table({"token_id": pa.array(range(len(vocabulary)), pa.int32()), "text": pa.array(vocabulary)})
            write_table(self.path / "vocabulary.parquet", texts)
            # about.json is written last, since it marks the analysis as begun
            write_atomically(file, json.dumps(about, indent=1).encode() + b"\n")
        elif differences := _differences(self.about(), about):
            raise UserError(
                f"{self.path} holds another analysis ({'; '.join(differences)}); choose another folder with --out"
            )
        sweep(self.path)
        sweep(self.path / "parts")

    def about(self) -> dict[str, Any]:
        """Return the content of ``about.json``.

        Raises:
            UserError: the folder contains no analysis, or ``about.json`` is damaged.
        """
        file = self.path / _ABOUT
        try:
            result: dict[str, Any] = json.loads(file.read_bytes())
        except FileNotFoundError:
            raise UserError(f"{self.path} is not an analysis folder: it has no {_ABOUT}") from None
        except ValueError as error:
            raise UserError(f"{file} is damaged: {error}") from error
        return result

    def place(self, name: str) -> Path:
        return self.path / "parts" / f"{name}.parquet"

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows, in the order of the rollouts.

        Raises:
            UserError: the folder contains no analysis, or the analysis is not finished.
        """
        names = self.about()["parts"]
        missing = [name for name in names if not self.place(name).is_file()]
        if missing:
            raise UserError(
                f"{self.path} is not finished ({len(names) - len(missing)} of {len(names)} parts); run the same "
                "command again to continue"
            )
        return pa.concat_tables([pq.read_table(self.place(name), columns=columns) for name in names])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Release the lock, so that other processes may write to the folder."""
        if self._lock is not None:
            self._lock.close()


def write_table(path: Path, table: pa.Table) -> None:
    """Write one Parquet file atomically. Equal tables give byte-identical files."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())


def part_name(split: str, part: WorkUnit) -> str:
    """Return the name of the Parquet file with the results of one unit of work, without the suffix."""
    return f"{split}-{part.step:08d}-{part.number:05d}"


def compute_parts(
    ranks: Ranks,
    folder: AnalysisFolder,
    split: str,
    parts: Sequence[WorkUnit],
    unit: str,
    work: Callable[[WorkUnit], pa.Table],
) -> None:
    """Compute and write all missing parts, divided among the ranks, with one progress bar.

    After Ctrl-C, the finished parts remain on disk. Calling the function again computes the remaining parts.
    """
    places = {part: folder.place(part_name(split, part)) for part in parts}

    def done() -> int:
        return sum(part.cost for part, place in places.items() if place.is_file())

    def share() -> list[None]:
        console = None if ranks.main else Console(file=io.StringIO())
        with Progress(sum(part.cost for part in parts), unit, console) as progress:
            progress.phase("analyse")
            progress.resume_at(reached := done())
            for part in mine:
                write_table(places[part], work(part))
                before, reached = reached, done()  # cost of all ranks' finished parts
                progress.advance(reached - before)
        return []

    # rank 0 lists the missing parts for all ranks, since the ranks' own lists could differ
    missing = ranks.from_main(lambda: [part for part in parts if not places[part].is_file()])
    mine = missing[ranks.rank :: ranks.size]
    ranks.gather(share)  # waits for all ranks; an error on one rank is raised on all ranks


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"{key}: {_short(before.get(key))} -> {_short(now.get(key))}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != json.loads(json.dumps(now.get(key)))
    ]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
