"""Whole runs whose policy is with a Tinker service: killed, resumed, and left alone by the service."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from child_processes import begun
from outrider.cli import main
from outrider.runs.folder import RunFolder
from scripted_tinker import ScriptedTinker

pytest.importorskip("tinker")
STEPS = 3


@pytest.fixture
def service(model_folder: str) -> Iterator[ScriptedTinker]:
    scripted = ScriptedTinker(model_folder, mean=True)
    yield scripted
    scripted.close()


def words(service: ScriptedTinker, out: Path, recipe: str = "grpo", *more: str) -> list[str]:
    engine = {"sampler": "tinker", "learner": {"tinker": {"url": service.address, "seconds": 20}}}
    small = ["train.tokens=null", f"train.steps={STEPS}", "train.problems=2", "sample.max_tokens=8", "learn.lr=1e-2"]
    rest = [
        "evaluate.problems=1",
        "evaluate.n=2",
        "explore.0.n=4",
        "evaluate.before=false",
        "train.save_every=1",
        "train.trackers=[]",
    ]
    # a random model solves nothing: by their lengths its responses differ all the same
    shaper = "{overlong: {max_tokens: 8, buffer: 6}}"
    reward = [f"credit.main=[{shaper}, group_mean]"]
    adapter = ["policy.lora={rank: 4}", "learn.clip_norm=null", "learn.warmup=0 updates", f"model={service.folder}"]
    return [
        "train", recipe, f"engine={json.dumps(engine)}", *adapter, *small, *rest, *reward, *more, "--out", str(out)
    ]  # fmt: skip


def metrics(out: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in RunFolder(out).metrics()]


@pytest.mark.parametrize(
    ("recipe", "more"),
    [
        ("deep-grpo", ["explore.0.n=4", "explore.1.branches=2"]),
        ("xrpo", ["explore.0.n=2", "explore.1.total=12"]),
        pytest.param("grpo", [], marks=pytest.mark.slow),
        pytest.param("dars-hw", [], marks=pytest.mark.slow),
    ],
)
def test_methods_run(service: ScriptedTinker, tmp_path: Path, recipe: str, more: list[str]) -> None:
    assert main(words(service, tmp_path / "run", recipe, *more)) == 0
    rows = metrics(tmp_path / "run")
    assert len(rows) == STEPS
    assert all(row["sync/probe_max"] < 1e-3 for row in rows)
    assert (tmp_path / "run" / "model" / "adapter_model.safetensors").exists()
    assert not any("entropy" in name for name in rows[0] if name.startswith("learn/"))


def test_a_killed_run_goes_on_exactly(service: ScriptedTinker, tmp_path: Path) -> None:
    assert main(words(service, tmp_path / "whole")) == 0
    process = begun(words(service, tmp_path / "cut"), tmp_path / "errors.txt")
    process.wait_for((tmp_path / "cut" / "checkpoints" / "step-00000001").exists)
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert main([*words(service, tmp_path / "cut"), "--resume"]) == 0
    whole, cut = metrics(tmp_path / "whole"), metrics(tmp_path / "cut")
    assert [row["step_tokens"] for row in cut] == [row["step_tokens"] for row in whole]
    assert cut[-1]["learn/loss"] == pytest.approx(whole[-1]["learn/loss"], abs=1e-5)


def test_a_run_that_loses_its_service_says_where_it_goes_on(
    service: ScriptedTinker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.fails_after("optim_step", len_of_trial(service, tmp_path) + 1)
    assert main(words(service, tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert "was asked to change the weights and failed" in said
    assert "`outrider train … --resume` goes on after step 1" in said
    service.fails_at = ""
    assert main([*words(service, tmp_path / "run"), "--resume"]) == 0
    assert len(metrics(tmp_path / "run")) == STEPS


def len_of_trial(service: ScriptedTinker, tmp_path: Path) -> int:
    """Steps of the optimizer before the first of the run."""
    assert main(words(service, tmp_path / "first", "grpo", "train.steps=0", "evaluate.after=false")) == 0
    return service.asked.count("optim_step")


def test_several_processes_are_refused(
    service: ScriptedTinker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(service, tmp_path / "run", "grpo", "train.ranks=2")) == 2
    assert "one process talks to a Tinker service" in capsys.readouterr().err
    assert not service.asked


def test_one_update_is_of_one_loss(service: ScriptedTinker, tmp_path: Path) -> None:
    """Of several in one batch a service may take the first for all."""
    more = ["objective.surrogate={clip: {dual: 3.0}}", "learn.epochs=2"]
    assert main(words(service, tmp_path / "run", "grpo", *more)) == 0
    assert service.losses
    assert all(len(set(kinds)) == 1 for kinds in service.losses)


def test_the_block_of_the_page_runs(service: ScriptedTinker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model and a task of this test's, and another address; what it trains and how are the block's."""
    page = (Path(__file__).parents[2] / "docs" / "tinker.md").read_text()
    [block] = [
        b for b in re.findall(r"^```\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "TINKER_API_KEY=tml" in b
    ]
    assert block.count("\n") == 3
    command = shlex.split(block.splitlines()[-1])
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("extends: grpo\n")
    given = [
        {"mine.yaml": str(recipe), "runs/mine": str(tmp_path / "run")}.get(word, word)
        for word in command[1:]
        if not word.startswith("model=")
    ]
    monkeypatch.setenv("TINKER_BASE_URL", service.address)
    here = words(service, tmp_path / "run")
    small = [word for word in here[2:-2] if not word.startswith(("engine=", "policy.", "learn.clip_norm"))]
    assert main([*given[:2], *small, *given[2:], "policy.lora.rank=4"]) == 0
    assert len(metrics(tmp_path / "run")) == STEPS
