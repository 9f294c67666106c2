"""The notebooks of examples/: the same as their scripts, kept with outputs, and they run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("nbclient", reason="needs the extra dev")

import nbformat

ROOT = Path(__file__).parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_tool", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
SMALLER = {  # of this test: the committed outputs are of the budgets in the scripts
    r'"train\.tokens": [\d_]+': '"train.tokens": 3_000',
    r"tokens=[\d_]+": "tokens=3_000",
    r"seeds=2": "seeds=1",
    r'"evaluate\.problems": \d+': '"evaluate.problems": 6',
    r'"evaluate\.n": \d+': '"evaluate.n": 16',
}


def test_there_are_five() -> None:
    assert len(TOOL.scripts()) == 5


@pytest.mark.parametrize("path", TOOL.scripts(), ids=lambda path: path.stem)
def test_a_notebook_is_its_script_with_outputs(path: Path) -> None:
    kept = nbformat.read(path.with_suffix(".ipynb"), 4)
    nbformat.validate(kept)
    assert [(cell.cell_type, cell.source) for cell in kept.cells] == [*TOOL.cells(path.read_text())]
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    lines = [line for cell in code for line in cell.source.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) < 60


@pytest.mark.parametrize("path", TOOL.scripts(), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    text = path.read_text()
    for pattern, smaller in SMALLER.items():
        text = re.sub(pattern, smaller, text)
    assert text != path.read_text()
    done = TOOL.run(TOOL.notebook_of(text))
    last = [cell for cell in done.cells if cell.cell_type == "code"][-1]
    assert last.outputs


@pytest.mark.parametrize("name", ["my_stage_and_advantage", "agents_environment"])
def test_a_script_runs_without_a_guard(name: str, tmp_path: Path) -> None:
    """Other processes do not import it: these two have some."""
    for path in (ROOT / "examples").glob("*.py"):
        text = path.read_text()
        for pattern, smaller in SMALLER.items():
            text = re.sub(pattern, smaller, text)
        (tmp_path / path.name).write_text(text)
    command = [sys.executable, f"{name}.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
