"""What every study shares: where its files go, what they stand on, and how its pictures look."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import outrider

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, GREY, RED = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#999999",
    "#D55E00",
)  # distinct for colour-blind readers too
PINK, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"


def arguments(docstring: str | None) -> argparse.ArgumentParser:
    """The command line of a study: its docstring as help, and ``--out``."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="where JSON and PNG go")
    return parser


def panels(titles: Sequence[str], size: tuple[float, float], rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels, row by row, in the style of a run's ``curves.png``; not pyplot, which keeps figures for ever."""
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    axes = list(figure.subplots(rows, len(titles) // rows, squeeze=False).flat)
    for each, title in zip(axes, titles, strict=True):
        each.spines[["top", "right"]].set_visible(False)
        each.set_title(loc="left", label=title)
    return figure, axes


def keep(name: str, numbers: Mapping[str, Any], figure: Figure, out: Path, seeds: Any = None) -> None:
    """Write ``name.json``, with what it stands on, and ``name.png``; print the JSON."""
    out.mkdir(parents=True, exist_ok=True)
    command = f"python benchmarks/studies/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()
    about = {
        "command": command,
        "seeds": "none: exact" if seeds is None else seeds,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "versions": {
            "python": platform.python_version(),
            "outrider": outrider.__version__,
            "numpy": np.__version__,
            "matplotlib": matplotlib.__version__,
            **{package: metadata.version(package) for package in ("scipy", "scikit-learn", "torch")},
        },
    }
    text = json.dumps(_rounded({**numbers, "about": about}), indent=1, allow_nan=False)
    (out / f"{name}.json").write_text(text + "\n")
    figure.savefig(out / f"{name}.png")
    print(text)


def _rounded(value: Any) -> Any:
    """Plain data with floats to five significant digits; NaN is null."""
    if isinstance(value, Mapping):
        return {str(key): _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def outrider_command(*words: object, one_thread: bool = False) -> None:
    """A command of ``outrider`` in a process of its own."""
    here = os.environ | ({"OMP_NUM_THREADS": "1"} if one_thread else {})
    subprocess.run([sys.executable, "-m", "outrider", *map(str, words)], check=True, env=here)


def commit() -> str | None:
    """Of the working tree, marked where it is changed; None outside of git."""
    try:
        asked = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
        return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
