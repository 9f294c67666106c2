"""Shows the progress of a run as two live lines on a terminal, or as occasional plain lines in a log."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from outrider.screen.notebook import notebook_line

_SHOWN = {"reward": ".3f", "entropy": ".3f", "surprisal": ".3f", "solved": ".0%", "mixed": ".0%", "unsolved": ".0%"}
_COLOURS = {"solved": "green", "mixed": "yellow", "unsolved": "red"}
_NOT_WORK = frozenset({"evaluate", "save"})
_WIDEST_PHASE = 8
_CELL_EVERY = 0.25  # seconds between updates of a notebook's cell


class Progress:
    """A progress bar over a run's budget, with a second line for the run's phase, speed and latest metrics.

    On a terminal and in a notebook, both lines are redrawn in place and never wrap (80 columns are enough). In a log,
    plain lines are printed, with at least ``every`` seconds between them, and one more line at the end.

    The speed excludes the time of the phases ``evaluate`` and ``save``. The remaining time is the remaining budget
    divided by this speed, plus the time for the remaining ``evaluations``. Each remaining evaluation is assumed to take
    as long as past evaluations took on average. :meth:`foresee` overrides the remaining time.

    >>> import io
    >>> with Progress(1000, "tokens", console=Console(file=io.StringIO(), width=80)) as progress:
    ...     progress.phase("sample")
    ...     progress.advance(250)
    ...     progress.stats({"reward": 0.5})
    >>> progress.share
    0.25

    Args:
        total: the run's budget in ``unit``. A budget of 0 counts as fully used.
        unit: unit of the budget, such as ``"tokens"``, ``"steps"`` or ``"runs"``.
        console: console to draw on, or None for standard error.
        every: minimum seconds between plain lines.
    """

    def __init__(self, total: int, unit: str = "tokens", console: Console | None = None, every: float = 10.0) -> None:
        self._total, self._unit = total, unit
        self._begin = self._done = 0
        self._console = console or Console(stderr=True)
        self._cell = notebook_line() if console is None else None
        self._every = every
        self.evaluations = 0.0
        self._evaluated, self._evaluating_seconds = 0, 0.0
        self._phase = ""
        self._foreseen: tuple[float, float] | None = None
        self._stats: dict[str, float] = {}
        self._training_seconds = 0.0
        self._since = self._printed = time.monotonic()
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=4, transient=False)

    @property
    def share(self) -> float:
        """The used share of the budget, or the share set by :meth:`foresee`. The share is at most 1, although the last
        step may exceed the budget."""
        if self._foreseen is not None:
            return self._foreseen[0]
        return min(self._done / self._total, 1.0) if self._total else 1.0

    def phase(self, name: str) -> None:
        """Set the current phase: sample, verify, learn, evaluate or save."""
        self._pause()
        self._phase = name
        self._report()

    def resume_at(self, done: int) -> None:
        """Set the budget that the run used before it was resumed. This part of the budget does not affect the speed."""
        self._begin = self._done = done

    def count_by(self, total: int, unit: str, begin: int, done: int) -> None:
        """Measure progress by another limit of the run, such as its steps. ``total`` is the limit in ``unit``, and
        ``done`` is the part that the run has used so far. ``done`` includes ``begin``, the part used before the run was
        resumed."""
        self._total, self._unit, self._begin, self._done = total, unit, begin, done

    def recount(self, done: int, total: int) -> None:
        """Set how much of the budget is used (``done``), and the budget (``total``). Both may be sums over several
        runs. If ``done`` decreases, the measured speed does not."""
        self._begin -= max(self._done - done, 0)
        self._done, self._total = done, total
        self._report()

    def foresee(self, share: float, seconds: float) -> None:
        """Show the given share and remaining seconds, instead of values computed from the speed, until the next call of
        this method."""
        self._foreseen = share, seconds

    def evaluated(self) -> None:
        """Record that an evaluation has finished."""
        self._pause()
        self._evaluated += 1
        self.evaluations = max(self.evaluations - 1, 0.0)

    def advance(self, amount: int) -> None:
        """Add ``amount`` to the used budget."""
        self._done += amount
        self._report()

    def stats(self, metrics: Mapping[str, float]) -> None:
        """Show the latest metrics of a step: reward, entropy (or its estimate), and the shares of solved, mixed and
        unsolved groups.
        """
        known = {name: metrics[name] for name in _SHOWN if name in metrics}
        if "surprisal" in known:  # an entropy estimate, recorded only if the entropy is unknown
            del known["entropy"]
        self._stats |= known
        self._report()

    def say(self, message: str) -> None:
        """Print a permanent message, such as a notice or an evaluation. Lines are wrapped only on a terminal."""
        self._console.print(message, markup=False, highlight=False, soft_wrap=not self._console.is_terminal)

    def __enter__(self) -> Self:
        self._since = self._printed = time.monotonic()
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._pause()
        if self._cell is not None:
            self._cell.update(self._html())
        elif self._console.is_terminal:
            self._live.stop()
        else:
            self._print_line()

    def _pause(self) -> None:
        """Add the time since the last call to the total time of training or of evaluation, depending on the current
        phase."""
        now = time.monotonic()
        self._training_seconds += 0.0 if self._phase in _NOT_WORK else now - self._since
        self._evaluating_seconds += now - self._since if self._phase == "evaluate" else 0.0
        self._since = now

    def _speed(self) -> float:
        """Return the speed in units per second. It is 0 before any progress."""
        running = 0.0 if self._phase in _NOT_WORK else time.monotonic() - self._since
        seconds = self._training_seconds + running
        return (self._done - self._begin) / seconds if seconds > 0 else 0.0

    def _left(self) -> str:
        if self._foreseen is not None:
            return clock_text(self._foreseen[1])
        left, speed = max(self._total - self._done, 0), self._speed()
        if left and not speed:
            return "-:--"
        later = self.evaluations * self._evaluating_seconds / self._evaluated if self._evaluated else 0.0
        return clock_text((left / speed if left else 0.0) + later)

    def _numbers(self) -> list[tuple[str, str]]:
        return [(name, format(value, _SHOWN[name])) for name, value in self._stats.items()]

    def _html(self) -> str:
        """Return the bar and the metrics as HTML."""
        recorder = Console(file=io.StringIO(), record=True, width=100, force_jupyter=False)
        recorder.print(self._render())
        return recorder.export_html(inline_styles=True, code_format="<pre style='line-height:1.3'>{code}</pre>")

    def _report(self) -> None:
        if self._cell is not None:
            if time.monotonic() - self._printed >= _CELL_EVERY:
                self._printed = time.monotonic()
                self._cell.update(self._html())
            return
        if not self._console.is_terminal and time.monotonic() - self._printed >= self._every:
            self._print_line()

    def _print_line(self) -> None:
        self._printed = time.monotonic()
        parts = [
            f"{self.share:.0%}",
            f"{_short(self._done)} of {_short(self._total)} {self._unit}",
            f"{_short(self._speed())} {self._unit}/s",
            f"{self._left()} left",
            *([self._phase] if self._phase else []),
            *(f"{name} {number}" for name, number in self._numbers()),
        ]
        # write directly to the file, since rich would wrap lines of a log at 80 columns
        self._console.file.write(" | ".join(parts) + "\n")
        self._console.file.flush()

    def _render(self) -> Group:
        first = Table.grid(padding=(0, 2, 0, 0), expand=True)
        first.add_column(width=_WIDEST_PHASE, no_wrap=True)
        first.add_column(ratio=1)
        for _ in range(4):
            first.add_column(no_wrap=True, justify="right")
        first.add_row(
            Text(self._phase, "bold cyan"),
            ProgressBar(total=1.0, completed=self.share),
            f"{self.share:4.0%}",
            f"{_short(self._done)}/{_short(self._total)} {self._unit}",
            f"{_short(self._speed())}/s",
            f"{self._left()} left",
        )
        second = Text(no_wrap=True, overflow="ellipsis")
        for name, number in self._numbers():
            second.append(f"{name} ", "dim").append(number, _COLOURS.get(name, "")).append("  ")
        return Group(first, second)


def _short(number: float) -> str:
    """Format a number with three digits and a unit.

    >>> [_short(n) for n in (0, 7.25, 999, 1_600_000, 12_345, 2.5e9)]
    ['0', '7.2', '999', '1.60M', '12.3k', '2.50G']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{unit}"
    return str(int(number)) if number == int(number) or number >= 100 else f"{number:.1f}"


def clock_text(seconds: float) -> str:
    """Format a duration as minutes and seconds, or as hours, minutes and seconds if it is at least one hour.

    >>> clock_text(92), clock_text(3 * 3600 + 65)
    ('1:32', '3:01:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
