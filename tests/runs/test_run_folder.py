"""A run on disk: layout, rewinding, one writer at a time, and what a kill costs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from outrider.config import read_yaml
from outrider.errors import UserError
from outrider.runs.folder import RunFolder
from runs import CONFIG, python, rollout, run_of


def test_a_new_run_has_its_configuration_and_environment(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "runs" / "a", CONFIG) as run:
        assert read_yaml(run.config.read_text(), "config.yaml") == CONFIG
        found = json.loads((run.path / "environment.json").read_text())
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["versions"]["numpy"] == np.__version__
    assert found["command"] == sys.argv
    assert found["cpus"] >= 1


def test_the_folder_and_its_environment_are_torch_free() -> None:
    program = "import sys, outrider.runs.folder as f; f.environment(); print([m for m in sys.modules if 'torch' in m])"
    output, errors = python(program).communicate()
    assert output.strip() == "[]", errors


def test_a_folder_that_holds_a_run_or_anything_else_is_refused(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", CONFIG).close()
    with pytest.raises(UserError, match="holds a run already"):
        RunFolder.create(tmp_path / "run", CONFIG)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"not empty \(it holds thesis.tex\)"):
        RunFolder.create(tmp_path / "other", CONFIG)
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["thesis.tex"], "a refused folder is left as it was"
    with pytest.raises(UserError, match="is a file"):
        RunFolder.create(tmp_path / "other" / "thesis.tex", CONFIG)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", CONFIG).close()


def test_opening_what_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no run: it has no config\.yaml"):
        RunFolder.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_only_the_holder_of_the_lock_writes(tmp_path: Path) -> None:
    run_of(tmp_path / "run", 1).close()
    reader = RunFolder(tmp_path / "run")
    assert [row["step"] for row in reader.metrics()] == [1]
    for write in (
        lambda: reader.append_metrics(2, {}),
        lambda: reader.append_timing(2, {}),
        lambda: reader.write_evaluation(2, {}),
        lambda: reader.rewind(0),
    ):
        with pytest.raises(ValueError, match="read only"):
            write()
    assert [row["step"] for row in reader.metrics()] == [1]


HOLD = """
import os, sys, time
from outrider.runs.folder import RunFolder
run = RunFolder.open(sys.argv[1])
worker = os.fork() if sys.argv[2] == "fork" else 0
if sys.argv[2] == "none" or worker:
    print(worker, flush=True)
time.sleep(600)  # the worker outlives the kill of its parent
"""


@pytest.mark.parametrize("workers", ["none", "fork"])
def test_two_processes_cannot_write_one_run_and_a_kill_lets_go(tmp_path: Path, workers: str) -> None:
    RunFolder.create(tmp_path / "run", CONFIG).close()
    holder = python(HOLD, tmp_path / "run", workers)
    assert holder.stdout is not None
    worker = int(holder.stdout.readline())
    try:
        with pytest.raises(UserError, match=rf"is being written by process {holder.pid} on "):
            RunFolder.open(tmp_path / "run")
        assert RunFolder(tmp_path / "run").metrics() == [], "reading needs no lock"
    finally:
        holder.kill()
        holder.wait()
    try:
        RunFolder.open(tmp_path / "run").close()
    finally:
        if worker:
            os.kill(worker, signal.SIGKILL)


def test_rewinding_sets_aside_what_came_later_and_loses_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", 5)
    run.write_evaluation(0, {"overall": 0})
    run.write_evaluation(3, {"overall": 3}, seconds=1.5)
    run.write_evaluation(5, {"overall": 5}, seconds=2.5)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes().splitlines()
    run.rewind(3)
    assert run.notices == [
        "set aside what came after step 3 in superseded/1 (rollout files: 2, evaluations: 1, metrics lines: 2, "
        "timing lines: 3)."
    ]
    assert [row["step"] for row in run.metrics()] == [row["step"] for row in run.timing()] == [1, 2, 3]
    assert (run.rollouts.steps(), list(run.evaluations())) == ([1, 2, 3], [0, 3])
    aside = RunFolder(run.path / "superseded" / "1")
    assert [row["step"] for row in aside.metrics()] == [row["step"] for row in aside.timing()] == [4, 5]
    assert (aside.rollouts.steps(), aside.evaluations()) == ([4, 5], {5: {"overall": 5}})
    assert run.evaluation_timing() == [{"step": 3, "evaluate": 1.5}]
    assert aside.evaluation_timing() == [{"step": 5, "evaluate": 2.5}]
    kept = (tmp_path / "run" / "metrics.jsonl").read_bytes() + (aside.path / "metrics.jsonl").read_bytes()
    assert kept.splitlines() == before

    run.append_metrics(4, {"reward": -1.0})
    run.rollouts.write(4, [rollout(4)])
    run.rewind(3)
    assert [row["step"] for row in RunFolder(run.path / "superseded" / "2").metrics()] == [4]
    run.rewind(3)
    assert sorted(p.name for p in (run.path / "superseded").iterdir()) == ["1", "2"], "nothing to move, no folder"
    run.rewind(-1)
    assert (run.metrics(), run.rollouts.steps(), run.evaluations()) == ([], [], {})
    run.append_metrics(1, {})


def test_a_rewind_that_was_killed_half_way_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed between saving the later lines and cutting them off: they are in two places, then in one."""
    run_of(tmp_path / "run", 4).close()
    program = """
import os, signal, sys
import outrider.runs.lines as lines
from outrider.runs.folder import RunFolder
run = RunFolder.open(sys.argv[1])
write = lines.write_atomically
def once(path, data):
    write(path, data)
    os.kill(os.getpid(), signal.SIGKILL)
lines.write_atomically = once
run.rewind(2)
"""
    assert python(program, tmp_path / "run").wait() == -signal.SIGKILL
    with RunFolder.open(tmp_path / "run") as run:
        assert [row["step"] for row in run.metrics()] == [1, 2, 3, 4]
        run.rewind(2)
        assert [row["step"] for row in run.metrics()] == [1, 2]
    aside = [RunFolder(tmp_path / "run" / "superseded" / n) for n in ("1", "2")]
    assert [[row["step"] for row in a.metrics()] for a in aside] == [[3, 4], [3, 4]]
    assert [a.rollouts.steps() for a in aside] == [[3, 4], []]


