"""Measures how many seconds each phase of a step takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

NOT_WORK = frozenset({"evaluate", "record", "save"})
OVERLAPPED = "overlapped_"
"""Prefix for phases of sampling that run during an update. The update's seconds already include their seconds."""


def training_seconds(seconds: Mapping[str, float]) -> float:
    """Return the seconds that a step spent on training, given its entry in ``timing.jsonl``. Evaluation and disk writes
    are excluded. If sampling and an update run at the same time, only the update's seconds count.

    >>> training_seconds({"step": 3, "sample": 1.5, "learn": 0.5, "save": 9.0, "tokens_per_second": 800.0})
    2.0
    """
    others = NOT_WORK | {"step", "tokens_per_second"}
    return sum(s for phase, s in seconds.items() if phase not in others and not phase.startswith(OVERLAPPED))


class Clock:
    """Sums wall-clock time by phase. The time of a nested phase is not counted for the outer phase.

    At the start of each phase, the clock calls the function ``watch`` with the phase's name, for example to show the
    phase on the screen.
    """

    def __init__(self, watch: Callable[[str], None] = lambda phase: None) -> None:
        self.watch = watch
        self.seconds: dict[str, float] = {}
        self._stack: list[str] = []
        self._since = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._switch()
        self._stack.append(name)
        self.watch(name)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()
            if self._stack:
                self.watch(self._stack[-1])

    def take(self) -> dict[str, float]:
        """Return the seconds of each phase since the last call, and reset all phases to zero."""
        self._switch()
        taken, self.seconds = self.seconds, {}
        return taken

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add the seconds of phases that another clock has measured."""
        for phase, more in seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + more

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] = self.seconds.get(self._stack[-1], 0.0) + now - self._since
        self._since = now
