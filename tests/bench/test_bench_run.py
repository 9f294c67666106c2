"""A bench as a whole: tiny runs, killed and gone on with, a run that fails, folders that hold something else."""

from __future__ import annotations

import importlib
import itertools
import json
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from child_processes import begun, wait_until
from outrider.bench.cell import Cell, cells_before, cells_of, final_test_cells, tuning_cells
from outrider.bench.child import run_cell
from outrider.bench.crossed import estimate
from outrider.bench.results import Measured
from outrider.bench.spec import Bench
from outrider.cli import main
from outrider.config import dump_yaml, read_yaml
from outrider.measure import pass_at_k
from outrider.measure.evaluation import Evaluation
from outrider.runs.folder import RunFolder

WORDS = [
    "grpo",
    "dr-grpo",
    *("--seeds=2", "--tokens=300", "--points=2", "--at-once=2"),
    *("--tune=learn.lr=1e-4,1e-3", "--tune-tokens=60", "--tune-problems=2", "--final-test=3"),
    *("train={problems: 2, save_every: 1}", "explore.0.n=4", "sample.max_tokens=24", "task.countdown.sizes=[3]"),
    "evaluate={problems: 4, n: 2, bootstrap: 0}",
]


def bench(out: Path, *words: str) -> int:
    """In this process: its benches share the process that their runs are forked from."""
    return main(["bench", *(words or WORDS), "--out", str(out)])


def words_of(out: Path) -> list[str]:
    return ["bench", *WORDS, "--out", str(out)]


def cells(out: Path) -> dict[str, Cell]:
    """Every run of the bench by its path."""
    bench = Bench.model_validate(read_yaml((out / "bench.yaml").read_text(), "bench.yaml"))
    assert bench.tune is not None
    found, trained = [*cells_before(out, bench)], {}
    for name in bench.recipes:
        for values in bench.tune.candidates:
            found += tuning_cells(out, bench, bench.tune, name, values)
        chosen = json.loads((out / "results.json").read_bytes())["tuning"][name]["chosen"]
        trained[name] = cells_of(out, bench, name, chosen)
        found += trained[name]
    assert bench.final_test is not None
    before, last = final_test_cells(bench, bench.final_test, out, trained)
    found += [before, *itertools.chain(*last.values())]
    return {str(cell.path.relative_to(out)): cell for cell in found}