def test_evaluations_are_kept_by_step_and_never_overwritten(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        assert run.evaluations() == {}
        run.write_evaluation(20, {"overall": {"pass_at": {"1": 0.5}}})
        run.write_evaluation(0, {"overall": None})
        assert list(run.evaluations().items()) == [(0, {"overall": None}), (20, {"overall": {"pass_at": {"1": 0.5}}})]
        with pytest.raises(UserError, match=r"step-00000020\.json exists"):
            run.write_evaluation(20, {})
        (run.path / "evaluations" / "step-00000000.json").write_text("{")
        with pytest.raises(UserError, match=r"step-00000000\.json is damaged"):
            run.evaluations()


WRITER = """
import sys
import numpy as np
from outrider.record import Rollout
from outrider.runs.folder import RunFolder

run = RunFolder.open(sys.argv[1])
done = len(run.metrics())
run.rewind(done)  # rollouts of a step whose metrics were not written
ids = np.arange(5000, dtype=np.int32)
for step in range(done + 1, 10**6):
    noise = np.random.default_rng(step).normal(size=5000).astype(np.float32)
    run.rollouts.write(step, [Rollout("p", f"train:{step}:p", 0, ids, ids, noise, ids[:0])])
    run.append_metrics(step, {f"metric {i}": step / 3 for i in range(400)})
"""


def test_a_run_killed_again_and_again_keeps_every_finished_step(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", CONFIG).close()
    lines = tmp_path / "run" / "metrics.jsonl"
    for _ in range(3):
        goal = lines.read_bytes().count(b"\n") + 4
        writer = python(WRITER, tmp_path / "run")
        deadline = time.monotonic() + 300
        while writer.poll() is None and lines.read_bytes().count(b"\n") < goal:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        writer.kill()
        _, errors = writer.communicate()
        assert writer.returncode == -signal.SIGKILL, errors
    with RunFolder.open(tmp_path / "run") as run:
        steps = [int(row["step"]) for row in run.metrics()]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) >= 12
        assert all(row[f"metric {i}"] == row["step"] / 3 for row in run.metrics() for i in (0, 399))
        assert set(steps) <= set(run.rollouts.steps())
        for step in run.rollouts.steps():
            noise = np.random.default_rng(step).normal(size=5000).astype(np.float32)
            assert np.array_equal(run.rollouts.read(step)[0].logprobs_T, noise)
        assert not list(run.path.rglob("*.tmp"))


def test_a_leftover_of_a_killed_write_is_removed_and_told(tmp_path: Path) -> None:
    run_of(tmp_path / "run", 1).close()
    (tmp_path / "run" / "rollouts" / ".train-00000002.parquet.tmp").write_bytes(b"PAR1 half of it")
    assert len(RunFolder(tmp_path / "run").rollouts.read()) == 1
    with RunFolder.open(tmp_path / "run") as run:
        assert run.notices == ["removed rollouts/.train-00000002.parquet.tmp, which an interrupted write had left."]
    assert len(list((tmp_path / "run" / "rollouts").iterdir())) == 1
