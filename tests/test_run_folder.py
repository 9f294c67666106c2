"""A run on disk: layout, lines that survive a kill, rewinding, and one writer at a time; what is drawn from it."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from outrider.config import read_yaml
from outrider.errors import UserError
from outrider.measure.evaluation import evaluate
from outrider.record import Problem, Rollout, correct, incorrect
from outrider.train.curves import _smooth, curves_figure, draw_curves
from outrider.train.folder import JsonLines, RunFolder, environment
from outrider.train.progress import Progress
from outrider.train.show import rollout_table
from outrider.train.trackers import open_trackers

CONFIG = {"seed": 0, "explore": [{"uniform": {"n": 8}}]}


def rollout(step: int) -> Rollout:
    ids = np.array([1, 2], np.int32)
    return Rollout("p", f"train:{step}:p", 0, ids, ids, np.array([-1.0, -2.0], np.float32), ids[:0])


def run_of(path: Path, steps: int) -> RunFolder:
    run = RunFolder.create(path, CONFIG)
    for step in range(1, steps + 1):
        run.rollouts.write(step, [rollout(step)])
        run.append_metrics(step, {"reward": step / 8})
        run.append_timing(step, {"seconds": 0.5})
    return run


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_new_run_has_its_configuration_and_environment(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "runs" / "a", CONFIG) as run:
        assert read_yaml(run.config.read_text(), "config.yaml") == CONFIG
        found = json.loads((run.path / "environment.json").read_text())
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["versions"]["numpy"] == np.__version__
    assert found["command"] == sys.argv
    assert found["cpus"] >= 1


def test_the_folder_and_its_environment_are_torch_free() -> None:
    program = "import sys, outrider.train.folder as f; f.environment(); print([m for m in sys.modules if 'torch' in m])"
    output, errors = python(program).communicate()
    assert output.strip() == "[]", errors


def test_the_commit_is_that_of_the_package_and_not_of_the_folder_one_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = environment()["git"]
    monkeypatch.chdir(tmp_path)
    assert environment()["git"] == before
    assert before is None or len(before.removesuffix("-dirty")) == 40


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
from outrider.train.folder import RunFolder
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


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(st.text(max_size=8).filter(lambda k: k != "step"), st.floats() | st.integers(-(2**60), 2**60)),
        max_size=6,
    )
)
def test_metrics_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]]) -> None:
    lines = JsonLines(tmp_path_factory.mktemp("lines") / "metrics.jsonl")
    for step, row in enumerate(rows):
        lines.append(step, row)
    read = lines.rows()
    assert [row.pop("step") for row in read] == list(range(len(rows)))
    # repr tells apart what == does not: NaN from NaN, 0 from -0, 1 from 1.0
    assert [{k: repr(v) for k, v in row.items()} for row in read] == [
        {k: repr(v) for k, v in row.items()} for row in rows
    ]


def test_numbers_that_are_not_finite_are_valid_json(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.append(1, {"a": math.nan, "b": math.inf, "c": np.float32(-np.inf), "d": np.int64(3), "e": 0.1})

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse) == {
        "step": 1,
        "a": None,
        "b": "Infinity",
        "c": "-Infinity",
        "d": 3,
        "e": 0.1,
    }
    assert repr(lines.rows()) == "[{'step': 1, 'a': nan, 'b': inf, 'c': -inf, 'd': 3, 'e': 0.1}]"


def test_a_step_cannot_come_twice_and_a_value_must_be_a_number(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", 3)
    with pytest.raises(ValueError, match=r"step 3 .* cannot follow step 3"):
        run.append_metrics(3, {"reward": 1.0})
    with pytest.raises(TypeError, match="'reward' is '1'"):
        run.append_metrics(4, {"reward": "1"})  # type: ignore[dict-item]
    run.close()
    with RunFolder.open(tmp_path / "run") as again, pytest.raises(ValueError, match="cannot follow step 3"):
        again.append_metrics(2, {})
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1, 2, 3]


@pytest.mark.parametrize("cut", [1, 7, -1])
def test_a_torn_last_line_is_dropped_and_told(tmp_path: Path, cut: int) -> None:
    """A kill in mid-append leaves any part of the line, even all of it but its end (``cut`` -1)."""
    run_of(tmp_path / "run", 3).close()
    file = tmp_path / "run" / "metrics.jsonl"
    whole = file.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    file.write_bytes(whole[: -len(last)] + last[:cut])
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1, 2], "a reader sees whole lines only"
    with RunFolder.open(tmp_path / "run") as run:
        assert run.notices == [f"dropped {len(last[:cut])} bytes of an incomplete last line from metrics.jsonl."]
        run.append_metrics(3, {"reward": 3 / 8})
    assert file.read_bytes() == whole


def test_a_spoilt_line_is_named(tmp_path: Path) -> None:
    run_of(tmp_path / "run", 3).close()
    file = tmp_path / "run" / "metrics.jsonl"
    for spoilt in (b"oops", b"[1, 2]", b'{"reward": 1}', b'{"step": 2, "reward": []}', b"\x00\x00"):
        first, _, third = file.read_bytes().splitlines()
        file.write_bytes(b"\n".join([first, spoilt, third, b""]))
        with pytest.raises(UserError, match=r"metrics\.jsonl, line 2, is no JSON object"):
            RunFolder.open(tmp_path / "run")


def test_a_full_disk_leaves_the_lines_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path / "run", 2)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=rf"cannot write metrics.jsonl in {run.path}: No space left on device"):
            run.append_metrics(3, {"reward": 1.0})
        with pytest.raises(UserError, match="No space left"):
            run.write_evaluation(3, {})
        with pytest.raises(UserError, match="No space left"):
            run.rewind(0)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    run.append_metrics(3, {"reward": 1.0})
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]


def test_rewinding_sets_aside_what_came_later_and_loses_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", 5)
    run.write_evaluation(0, {"overall": 0})
    run.write_evaluation(3, {"overall": 3})
    run.write_evaluation(5, {"overall": 5})
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes().splitlines()
    run.rewind(3)
    assert run.notices == [
        "set aside what came after step 3 in superseded/1 (rollout files: 2, evaluations: 1, metrics lines: 2, "
        "timing lines: 2)."
    ]
    assert [row["step"] for row in run.metrics()] == [row["step"] for row in run.timing()] == [1, 2, 3]
    assert (run.rollouts.steps(), list(run.evaluations())) == ([1, 2, 3], [0, 3])
    aside = RunFolder(run.path / "superseded" / "1")
    assert [row["step"] for row in aside.metrics()] == [row["step"] for row in aside.timing()] == [4, 5]
    assert (aside.rollouts.steps(), aside.evaluations()) == ([4, 5], {5: {"overall": 5}})
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
import outrider.train.folder as folder
run = folder.RunFolder.open(sys.argv[1])
write = folder.write_atomically
def once(path, data):
    write(path, data)
    os.kill(os.getpid(), signal.SIGKILL)
folder.write_atomically = once
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


def test_opening_tells_what_changed_in_the_environment(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", CONFIG).close()
    with RunFolder.open(tmp_path / "run") as run:
        assert run.notices == []
    file = tmp_path / "run" / "environment.json"
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | {"versions": data["versions"] | {"torch": "1.0"}}))
    with RunFolder.open(tmp_path / "run") as run:
        (notice,) = run.notices
    assert notice.startswith("torch was 1.0 when the run began and is ")


WRITER = """
import sys
import numpy as np
from outrider.record import Rollout
from outrider.train.folder import RunFolder

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
        assert run.notices == ["removed rollouts/.train-00000002.parquet.tmp, which a cut-off write had left."]
    assert len(list((tmp_path / "run" / "rollouts").iterdir())) == 1


