"""A run that was written before `judge`, `world` and `worlds` got other names, at 0337182, is read as what it was.

``outrider train guess.yaml --out run`` with the overrides below under their names of then: ``task.limits.worlds=3``,
``task.problems.judge=exact`` and ``task: {world: {world: guess.py:Guess, …}}``. Of its checkpoints the one before
training is kept, without its weights, which are those of the shipped base (as ``save_file`` writes them, for which the
checkpoint's manifest has the hash).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

import outrider
from outrider.cli import main
from outrider.config import Recipe, load_recipe, read_yaml, recipe_of_run
from outrider.estimate.auto import choose, with_values
from outrider.model.load import load_policy
from outrider.runs.folder import RunFolder

OLD = Path(__file__).parents[1] / "run_of_0_2"
RECIPE = """
extends: grpo
summary: GRPO on guesses.
model: base:countdown
task:
  environment:
    environment: guess.py:Guess
    stop: [";"]
    limits: {max_concurrent: 3}
    problems: {train_data: numbers.jsonl, heldout_data: held.jsonl, prompt: "{question}:", verifier: exact}
explore: [{uniform: {n: 4}}]
credit: {main: [{overlong: {max_tokens: 24, buffer: 20}}, group_mean]}
objective: {kl: 0.0}
sample: {max_tokens: 24}
learn: {lr: 1.0e-4}
train: {problems: 2, steps: 2, save_every: 1, keep: 10, trackers: [], ranks: 1}
evaluate: {problems: 2, n: 2, before: true}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, where its relative paths lead."""
    shutil.copytree(OLD, tmp_path / "run")
    for name in ("guess.py", "numbers.jsonl", "held.jsonl"):
        (tmp_path / "run" / name).rename(tmp_path / name)
    (tmp_path / "guess.yaml").write_text(RECIPE)
    weights = {name: p.detach() for name, p in load_policy("base:countdown").model.named_parameters()}
    save_file(weights, tmp_path / "run/checkpoints/step-00000000/weights.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def config_of(run: Path) -> Any:
    return read_yaml((run / "config.yaml").read_text(), "config.yaml")


def test_its_recipe_is_the_one_of_today(run: Path) -> None:
    assert "world" in config_of(run)["task"], "the file has the names of then"
    old, now = recipe_of_run(config_of(run)), load_recipe("guess.yaml")
    assert old.difference(now) == []
    # what is auto now was a number then
    assert old.fingerprint() == with_values(now, choose(now, None, recorded=old).values).fingerprint()
    assert outrider.load_run(run).recipe == old


def test_its_task_has_the_fingerprint_that_its_checkpoint_holds(run: Path) -> None:
    saved = json.loads((run / "checkpoints/step-00000000/state.json").read_text())
    assert load_recipe("guess.yaml").task.fingerprint == saved["task"]
    assert saved["task"].startswith("world/guess.py:Guess/")


def test_it_is_shown_reported_and_compared(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--n", "3"]) == 0
    assert "step 2" in capsys.readouterr().out
    assert main(["report", str(run)]) == 0
    report = json.loads((run / "report.json").read_text())
    assert {"budget", "groups"} <= {section["id"] for section in report["sections"]}
    twin = run.with_name("twin")
    shutil.copytree(run, twin)
    now: Recipe = load_recipe("guess.yaml", ["task.limits.max_concurrent=4"])
    (twin / "config.yaml").write_text(json.dumps(now.resolved()))
    assert main(["compare", str(run), str(twin), "--out", "pair"]) == 0
    found = (run.parent / "pair/compare.json").read_text()
    assert "task.environment.limits.max_concurrent" in found
    assert ".verifier" not in found, "what has another name only is no difference"


def test_it_goes_on_as_it_began(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With today's names; the numbers are those of then, up to what another machine's rounding makes of two steps."""
    evaluated = (run / "evaluations/step-00000000.json").read_bytes()
    old = [json.loads(line) for line in (OLD / "metrics.jsonl").read_text().splitlines()]
    assert main(["train", "guess.yaml", "--out", str(run), "--resume"]) == 0
    assert "started with other settings" not in capsys.readouterr().err
    assert (run / "evaluations/step-00000000.json").read_bytes() == evaluated, "what was there is not done again"
    new = RunFolder(run).metrics()
    assert [row["step"] for row in new] == [1, 2]
    same = ("tokens", "rollouts", "observed_tokens", "turns", "turn_errors")
    assert {key: new[0][key] for key in same} == {key: old[0][key] for key in same}
    assert new[1]["learn/grad_norm"] == pytest.approx(old[1]["learn/grad_norm"], rel=0.05)
    assert "environment" in config_of(run)["task"], "the run goes on under the present names"
    assert "world" in read_yaml(next((run / "superseded").glob("config-*.yaml")).read_text(), "old")["task"]


def test_it_goes_on_by_its_own_configuration(run: Path) -> None:
    resumed = outrider.load_run(run).resume()
    assert len(resumed.metrics) == 2


def test_another_verifier_is_still_a_difference(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "guess.yaml", "task.problems.verifier=number", "--out", str(run), "--resume"]
    assert main(words) == 2
    assert "task.environment.problems.verifier" in capsys.readouterr().err


def test_an_analysis_takes_its_task(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "intervene", str(run), "--dry-run", "--limit", "2"]) == 0
    assert "2 train rollouts of 1 step" in capsys.readouterr().out


def test_a_report_imports_no_component_from_outside(run: Path) -> None:
    """Also not to find old keys in its options."""
    Path("mine.py").write_text("open('imported', 'w').close()\n")
    config = config_of(run)
    config["task"] = {"mine.py:Task": {"limits": {"worlds": 3}}}
    (run / "config.yaml").write_text(json.dumps(config))
    assert main(["report", str(run)]) == 0
    assert not Path("imported").exists()
