"""Finds the runs in the folder of a bench (a comparison of recipes)."""

from __future__ import annotations

from pathlib import Path

from outrider.errors import UserError


def is_bench(path: Path) -> bool:
    """Return whether a folder belongs to a bench (a comparison of recipes) that has started."""
    return (path / "bench.yaml").is_file()


def runs_of_bench(path: Path) -> list[Path]:
    """Return the folders of all runs of the recipes that a bench compares, sorted by recipe and seed.

    Raises:
        UserError: the bench has not started any run yet.
    """
    runs = sorted((config.parent for config in path.glob("cells/*/*/config.yaml")), key=_place)
    if not runs:
        raise UserError(f"{path} is a bench whose recipes have not begun to train: there is no run in it yet")
    return runs


def refuse_bench(path: Path) -> None:
    """Raise an error if ``path`` is the folder of a bench (a comparison of recipes) instead of a run. The message names
    a run in this folder.

    Raises:
        UserError: ``path`` is the folder of a bench.
    """
    if is_bench(path):
        runs = runs_of_bench(path)
        page = path / "bench.html"
        told = f"; {page} is its page" if page.is_file() else ""
        raise UserError(f"{path} is a bench of {len(runs)} runs: name one of them, such as {runs[0]}{told}")


def _place(run: Path) -> tuple[str, int, str]:
    """Return the sort key of a run, which sorts by recipe first, and then by seed as a number."""
    return run.parent.name, int(run.name) if run.name.isdecimal() else 0, run.name
