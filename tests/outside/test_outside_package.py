"""A package of somebody else, beside an installed Outrider: its components train, are killed and resumed, and compared.

Outrider is installed from its wheel, so that nothing of the checkout is imported but what is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
METHODS = Path(__file__).parent / "methods.py"
PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "outside-methods"
version = "1.2"

[project.entry-points."outrider.components"]
retry = "outside_methods.components:Retry"
half = "outside_methods.components:Half"
contains = "outside_methods.components:Contains"

[tool.setuptools]
packages = ["outside_methods"]
"""
RECIPE = """
extends: grpo
model: base:countdown
task:
  table:
    train_data: sums.jsonl
    heldout_data: heldout.jsonl
    prompt: "{problem}"
    verifier: contains
explore:
  - uniform: {n: 3}
  - retry: {n: 2}
credit:
  main: [{outside_methods.components:Median: {}}, {half: {share: 0.25}}]
objective:
  surrogate: plain.py:Plain
  aggregate: constant
sample: {max_tokens: 12}
train: {problems: 4, steps: 4, tokens: null, save_every: 1, trackers: [], ranks: 1}
evaluate: {problems: 4, n: 2, bootstrap: 20}
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's, with both packages installed into ``site``."""
    place = tmp_path_factory.mktemp("elsewhere")
    source = place / "outrider-source"
    shutil.copytree(ROOT / "src", source / "src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    package = place / "package"
    (package / "outside_methods").mkdir(parents=True)
    (package / "outside_methods" / "__init__.py").write_text("")
    (package / "outside_methods" / "components.py").write_text(METHODS.read_text())
    (package / "pyproject.toml").write_text(PYPROJECT)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(place / "wheels")]
    subprocess.run([*wheels, str(source), str(package)], check=True)
    found = [str(wheel) for wheel in (place / "wheels").glob("*.whl")]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place / "site"), *found], check=True)
    shutil.copy(METHODS, place / "plain.py")
    (place / "mine.yaml").write_text(RECIPE)
    rows = [{"problem": f"{a}+{b}", "answer": str(a + b)} for a in range(5) for b in range(5)]
    for name, part in (("sums", rows[:20]), ("heldout", rows[20:])):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return place


def command(place: Path, *words: str) -> subprocess.Popen[str]:
    """``outrider`` as it is installed there."""
    environment = os.environ | {"PYTHONPATH": str(place / "site"), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "outrider", *words]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(line, cwd=place, env=environment, text=True, **both)


def ran(place: Path, *words: str) -> str:
    process = command(place, *words)
    said, _ = process.communicate()
    assert process.returncode == 0, said[-2000:]
    return said


def metrics(run: Path) -> list[dict[str, float]]:
    """Without times."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("seconds")} for row in rows]


def test_the_installed_package_is_what_is_imported(elsewhere: Path) -> None:
    said = ran(elsewhere, "components")
    assert "retry  (outside-methods 1.2, outside_methods.components:Retry)" in said
    assert "contains  (outside-methods 1.2, outside_methods.components:Contains)" in said
    where = [sys.executable, "-c", "import outrider; print(outrider.__file__)"]
    found = subprocess.check_output(where, cwd=elsewhere, env=os.environ | {"PYTHONPATH": str(elsewhere / "site")})
    assert found.decode().startswith(str(elsewhere))


def test_its_components_train_are_killed_and_resumed(elsewhere: Path) -> None:
    ran(elsewhere, "train", "mine.yaml", "--out", "whole")
    whole = metrics(elsewhere / "whole")
    assert len(whole) == 4
    assert any(row["spent/1-retry/rollouts"] for row in whole)
    killed = command(elsewhere, "train", "mine.yaml", "--out", "killed")
    checkpoints = elsewhere / "killed" / "checkpoints"
    while not [*checkpoints.glob("step-*1")] and killed.poll() is None:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    kept = metrics(elsewhere / "killed")
    assert kept[0] == whole[0]
    ran(elsewhere, "train", "mine.yaml", "--out", "killed", "--resume")
    assert metrics(elsewhere / "killed") == whole
    weights = [(elsewhere / run / "model" / "model.safetensors").read_bytes() for run in ("whole", "killed")]
    assert weights[0] == weights[1]

    # as it is, it may go on; with a component that has changed it needs --force
    file = elsewhere / "site" / "outside_methods" / "components.py"
    before = file.read_text()
    file.write_text(before.replace("Reward minus the median", "The reward minus the median"))
    try:
        process = command(elsewhere, "train", "mine.yaml", "--out", "killed", "--resume")
        said, _ = process.communicate()
    finally:
        file.write_text(before)
    assert process.returncode == 2
    assert "components.outside_methods.components:Median.source: " in said
    assert "add --force" in said


def test_it_is_compared_with_grpo(elsewhere: Path) -> None:
    data = "train_data: sums.jsonl, heldout_data: heldout.jsonl, prompt: '{problem}', verifier: contains"
    same = ["model=base:countdown", f"task={{table: {{{data}}}}}", "train.problems=4", "train.trackers=[]"]
    same += ["evaluate.problems=4", "evaluate.n=2", "evaluate.bootstrap=20", "sample.max_tokens=12"]
    said = ran(elsewhere, "bench", "grpo", "mine.yaml", "--seeds", "1", "--steps", "1", "--out", "bench", *same)
    assert "| mine | 1 |" in said
