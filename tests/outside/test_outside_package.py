"""A package of somebody else, beside an installed Outrider: its components train, are killed and resumed, compared and
checked; each is named by import path, by entry point and given as an instance.

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
import yaml

ROOT = Path(__file__).parent.parent.parent
METHODS, WRONG = (Path(__file__).parent / f"{name}.py" for name in ("methods", "wrong_methods"))
PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "outside-methods"
version = "1.2"

[project.entry-points."outrider.components"]
retry = "outside_methods.components:Retry"
median = "outside_methods.components:Median"
half = "outside_methods.components:Half"
plain = "outside_methods.components:Plain"
contains = "outside_methods.components:Contains"
guess = "outside_methods.components:Guess"

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
train: {problems: 4, steps: 3, tokens: null, save_every: 1, trackers: [], ranks: 1}
evaluate: {problems: 2, n: 2, bootstrap: 20}
"""
# the other way to name each component
GAME = """
extends: ./mine.yaml
task:
  environment:
    environment: guess
    stop: [","]
    problems:
      train_data: sums.jsonl
      heldout_data: heldout.jsonl
      prompt: ":{problem}="
      verifier: outside_methods.components:Contains
explore:
  - uniform: {n: 3}
  - outside_methods.components:Retry: {n: 2}
credit:
  main: [median, {outside_methods.components:Half: {share: 0.25}}]
objective:
  surrogate: plain
sample: {max_tokens: 24}
"""
# the same run as that of the game, by instances
INSTANCES = """
import outrider
from outside_methods.components import Contains, Guess, Half, Median, Plain, Retry

config = {"credit.main": [Median(), Half(share=0.25)], "objective.surrogate": Plain()}
config |= {"objective.aggregate": "constant", "task.environment.stop": [","], "explore.0.n": 3, "sample.max_tokens": 24}
config |= {f"train.{key}": value for key, value in {"problems": 4, "steps": 3, "tokens": None, "trackers": []}.items()}
config |= {f"evaluate.{key}": value for key, value in {"problems": 2, "n": 2, "bootstrap": 20}.items()}
outrider.train(
    "grpo", model="base:countdown", data="sums.jsonl", eval_data="heldout.jsonl", prompt=":{problem}=",
    environment=Guess, reward=Contains(), stages=[Retry(n=2)], config=config, out="instances",
)
"""
AUTHORS_TESTS = """
import pytest
from outrider import Problem, testing
from outside_methods.components import Contains, Guess, Half, Median, Plain, Retry
from outside_methods.wrong import Forgetful, Gossip, Greedy, Harsh, Hopeful, Restless, Shorter, Still

ROWS = [({"answer": "12"}, ["It is 12 ."], ["It is 13 ."])]
PLAYS = [(Problem("a", "7>", "7"), ["3;", "x;", "7;"]), (Problem("b", "2>", "2"), ["5;", "1;"])]


def test_retry_keeps_the_laws():
    testing.check_stage(lambda: Retry(n=2), budget=lambda sizes: 2 * len(sizes))


def test_median_keeps_the_laws():
    testing.check_baseline(Median(), shift=True, scale=1)


def test_half_keeps_the_laws():
    testing.check_shaper(Half(share=0.25), shift=True, scale=1)


def test_plain_keeps_the_laws():
    testing.check_loss(Plain())


def test_contains_keeps_the_laws():
    testing.check_verifier(Contains(), ROWS)


def test_guess_keeps_the_laws():
    testing.check_environment(Guess, PLAYS)


WRONG = [
    (lambda: testing.check_stage(Greedy, lambda sizes: 2 * len(sizes)), "Greedy breaks 'budget' in 'even groups'"),
    (lambda: testing.check_stage(Restless), "Restless breaks 'determinism' in 'even groups'"),
    (lambda: testing.check_stage(Forgetful), "Forgetful breaks 'resume' in 'even groups'"),
    (lambda: testing.check_baseline(Harsh), "Harsh breaks 'members that are not valid' in 'a"),
    (lambda: testing.check_shaper(Shorter), "Shorter breaks 'one number per token' in 'a"),
    (lambda: testing.check_loss(Still), "Still breaks 'on policy' in 'ratios "),
    (lambda: testing.check_verifier(Hopeful, ROWS), "Hopeful breaks 'errors' in 'row 1'"),
    (lambda: testing.check_environment(Gossip, PLAYS), "Gossip breaks 'state apart' in 'example 1'"),
]


@pytest.mark.parametrize(("check", "message"), WRONG, ids=[message.split()[0] for _, message in WRONG])
def test_a_wrong_component_is_named_with_its_law(check, message):
    with pytest.raises(testing.LawError) as found:
        check()
    assert str(found.value).startswith(message)
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
    (package / "outside_methods" / "wrong.py").write_text(WRONG.read_text())
    (package / "pyproject.toml").write_text(PYPROJECT)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(place / "wheels")]
    subprocess.run([*wheels, str(source), str(package)], check=True)
    found = [str(wheel) for wheel in (place / "wheels").glob("*.whl")]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place / "site"), *found], check=True)
    shutil.copy(METHODS, place / "plain.py")
    (place / "mine.yaml").write_text(RECIPE)
    (place / "game.yaml").write_text(GAME)
    rows = [{"problem": f"{a}+{b}", "answer": str(a + b)} for a in range(5) for b in range(5)]
    for name, part in (("sums", rows[:20]), ("heldout", rows[20:])):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return place


def python(place: Path, *words: str) -> subprocess.Popen[str]:
    """Python as the author has it, with both packages."""
    environment = os.environ | {"PYTHONPATH": str(place / "site"), "OMP_NUM_THREADS": "1"}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([sys.executable, *words], cwd=place, env=environment, text=True, **both)


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate()
    assert process.returncode == 0, said[-2000:]
    return said


def command(place: Path, *words: str) -> subprocess.Popen[str]:
    """``outrider`` as it is installed there."""
    return python(place, "-m", "outrider", *words)


def ran(place: Path, *words: str) -> str:
    return finished(command(place, *words))


def metrics(run: Path) -> list[dict[str, float]]:
    """Without times."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("seconds")} for row in rows]