def evaluation(*pass_at: float | None) -> dict[str, object]:
    """As ``Evaluation.to_json`` writes it: text keys, null for NaN."""
    intervals = {
        str(2**i): {"value": p, "low": None if p is None else p - 0.1, "high": None if p is None else p + 0.1}
        for i, p in enumerate(pass_at)
    }
    return {"schema_version": 1, "overall": {"pass_at": intervals}}


def test_curves_put_evaluations_at_the_tokens_of_their_step() -> None:
    rows = [{"step": s, "tokens": 1000.0 * s, "reward": 0.1 * s, "entropy": 1 / s} for s in range(1, 5)]
    figure = curves_figure(rows, {0: evaluation(0.2, 0.3), 2: evaluation(0.5, None), 4: evaluation(0.4, 0.6)})
    reward, entropy, shares, pass_at_k = figure.axes
    (points,) = reward.containers
    assert points.lines[0].get_xdata().tolist() == [0, 2000, 4000]
    assert points.lines[0].get_ydata().tolist() == [0.2, 0.5, 0.4]
    assert entropy.lines[0].get_ydata().tolist() == [1, 1 / 2, 1 / 3, 1 / 4]
    assert [t.get_text() for t in shares.texts] == ["no data"]
    before, after = pass_at_k.lines
    assert (before.get_label(), after.get_label()) == ("before", "after 4k tokens")
    assert before.get_xydata().tolist() == [[1, 0.2], [2, 0.3]]
    assert after.get_xydata().tolist() == [[1, 0.4], [2, 0.6]]