def untimed(out: Path) -> dict[str, object]:
    """What two equal benches share: everything but clocks and the command."""

    def without_seconds(data: object) -> object:
        if isinstance(data, dict):
            return {key: without_seconds(part) for key, part in data.items() if key not in ("seconds", "environment")}
        return [without_seconds(part) for part in data] if isinstance(data, list) else data

    return {
        "results": without_seconds(json.loads((out / "results.json").read_bytes())),
        "numbers": (out / "numbers.csv").read_text(),
        "metrics": {name: (cell.path / "metrics.jsonl").read_bytes() for name, cell in cells(out).items()},
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted bench."""
    out = tmp_path_factory.mktemp("bench") / "whole"
    assert bench(out) == 0
    return out


def test_every_run_is_there_with_its_budget_and_its_points(whole: Path) -> None:
    runs = cells(whole)
    assert len(runs) == 2 + 2 * 2 + 2 * 2 + 5
    assert all(cell.finished for cell in runs.values())
    for cell in runs.values():
        tokens = [row["tokens"] for row in RunFolder(cell.path).metrics()]
        assert tokens == [] if cell.budget == 0 else tokens[-1] >= cell.budget > (tokens[-2:-1] or [0])[0]
        config = read_yaml((cell.path / "config.yaml").read_text(), "config")
        assert config["train"]["ranks"] == 1
        if "cells" in cell.path.parts and cell.budget:
            evaluated = list(RunFolder(cell.path).evaluations())
            half = next(step for step, spent in enumerate(tokens, 1) if spent >= 150)
            assert evaluated == sorted({half, len(tokens)})
            assert (config["seed"], config["task"]["countdown"]["seed"]) == (cell.seed, cell.seed)


def test_two_runs_at_once_size_themselves_for_half_of_the_memory_each(whole: Path) -> None:
    logs = [cell.log.read_text() for name, cell in cells(whole).items() if name.startswith("cells/") and cell.budget]
    assert len(logs) == 4
    assert all("of this machine for each of 2 runs)" in log.replace("\n", " ") for log in logs)


def test_tuning_sees_neither_the_problems_nor_the_seeds_of_the_comparison(whole: Path) -> None:
    seen: dict[str, tuple[set[str], set[int]]] = {kind: (set(), set()) for kind in ("tuning", "cells", "untouched")}
    for name, cell in cells(whole).items():
        for evaluation in RunFolder(cell.path).evaluations().values():
            if (kind := "untouched" if cell.path.name == "untouched" else name.split("/")[0]) in seen:
                seen[kind][0].update(tally["problem"] for tally in evaluation["tallies"])
                seen[kind][1].add(cell.seed)
    assert [len(part) for parts in seen.values() for part in parts] == [2, 1, 4, 2, 3, 2]
    assert len(set.union(*(problems for problems, _ in seen.values()))) == 2 + 4 + 3
    assert not seen["tuning"][1] & seen["cells"][1]


def test_the_chosen_value_is_one_of_the_best_and_is_what_was_run(whole: Path) -> None:
    results = json.loads((whole / "results.json").read_bytes())
    for name in ("grpo", "dr-grpo"):
        tuning = results["tuning"][name]
        scores = {tried["values"]["learn.lr"]: tried["scores"]["criterion"]["value"] for tried in tuning["tried"]}
        assert list(scores) == [1e-4, 1e-3]
        chosen = tuning["chosen"]["learn.lr"]
        assert scores[chosen] == max(scores.values()) or chosen == 1e-4
        for seed in ("0", "1"):
            config = read_yaml((whole / "cells" / name / seed / "config.yaml").read_text(), "config")
            assert config["learn"]["lr"] == chosen
        assert f"| {name} | {chosen:g} |" in (whole / "page.md").read_text()


def test_the_numbers_are_those_of_the_runs(whole: Path) -> None:
    """pass@2 of each seed and problem, taken from the folders by hand."""
    values = {}
    for name in ("grpo", "dr-grpo"):
        rows = []
        for seed in ("0", "1"):
            last = list(RunFolder(whole / "cells" / name / seed).evaluations().values())[-1]
            rows.append([float(pass_at_k(t["scorable"], t["successes"], 2)) for t in last["tallies"]])
        values[name] = np.array(rows)
    results = json.loads((whole / "results.json").read_bytes())["recipes"]
    assert results["grpo"]["points"][-1]["pass@2"]["value"] == pytest.approx(values["grpo"].mean())
    change = values["dr-grpo"] - values["grpo"]
    expected = estimate(Measured(change, np.ones_like(change)))
    found = results["dr-grpo"]["minus_base"]["pass@2"]
    assert tuple(found.values()) == pytest.approx(expected)
    assert results["grpo"]["minus_base"]["pass@2"]["value"] == 0


def test_what_is_kept_back_is_measured_with_the_last_policies(whole: Path) -> None:
    """By hand: a run's own model, on the problems behind those of the comparison and of tuning."""
    results = json.loads((whole / "results.json").read_bytes())["untouched"]
    assert list(results["recipes"]) == ["grpo", "dr-grpo"]
    for name in ("grpo", "dr-grpo"):
        values = []
        for seed in ("0", "1"):
            run, out = whole / "cells" / name / seed, whole.parent / f"by-hand-{name}-{seed}"
            words = ["evaluate", str(run / "model"), "--task", "countdown", "--out", str(out), "sample.max_tokens=24"]
            asked = ["task.countdown.sizes=[3]", "evaluate={problems: 3, skip: 6, n: 2, bootstrap: 0}"]
            assert main([*words, *asked]) == 0
            overall = Evaluation.from_json(RunFolder(out).evaluations()[0]).overall
            values.append((overall.pass_at[2].value, overall.entropy))
        found = tuple(results["recipes"][name]["end"][quantity]["value"] for quantity in ("pass@2", "entropy"))
        assert found == pytest.approx(np.mean(values, axis=0))


def test_what_is_kept_back_may_be_asked_for_when_all_runs_are_done(whole: Path, tmp_path: Path) -> None:
    """Also where it was begun and interrupted before the folder was moved: its policies then lie elsewhere."""
    out = tmp_path / "bench"
    shutil.copytree(whole, out)
    spec = read_yaml((out / "bench.yaml").read_text(), "bench.yaml")
    (out / "bench.yaml").write_text(dump_yaml(spec | {"final_test": None}))
    shutil.rmtree(out / "cells/grpo/1/untouched")
    (out / "cells/grpo/0/untouched/table.md").unlink()
    finished = {path: path.stat().st_mtime_ns for path in out.glob("cells/*/*/table.md")}
    assert bench(out) == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert untimed(out) == untimed(whole)


def test_a_finished_run_is_measured_on_what_is_kept_back_before_the_next_one_ends(whole: Path, tmp_path: Path) -> None:
    """A bench of many hours that is interrupted has lost no policy that it has yet to measure."""
    out = tmp_path / "bench"
    shutil.copytree(whole, out)
    for run in out.glob("cells/*/*/"):
        shutil.rmtree(run / "untouched")
        if run.parent.name == "grpo":
            (run / "table.md").unlink()
    assert bench(out, *(word.replace("--at-once=2", "--at-once=1") for word in WORDS)) == 0
    ended = sorted(out.glob("cells/**/table.md"), key=lambda file: file.stat().st_mtime_ns)
    # runs of dr-grpo were finished, so they are measured first; then each of grpo when it is
    assert [file.parent.name == "untouched" for file in ended] == [False, False, True, True, *(False, True) * 2]
    assert untimed(out) == untimed(whole)


def test_a_measurement_that_fails_twice_is_told_once(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench"
    shutil.copytree(whole, out)
    shutil.rmtree(out / "cells/grpo/1/untouched")
    for file in (out / "cells/grpo/1/model").glob("*.safetensors"):
        file.write_bytes(b"")
    assert bench(out) == 1
    page = (out / "page.md").read_text()
    assert page.count("grpo, seed 1, final test failed (status 2)") == 1
    kept = json.loads((out / "results.json").read_bytes())["untouched"]["recipes"]
    assert [kept[name]["seeds"] for name in ("grpo", "dr-grpo")] == [[0], [0, 1]]


def test_the_page_has_what_a_reader_needs(whole: Path) -> None:
    page, table = (whole / "page.md").read_text(), (whole / "table.md").read_text()
    assert table in page
    command = shlex.join(["outrider", *json.loads((whole / "environment.json").read_bytes())["command"][1:]])
    parts = ["(frontier.png)", "## Tuning", "## Change from grpo", "3 other held-out problems", "torch 2"]
    for part in (*parts, f"```\n{command}\n```"):
        assert part in page
    assert (whole / "frontier.png").read_bytes()[:4] == b"\x89PNG"
    assert "NaN" not in (whole / "results.json").read_text()


def running(out: Path) -> set[Path]:
    """Run folders that a process is at work in: a run holds its log open."""
    found = set()
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            opened = Path(os.readlink(handle))
            if opened.suffix == ".log" and out in opened.parents:
                found.add(opened.with_suffix(""))
    return found


def test_sigterm_ends_a_bench_and_its_runs_with_a_sentence_each(tmp_path: Path) -> None:
    out = tmp_path / "bench"
    process = begun(words_of(out), tmp_path / "errors.txt")
    process.wait_for(lambda: any(out.glob("tuning/*/*/*/checkpoints/step-00000000")))
    process.send(signal.SIGTERM)
    assert process.last_words() == "outrider: ended by SIGTERM; run the same command again to continue"
    assert process.wait() == 143
    assert not running(out)
    logs = [log.read_text() for log in out.glob("tuning/*/*/*.log")]
    assert not any("Traceback" in log for log in logs)
    assert any("outrider: ended by SIGTERM; `outrider train … --resume` goes on after step" in log for log in logs)


def _ignoring_signals(log: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    run_cell(0, 1, "grpo", ("train.steps=1", "train.tokens=null", *WORDS[-5:]), str(log.with_suffix("")), str(log))


def test_a_run_hears_sigterm_though_it_is_forked_from_a_process_that_does_not(tmp_path: Path) -> None:
    """As after a run of several ranks in the same Python session."""
    log = tmp_path / "run.log"
    process = multiprocessing.get_context("forkserver").Process(target=_ignoring_signals, args=(log,))
    process.start()
    wait_until(log.exists)
    process.terminate()
    process.join()
    assert process.exitcode in (-signal.SIGTERM, 143)


def test_interrupted_killed_and_begun_again_it_ends_the_same(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    shutil.copytree(whole, out)
    for part in ("tuning/dr-grpo/0.001", "cells/dr-grpo", "cells/grpo/1/model", "cells/grpo/1/table.md"):
        shutil.rmtree(out / part) if (out / part).is_dir() else (out / part).unlink()
    for part in ("page.md", "results.json", "numbers.csv", "frontier.png"):
        (out / part).unlink()

    process = begun(words_of(out), tmp_path / "errors.txt")
    process.wait_for(lambda: any(out.glob("tuning/dr-grpo/0.001/*/config.yaml")))
    process.send(signal.SIGINT)
    assert process.last_words() == "outrider: interrupted; run the same command again to continue"
    assert process.wait() == 130
    assert not running(out)

    process = begun(words_of(out), tmp_path / "errors.txt")
    process.wait_for(lambda: any(out.glob("cells/dr-grpo/*/rollouts/train-*")))
    underway = running(out)
    process.send(signal.SIGKILL)
    wait_until(lambda: not running(out))  # runs do not outlive a bench that was killed
    # one of those underway may have been at its end, but not all
    assert [folder for folder in underway if not (folder / "table.md").exists()]
    finished = {path: path.stat().st_mtime_ns for path in out.rglob("table.md") if path.parent != out}
    assert 5 <= len(finished) < len(cells(whole))

    assert bench(out) == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert untimed(out) == untimed(whole)


def test_what_is_packed_of_it_goes_on_elsewhere(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the policies: only the run whose last policy was still to be measured is run again."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    finished = importlib.import_module("_finished")
    there, here = tmp_path / "there", tmp_path / "here"
    shutil.copytree(whole, there)
    (there / "cells/grpo/1/untouched/table.md").unlink()
    assert finished.pack(there, tmp_path / "packed.tar.xz") == len(cells(whole)) - 2
    finished.unpack(tmp_path / "packed.tar.xz", here)
    taken = {path: path.stat().st_mtime_ns for path in here.glob("*/**/table.md")}
    about = json.loads((here / "environment.json").read_bytes())
    other = about | {"platform": "a board", "versions": {"numpy": "0"}}
    (here / "environment.json").write_text(json.dumps(other))
    monkeypatch.setattr(sys, "argv", ["outrider", "bench", "again"])
    assert bench(here) == 0
    assert {path: path.stat().st_mtime_ns for path in taken} == taken
    assert untimed(here) == untimed(whole)
    page = (here / "page.md").read_text()
    assert "```\noutrider bench again\n```" in page  # it makes all of it again
    assert "Started " in page
    assert "on a board; numpy 0" in page
    assert page.count("Continued ") == 1


def test_a_run_that_fails_stops_no_other_and_is_told(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench"
    shutil.copytree(whole, out)
    for seed in ("0", "1"):  # both are left to run; the second finds checkpoints that are none
        (out / "cells/dr-grpo" / seed / "table.md").unlink()
    for checkpoint in (out / "cells/dr-grpo/1/checkpoints").iterdir():
        (checkpoint / "optimizer.pt").write_bytes(b"")
    assert bench(out) == 1
    said = "dr-grpo, seed 1 failed (status 2): outrider: no checkpoint can be loaded"
    assert said in capsys.readouterr().err
    assert said in (out / "page.md").read_text()
    results = json.loads((out / "results.json").read_bytes())
    assert results["recipes"]["dr-grpo"]["seeds"] == [0]
    assert results["recipes"]["dr-grpo"]["minus_base"]["pass@1"]["seeds"] == 1  # the one that both recipes have
    assert results["recipes"]["grpo"]["seeds"] == [0, 1]


def test_another_bench_in_the_same_folder_is_refused(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = untimed(whole)

    def refusal(out: Path, *words: str) -> str:
        assert bench(out, *words) == 2
        said = capsys.readouterr().err
        if "was run with other settings" not in said:  # which is seen when it comes to that run
            assert bench(out, *(words or WORDS), "--dry-run") == 2
            assert capsys.readouterr() == ("", said)
        return said

    fewer = [word for word in WORDS if not word.startswith("--seeds")]
    assert "holds another bench (seeds: 2 -> 1)" in refusal(whole, *fewer, "--seeds=1")
    assert "(grpo: sample.max_tokens: 24 -> 25; dr-grpo: sample.max" in refusal(whole, *WORDS, "sample.max_tokens=25")
    without = [word.replace("=1e-4,1e-3", "=1e-4,1e-2") for word in WORDS]
    assert "holds another bench (tune: " in refusal(whole, *without)
    assert "holds another bench (without dr-grpo)" in refusal(whole, "grpo", *WORDS[2:])
    assert "cells/grpo/0 was run with other settings (learn.lr" in _of_another_value(whole, tmp_path / "copy", refusal)
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not empty and is not a bench folder (it holds copy)" in refusal(tmp_path)
    assert untimed(whole) == before


def _of_another_value(whole: Path, out: Path, refusal: Callable[..., str]) -> str:
    """A finished run whose settings are no longer those that the bench would give it."""
    shutil.copytree(whole, out)
    config = out / "cells/grpo/0/config.yaml"
    config.write_text(config.read_text().replace("lr: ", "lr: 9", 1))
    return refusal(out)
