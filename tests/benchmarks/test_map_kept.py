"""What is committed of the map's benches: numbers that follow from tallies, packs of finished runs, kept files."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from map_code import RESULTS, map_code

the_map, plan, runs, finished, tallies = map(map_code, ("map", "_map_plan", "_map_run", "_finished", "_map_tallies"))


def test_every_committed_number_follows_from_the_tallies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python benchmarks/map.py check``, of all benches but the screens."""
    monkeypatch.setattr(sys, "argv", ["map.py", "check"])
    with pytest.raises(SystemExit) as ended:
        the_map.main()
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith(" 0 differ") for line in lines)
    benches = {str(file.parent.relative_to(RESULTS)) for file in RESULTS.glob("*/*/results.json")}
    assert {line.partition(":")[0] for line in lines} == {name for name in benches if not name.endswith("/screen")}


def test_the_recovered_comparison_of_0_2_follows_from_its_tallies() -> None:
    """It left the map for its order of problems, not for its tallies."""
    count, wrong = tallies.checked(RESULTS.parent / "map-0.2" / "countdown" / "recovered")
    assert count > 1000
    assert not wrong


BROKEN = {
    "another tally": "by the tallies",
    "an impossible tally": "tallies.csv is not that of the bench",
    "a problem too few": "is 300, and 299 by the tallies",
    "an evaluation too few": "tallies.csv is not that of the bench",
    "another number": "by the tallies",
    "a number too many": "middle is 0.05, and missing by the tallies",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_the_check_fails_where_a_committed_bench_is_broken(
    broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "countdown" / "confirm-prefix-replay"
    shutil.copytree(RESULTS / "countdown" / "confirm-prefix-replay", place)
    results, tallies = json.loads((place / "results.json").read_bytes()), place / "tallies.csv"
    head, first, *rest = [line.split(",") for line in tallies.read_text().splitlines()]
    change = results["untouched"]["recipes"]["prefix-replay"]["minus_base"]["pass@64"]
    if broken == "another tally":
        first[-1] = str((int(first[-1]) + 1) % 65)
    elif broken == "an impossible tally":
        first[-1] = "65"
    elif broken == "a problem too few":
        first = rest.pop(0)
    elif broken == "an evaluation too few":
        at = next(i for i, row in enumerate(rest) if row[0] == "set")
        head, first, *rest = [row[:-1] for row in (head, first, *rest[:at])] + rest[at:]
    elif broken == "another number":
        change["value"] += 0.0005
    elif broken == "a number too many":
        change["middle"] = 0.05
    tallies.write_text("".join(",".join(row) + "\n" for row in (head, first, *rest)))
    (place / "results.json").write_text(json.dumps(results))
    assert the_map.check(tmp_path) == 1
    assert BROKEN[broken] in capsys.readouterr().out


@pytest.mark.parametrize("tallies", ["missing", "empty"])
def test_the_check_fails_for_a_bench_without_tallies_beside_a_whole_one(
    tallies: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("countdown/confirm-prefix-replay", "frontier/confirm-choose-slope3"):
        shutil.copytree(RESULTS / name, tmp_path / name)
    assert the_map.check(tmp_path) == 0
    file = tmp_path / "countdown" / "confirm-prefix-replay" / "tallies.csv"
    if tallies == "missing":
        file.unlink()
    else:
        file.write_text("")
    assert the_map.check(tmp_path) == 1
    said = capsys.readouterr().out
    assert "countdown/confirm-prefix-replay: tallies.csv is" in said
    assert "frontier/confirm-choose-slope3: 726 numbers, 0 differ" in said


def test_a_pack_with_more_runs_than_the_bench_is_not_overwritten(tmp_path: Path) -> None:
    """As where a folder of runs is older than what came with the repository."""
    bench, file = tmp_path / "bench", tmp_path / "packed.tar.xz"
    for run in ("before", "tuning/grpo/1e-4/1000"):
        for name in (*finished.OF_BENCH, *(f"{run}/{name}" for name in finished.OF_RUN)):
            (bench / name).parent.mkdir(parents=True, exist_ok=True)
            (bench / name).write_text("untouched: null")
    assert finished.pack(bench, file) == 2
    packed = file.read_bytes()
    (bench / "before" / "table.md").unlink()
    with pytest.raises(SystemExit, match=r"holds runs that .* lacks, before for one"):
        finished.pack(bench, file)
    assert file.read_bytes() == packed
    finished.unpack(file, bench)
    assert not (bench / "before" / "table.md").exists(), "an existing folder is continued"
    finished.unpack(file, tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "before" / "table.md").exists()


def test_a_kept_bench_does_not_name_paths_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "bench" / "recipes").mkdir(parents=True)
    for name in (*runs.KEPT, "results.json"):
        (tmp_path / "bench" / name).write_text("x")
    out, recipe = tmp_path / "bench", f"{tmp_path}/recipes/grpo.yaml"
    values, budget = ["--setting", "sparse", "task.pool=512", "task.heldout_order=drawn"], ["--seeds", "5", "--out"]
    command = ["/home/ada/src/outrider/__main__.py", "bench", recipe, "vip", *values, *budget, str(out)]
    (out / "results.json").write_text(json.dumps({"environment": {"command": command}}))
    (out / "page.md").write_text(f"before\noutrider {' '.join(command[1:])}\nafter")
    runs.keep(out, tmp_path / "kept")
    recipes = ["outrider", "bench", "recipes/grpo.yaml", "recipes/vip.yaml"]
    told = json.loads((tmp_path / "kept" / "results.json").read_bytes())["environment"]["command"]
    assert told == [*recipes, *values, *budget, "runs"]
    # whole recipes take no setting
    assert (tmp_path / "kept" / "page.md").read_text() == f"before\n{' '.join([*recipes, *budget])} runs\nafter"
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {*runs.KEPT, "recipes", "results.json"}
    (out / "page.md").write_text("another command")
    with pytest.raises(SystemExit, match="does not name the bench's command"):
        runs.keep(out, tmp_path / "again")
    assert not (tmp_path / "again" / "results.json").exists(), "it would count as done"


def test_every_committed_bench_is_in_the_plan() -> None:
    for setting in plan.SETTINGS:
        names = {"screen", plan.COMPARISON, *(bench.folder for bench in plan.confirmations(setting))}
        assert {place.name for place in (RESULTS / setting).iterdir() if place.is_dir()} <= names