def test_curves_of_a_real_evaluation() -> None:
    """The names that the picture reads are those that the measure writes."""
    problems = [Problem(id=str(i), prompt="") for i in range(4)]
    judged = [
        replace(rollout(0), problem_id=p.id, member=i, verdict=correct() if i <= int(p.id) else incorrect())
        for p in problems
        for i in range(4)
    ]
    written = evaluate(problems, judged, resamples=50).to_json()
    (line,) = curves_figure([], {0: written}).axes[3].lines
    assert line.get_xydata().tolist()[0] == [1, (1 + 2 + 3 + 4) / 16]
    assert line.get_xydata().tolist()[-1] == [4, 1.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("rows", "evaluations"),
    [
        ([], {}),
        ([], {0: evaluation(0.5)}),
        ([{"step": 1, "tokens": 10.0, "reward": math.nan, "entropy": math.nan}], {1: evaluation(None)}),
        ([{"step": 1, "tokens": 10.0, "solved": 0.1, "mixed": 0.2, "unsolved": 0.7}], {}),
        ([{"step": s, "tokens": 9.0 * s, "reward": math.inf, "solved": math.nan} for s in range(1, 99)], {}),
    ],
)
def test_curves_are_drawn_from_whatever_there_is(
    tmp_path: Path, rows: list[dict[str, float]], evaluations: dict[int, dict[str, object]]
) -> None:
    draw_curves(rows, evaluations, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curves.png"]


# around the lengths at which the window grows
@given(
    st.sampled_from([0, 1, 39, 40, 79, 80, 81]).flatmap(
        lambda n: st.lists(st.none() | st.floats(-9, 9), min_size=n, max_size=n)
    )
)
def test_the_running_mean_is_that_of_the_known_neighbours(values: list[float | None]) -> None:
    y = np.array([math.nan if v is None else v for v in values])
    half = len(y) // 40
    for i, smooth in enumerate(_smooth(y)):
        near = [v for v in values[max(i - half, 0) : i + half + 1] if v is not None]
        assert math.isnan(smooth) if values[i] is None else smooth == pytest.approx(sum(near) / len(near), abs=1e-9)


def test_drawing_leaves_no_global_state_and_needs_no_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from outrider.train.curves import curves_figure; "
        "curves_figure([], {}); print([m for m in sys.modules if m in ('matplotlib.pyplot', 'torch')])"
    )
    output, errors = python(program).communicate()
    assert output.strip() == "[]", errors


