"""The progress of a run: two lines on a terminal that never wrap, plain lines in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from outrider.screen.progress import Progress


def shown(width: int) -> list[str]:
    """The two live lines at a terminal width, as a terminal would get them."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    progress = Progress(1_600_000, "tokens", console=console)
    progress.phase("evaluate")
    progress.advance(1_234_567)
    progress.stats({"reward": -0.123, "entropy": 10.5, "solved": 1.0, "mixed": 1.0, "unsolved": 1.0, "loss": 3.0})
    with console.capture() as capture:
        console.print(progress._render())
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_progress_never_wraps(width: int) -> None:
    lines = shown(width)
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


def test_progress_shows_everything_at_80_columns() -> None:
    first, second = shown(80)
    assert first.startswith("evaluate ")
    assert " 77%  1.23M/1.60M tokens " in first
    assert first.rstrip().endswith(" left")
    assert second.rstrip() == "reward -0.123  entropy 10.500  solved 100%  mixed 100%  unsolved 100%"


def test_progress_in_a_log_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("outrider.screen.progress.time.monotonic", lambda: now)
    log = io.StringIO()
    with Progress(1000, "tokens", console=Console(file=log, width=40), every=10) as progress:
        progress.resume_at(200)
        progress.phase("sample")
        now += 9
        progress.advance(200)
        assert log.getvalue() == "", "nothing before ten seconds are over"
        progress.phase("evaluate")
        now += 100  # an evaluation does not count as slow training
        progress.phase("learn")
        now += 1
        progress.stats({"reward": 0.5, "mixed": 0.25})
        progress.say("[a notice] that stays and is longer than the 40 columns of this log")
    assert log.getvalue().splitlines() == [
        "40% | 400 of 1.00k tokens | 22.2 tokens/s | 0:27 left | learn",
        "[a notice] that stays and is longer than the 40 columns of this log",
        "40% | 400 of 1.00k tokens | 20 tokens/s | 0:30 left | learn | reward 0.500 | mixed 25%",
    ]


def test_progress_of_an_overrun_or_empty_budget_is_whole() -> None:
    console = Console(file=io.StringIO())
    over, none = Progress(10, "steps", console=console), Progress(0, "steps", console=console)
    over.advance(12)
    assert (over.share, none.share) == (1.0, 1.0)
    assert over._left() == "0:00"
