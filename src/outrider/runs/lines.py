"""A file of numbers with one line per step. If the writing process is killed, at most the last line is damaged."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from outrider.errors import UserError
from outrider.record.disk import disk_refused, sync, write_atomically


class JsonLines:
    """A file with one JSON object per step: ``{"step": 12, "reward": 0.5}``. Steps ascend, and all values are numbers.

    Since JSON has no NaN and no infinities, NaN is written as null, and infinities are written as ``"Infinity"`` and
    ``"-Infinity"``. All three are read back as floats.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = -1

    def append(self, step: int, values: Mapping[str, float]) -> None:
        """Append a line. After this method has returned, the line survives the end of the process. It survives a power
        cut only after :meth:`sync`.

        Raises:
            UserError: the line cannot be written. The file does not change.
            ValueError: the step is not later than the last step, or a value is named ``step``.
            TypeError: a value is not a number.
        """
        if step <= self._last or "step" in values:
            raise ValueError(f"step {step} with {sorted(values)} cannot follow step {self._last} in {self.path}")
        plain = {key: _plain(key, value) for key, value in values.items()}
        line = json.dumps({"step": step, **plain}, allow_nan=False).encode() + b"\n"
        size = None
        try:
            with self.path.open("ab") as file:
                size = file.tell()
                file.write(line)
        except OSError as error:
            if size is not None:
                os.truncate(self.path, size)  # half a line would damage the next line
            raise disk_refused(self.path, error) from error
        self._last = step

    def sync(self) -> None:
        """Wait until the lines are on disk. Raises UserError if they cannot be written."""
        sync(self.path)

    def rows(self) -> list[dict[str, float]]:
        """Return all complete lines.

        Raises:
            UserError: a line is not a JSON object with a step. The message names the file and the line.
        """
        return [row for row, _ in self._lines()]

    def repair(self) -> list[str]:
        """Remove the last line if a kill left it incomplete, and return messages about the removal.

        Only the process that writes the file may call this method.
        """
        lines = self._lines()
        self._last = int(lines[-1][0]["step"]) if lines else -1
        whole = sum(len(line) for _, line in lines)
        torn = (self.path.stat().st_size if self.path.exists() else 0) - whole
        if not torn:
            return []
        os.truncate(self.path, whole)
        return [f"dropped {torn} bytes of an incomplete last line from {self.path.name}."]

    def set_aside(self, after_step: int, into: Path) -> int:
        """Move the lines of steps after ``after_step`` to a file of the same name in the folder ``into``. Return the
        number of moved lines."""
        lines = self._lines()
        late = [line for row, line in lines if row["step"] > after_step]
        kept = [(row, line) for row, line in lines if row["step"] <= after_step]
        if late:
            # copy before removing, so that a kill in between leaves each line in at least one file
            write_atomically(into / self.path.name, b"".join(late))
            write_atomically(self.path, b"".join(line for _, line in kept))
        self._last = int(kept[-1][0]["step"]) if kept else -1
        return len(late)

    def _lines(self) -> list[tuple[dict[str, float], bytes]]:
        content = self.path.read_bytes() if self.path.exists() else b""
        # text after the last newline is an incomplete line, which is still being written or was truncated
        *lines, _torn = content.split(b"\n")
        return [(self._row(number, line), line + b"\n") for number, line in enumerate(lines, start=1)]

    def _row(self, number: int, line: bytes) -> dict[str, float]:
        try:
            row = {key: _number(value) for key, value in json.loads(line).items()}
            return row | {"step": int(row["step"])}
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise UserError(f"{self.path}, line {number}, is no JSON object of numbers with a step.") from error


def _plain(key: str, value: float) -> float | str | None:
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, int | float):
        raise TypeError(f"metric {key!r} is {number!r}, which is no number")
    if math.isfinite(number):
        return number
    return None if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    return value if isinstance(value, int | float) else float(value)
