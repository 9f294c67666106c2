"""A run that version 0.1 wrote, at febd481, is read, reported, compared and gone on with.

``outrider train dars-hw train.tokens=null train.steps=2 train.problems=4 train.ranks=1 train.trackers=[]
evaluate.problems=6 evaluate.n=4 sample.max_tokens=64``. Of its checkpoints the one before training is kept, without its
weights, which are those of the shipped base.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import save_file

from outrider.cli import main
from outrider.config import load_recipe, read_yaml, recipe_of_run
from outrider.model.load import load_policy
from outrider.runs.folder import RunFolder

OLD = Path(__file__).parents[1] / "run_of_0_1"
OVERRIDES = ["train.tokens=null", "train.steps=2", "train.problems=4", "train.ranks=1", "train.trackers=[]"]
OVERRIDES += ["evaluate.problems=6", "evaluate.n=4", "sample.max_tokens=64", "task.heldout_order=drawn"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(OLD, tmp_path / "run")
    return tmp_path / "run"


def test_its_recipe_is_the_one_of_today(run: Path) -> None:
    old = recipe_of_run(read_yaml((run / "config.yaml").read_text(), "config.yaml"))
    assert old.difference(load_recipe("dars-hw", OVERRIDES)) == []
    assert old.from_setting == "countdown", "its profile, in 0.1"


def test_it_is_shown_reported_and_compared(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--n", "3"]) == 0
    assert "step 2" in capsys.readouterr().out
    assert main(["report", str(run)]) == 0
    report = json.loads((run / "report.json").read_text())
    steps = [row["step"] for row in map(json.loads, (OLD / "metrics.jsonl").read_text().splitlines())]
    assert steps == [1, 2]
    assert {"budget", "frontier", "groups"} <= {section["id"] for section in report["sections"]}
    twin = run.with_name("twin")
    shutil.copytree(OLD, twin)
    assert main(["compare", str(run), str(twin), "--out", str(run.with_name("pair"))]) == 0


def test_it_goes_on_as_it_began(run: Path) -> None:
    """From the start, to what it came to at the time, up to what another machine's rounding makes of two steps."""
    weights = {name: p.detach() for name, p in load_policy("base:countdown").model.named_parameters()}
    save_file(weights, run / "checkpoints/step-00000000/weights.safetensors")
    evaluated = (run / "evaluations/step-00000000.json").read_bytes()
    assert main(["train", "dars-hw", *OVERRIDES, "--out", str(run), "--resume"]) == 0
    assert (run / "evaluations/step-00000000.json").read_bytes() == evaluated, "what was there is not done again"
    old = [json.loads(line) for line in (OLD / "metrics.jsonl").read_text().splitlines()]
    new = RunFolder(run).metrics()
    assert [row["step"] for row in new] == [1, 2]
    assert {key: new[0][key] for key in ("tokens", "rollouts", "reward")} == pytest.approx(
        {key: old[0][key] for key in ("tokens", "rollouts", "reward")}, rel=0.02
    )
    assert old[0].keys() <= new[0].keys()
    assert new[0]["learn/grad_norm"] == pytest.approx(old[0]["learn/grad_norm"], rel=0.05)
    assert (run / "superseded").is_dir(), "the steps after the checkpoint are kept"
