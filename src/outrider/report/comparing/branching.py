"""The branching factor of each run's policy, from an analysis of its tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from outrider.measure.groups import means_by_group
from outrider.measure.ragged import owners
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock

_PREFIX = "branching_"
_USUAL = "branching_95"
_TEXT = (
    "How many tokens a policy could plausibly go on with: the size of the smallest set that holds {mass} % of the "
    "probability, in the mean over all positions. Intervals are 95 % bootstrap over problems. Policies are those that "
    "`outrider analyse tokens` was asked for, which are not stopped at equal tokens."
)


def section(folders: Mapping[str, Path]) -> Section | None:
    """Branching factors of the runs that hold a finished analysis of tokens; None if none does.

    The mass is 0.95 if all have it, else the largest that all have.
    """
    parts = {
        name: (path, *result) for name, path in folders.items() if (result := _parts(path / "analysis" / "tokens"))
    }
    if not parts:
        return None
    columns = set.intersection(*(_columns(files) for _, _, files in parts.values()))
    if not columns:
        return None
    column = _USUAL if _USUAL in columns else max(columns, key=_mass)
    rows = [_row(name, *result, column) for name, result in parts.items()]
    bars = [Series(str(row[0]), [str(row[0])], [row[5]], [row[6]], [row[7]]) for row in rows]  # type: ignore[list-item]
    without = [name for name in folders if name not in parts]
    text = _TEXT.format(mass=f"{_mass(column):g}")
    if without:
        text += f" Not analysed: {', '.join(f'`{name}`' for name in without)}."
    figure = Figure("branching", "Branching factor", "bars", "run", "tokens", bars)
    names = ["run", "policy", "rollouts", "responses", "tokens", "branching factor", "from", "to"]
    return Section(
        "branching", "Branching factor", text, [figure], [TableBlock("branching", "Branching factor", names, rows)]
    )


def _parts(folder: Path) -> tuple[dict[str, Any], list[str]] | None:
    """Settings and files of an analysis; None if there is none, or it is not finished."""
    try:
        about = json.loads((folder / "about.json").read_bytes())
        files = [folder / "parts" / f"{name}.parquet" for name in about["parts"]]
    except (OSError, ValueError, KeyError):
        return None
    return (about, [str(file) for file in files]) if files and all(file.is_file() for file in files) else None


def _columns(files: Sequence[str]) -> set[str]:
    described = duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [list(files)]).fetchall()
    return {name for name, *_ in described if name.startswith(_PREFIX)}


def _mass(column: str) -> float:
    """In percent.

    >>> _mass("branching_95"), _mass("branching_99_9")
    (95.0, 99.9)
    """
    return float(column.removeprefix(_PREFIX).replace("_", "."))


def _row(name: str, path: Path, about: dict[str, Any], files: Sequence[str], column: str) -> list[CellValue]:
    columns = duckdb.execute(
        f"SELECT split, group_id, list({column} ORDER BY position) AS sizes, len(sizes) AS n FROM read_parquet(?) "
        "GROUP BY split, step, group_id, member ORDER BY ALL",
        [list(files)],
    ).fetchnumpy()
    sizes_T = np.concatenate(columns["sizes"])
    tokens = means_by_group(sizes_T, np.zeros(len(sizes_T)), owners(columns["n"]), ["all"])
    problems_R = np.unique(_problems(path, columns["group_id"].tolist()), return_inverse=True)[1]
    mean = tokens.over_problems(problems_R)["all"]
    return [
        name,
        about.get("model"),
        str(columns["split"][0]),
        len(columns["n"]),
        mean.n,
        mean.value,
        mean.low,
        mean.high,
    ]


def _problems(path: Path, groups_R: Sequence[str]) -> list[str]:
    """The problem of each response, by its group; the group itself where the rollouts are not at hand."""
    files = [str(file) for file in (path / "rollouts").glob("[!.]*.parquet")]
    try:
        columns = (
            duckdb.execute("SELECT DISTINCT group_id, problem_id FROM read_parquet(?)", [files]) if files else None
        )
        known = dict(columns.fetchall()) if columns else {}
    except duckdb.Error:  # damaged: said where the rollouts are read
        known = {}
    return [known.get(group, group) for group in groups_R]