def test_the_installed_package_is_what_is_imported(elsewhere: Path) -> None:
    said = ran(elsewhere, "components")
    for name in ("Retry", "Median", "Half", "Plain", "Contains", "Guess"):
        assert f"{name.lower()}  (outside-methods 1.2, outside_methods.components:{name})" in said
    assert "environment\n  guess  (" in said
    found = finished(python(elsewhere, "-c", "import outrider; print(outrider.__file__)"))
    assert found.startswith(str(elsewhere))


def resumed(place: Path, recipe: str) -> list[dict[str, float]]:
    """The metrics of a run that was killed and resumed."""
    words = ["train", recipe, "--out", f"{recipe}-killed"]
    killed, run = command(place, *words), place / f"{recipe}-killed"
    while not [*(run / "checkpoints").glob("step-*1")] and killed.poll() is None:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert 1 <= len(metrics(run)) < 3
    ran(place, *words, "--resume")
    return metrics(run)


def test_its_components_train_are_killed_and_resumed(elsewhere: Path) -> None:
    uninterrupted = command(elsewhere, "train", "mine.yaml", "--out", "mine.yaml-whole")
    rows = resumed(elsewhere, "mine.yaml")
    finished(uninterrupted)
    assert len(rows) == 3
    assert any(row["spent/1-retry/rollouts"] for row in rows)
    assert rows == metrics(elsewhere / "mine.yaml-whole")
    weights = [(elsewhere / f"mine.yaml-{run}/model/model.safetensors").read_bytes() for run in ("whole", "killed")]
    assert weights[0] == weights[1]

    # as it is, it may go on; with a component that has changed it needs --force
    file = elsewhere / "site" / "outside_methods" / "components.py"
    before = file.read_text()
    file.write_text(before.replace("Reward minus the median", "The reward minus the median"))
    try:
        process = command(elsewhere, "train", "mine.yaml", "--out", "mine.yaml-killed", "--resume")
        said, _ = process.communicate()
    finally:
        file.write_text(before)
    assert process.returncode == 2
    assert "components.outside_methods.components:Median.source: " in said
    assert "add --force" in said


def test_its_environment_trains_by_names_and_instances_and_is_resumed(elsewhere: Path) -> None:
    """Environments answer in any order, so the last bits of sums may differ."""
    (elsewhere / "instances.py").write_text(INSTANCES)
    instances = python(elsewhere, "instances.py")
    rows = resumed(elsewhere, "game.yaml")
    finished(instances)
    whole = metrics(elsewhere / "instances")
    assert len(rows) == 3
    for row, expected in zip(rows, whole, strict=True):
        assert row == pytest.approx(expected, rel=1e-4, abs=1e-4, nan_ok=True)
    assert any(row["spent/1-retry/rollouts"] for row in rows)
    assert all(row["observed_tokens"] for row in rows)
    assert any(row["learn/grad_norm"] for row in rows)
    named = yaml.safe_load((elsewhere / "instances" / "config.yaml").read_text())["components"]
    assert {name.rpartition(":")[2] for name in named} == {"Retry", "Median", "Half", "Plain", "Contains"}
    assert {component["distribution"] for component in named.values()} == {"outside-methods 1.2"}


def test_its_components_are_checked_by_tests_of_its_own(elsewhere: Path) -> None:
    (elsewhere / "test_methods.py").write_text(AUTHORS_TESTS)
    said = finished(python(elsewhere, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_methods.py"))
    assert "14 passed" in said


def test_it_is_compared_with_grpo(elsewhere: Path) -> None:
    data = "train_data: sums.jsonl, heldout_data: heldout.jsonl, prompt: '{problem}', verifier: contains"
    same = ["model=base:countdown", f"task={{table: {{{data}}}}}", "train.problems=4", "train.trackers=[]"]
    same += ["evaluate.problems=4", "evaluate.n=2", "evaluate.bootstrap=20", "sample.max_tokens=12"]
    said = ran(elsewhere, "bench", "grpo", "mine.yaml", "--seeds", "1", "--steps", "1", "--out", "bench", *same)
    assert "| mine | 1 |" in said