def shown(width: int) -> list[str]:
    """The two live lines at a terminal width, as a terminal would get them."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    progress = Progress(1_600_000, "tokens", console=console)
    progress.phase("evaluate")
    progress.advance(1_234_567)
    progress.stats({"reward": -0.123, "entropy": 10.5, "solved": 1.0, "mixed": 1.0, "unsolved": 1.0, "loss": 3.0})
    with console.capture() as capture:
        console.print(progress._render())
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_progress_never_wraps(width: int) -> None:
    lines = shown(width)
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


def test_progress_shows_everything_at_80_columns() -> None:
    first, second = shown(80)
    assert first.startswith("evaluate ")
    assert " 77%  1.23M/1.60M tokens " in first
    assert first.rstrip().endswith(" left")
    assert second.rstrip() == "reward -0.123  entropy 10.500  solved 100%  mixed 100%  unsolved 100%"


def test_progress_in_a_log_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("outrider.train.progress.time.monotonic", lambda: now)
    log = io.StringIO()
    with Progress(1000, "tokens", console=Console(file=log, width=40), every=10) as progress:
        progress.resume_at(200)
        progress.phase("sample")
        now += 9
        progress.advance(200)
        assert log.getvalue() == "", "nothing before ten seconds are over"
        progress.phase("evaluate")
        now += 100  # an evaluation does not count as slow training
        progress.phase("learn")
        now += 1
        progress.stats({"reward": 0.5, "mixed": 0.25})
        progress.say("[a notice] that stays")
    assert log.getvalue().splitlines() == [
        "40% | 400 of 1.00k tokens | 22.2 tokens/s | 0:27 left | learn",
        "[a notice] that stays",
        "40% | 400 of 1.00k tokens | 20 tokens/s | 0:30 left | learn | reward 0.500 | mixed 25%",
    ]


def test_progress_of_an_overrun_or_empty_budget_is_whole() -> None:
    console = Console(file=io.StringIO())
    over, none = Progress(10, "steps", console=console), Progress(0, "steps", console=console)
    over.advance(12)
    assert (over.share, none.share) == (1.0, 1.0)
    assert over._left() == "0:00"


def text_of(table: object, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rollouts_are_shown_with_their_judgement_and_harmless_text() -> None:
    wrong = replace(
        rollout(0),
        text="\x1b[2J3+4=8 [bold]",
        prefix_text="1+2=3;",
        verdict=incorrect(detail="3+4 is 7"),
        reward=math.nan,
        advantage=-0.25,
        unused="unscorable",
    )
    output = text_of(rollout_table([wrong], 5, {"p": "1 2 3 4>8:"}))
    for part in (
        *("1 of 1 rollouts", "1 2 3 4>8:", r"1+2=3;\x1b[2J3+4=8 [bold]", "incorrect", "3+4 is 7"),
        *("reward NaN, advantage -0.25", "2 tokens, stop", "unused: unscorable"),
    ):
        assert part in output
    assert "\x1b" not in output
    bare = text_of(rollout_table([rollout(0)], 5))
    assert "no verdict" in bare
    assert "reward —" in bare
    assert "advantage" not in bare


@given(total=st.integers(0, 40), n=st.integers(0, 12))
def test_shown_rollouts_are_spread_over_all(total: int, n: int) -> None:
    many = [replace(rollout(0), problem_id=f"problem-{i}.") for i in range(total)]
    output = text_of(rollout_table(many, n))
    found = [i for i in range(total) if f"problem-{i}." in output]
    assert len(found) == min(n, total)
    gaps = np.diff([*found, total])
    assert not found or (found[0] == 0 and gaps.max() - gaps.min() <= 1)


def test_an_unknown_tracker_and_a_missing_package_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_trackers([], tmp_path, {}) == ()
    with pytest.raises(UserError, match="unknown tracker 'tensorbord'; did you mean 'tensorboard'"):
        open_trackers(["tensorbord"], tmp_path, {})
    for package in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, package, None)  # what an import finds where nothing is installed
        with pytest.raises(UserError, match=rf"pip install 'outrider\[{package}\]'"):
            open_trackers([package], tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_holds_each_step_once_also_after_a_resume(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # killed after step 3, before the first checkpoint; again after 6, then resumed from the checkpoint of 4
    for session, (start, end) in enumerate([(0, 3), (0, 6), (4, 8)], start=1):
        (tracker,) = open_trackers(["tensorboard"], tmp_path, {}, start)
        for step in range(start + 1, end + 1):
            tracker.log(step, {"reward": step + session / 100, "bad": math.nan})
        tracker.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {e.step: round(e.value, 2) for e in events.Scalars("reward")} == {
        **{s: s + 0.02 for s in range(1, 5)},
        **{s: s + 0.03 for s in range(5, 9)},
    }
    assert len(events.Scalars("reward")) == 8
