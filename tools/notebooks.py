"""Make the notebooks of examples/ from their scripts, run them, and keep their outputs.

Usage: ``python tools/notebooks.py [SCRIPT …]``; without scripts, all that have cells (``# %%``). A notebook runs in a
copy of examples/, so the runs of one leave nothing behind.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
_CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def scripts() -> list[Path]:
    """The scripts that are notebooks too."""
    return [path for path in sorted(EXAMPLES.glob("*.py")) if path.read_text().startswith("# %%")]


def cells(text: str) -> Iterator[tuple[str, str]]:
    """Kind and source of each cell of a script.

    >>> [*cells("# %% [markdown]\\n# # Title\\n\\n# %%\\n1 + 1\\n")]
    [('markdown', '# Title'), ('code', '1 + 1')]
    """
    _, *parts = _CELL.split(text)
    for mark, source in zip(parts[::2], parts[1::2], strict=True):
        if mark:
            lines = [line.removeprefix("#").removeprefix(" ") for line in source.strip().splitlines()]
            yield "markdown", "\n".join(lines)
        else:
            yield "code", source.strip()


def notebook_of(text: str) -> nbformat.NotebookNode:
    """The notebook of a script, without outputs."""
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for number, (kind, source) in enumerate(cells(text)):
        new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        made.cells.append(new(source, id=f"cell-{number}"))  # not by chance: a notebook made anew is the same file
    return made


def run(made: nbformat.NotebookNode, seconds: float = 600) -> nbformat.NotebookNode:
    """Run a notebook in a copy of examples/, its outputs in their places.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        for path in EXAMPLES.glob("*.py"):
            shutil.copy(path, folder)
        client = NotebookClient(made, timeout=seconds, resources={"metadata": {"path": folder}})
        client.execute(env=os.environ | {"PYTHONWARNINGS": "ignore:IProgress not found"})  # tqdm asks for ipywidgets
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # times of the day
    return made


def main(names: list[str]) -> int:
    """Make the notebooks of the scripts."""
    for path in [Path(name) for name in names] or scripts():
        made = run(notebook_of(path.read_text()))
        path.with_suffix(".ipynb").write_text(nbformat.writes(made) + "\n")
        print(path.with_suffix(".ipynb"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
