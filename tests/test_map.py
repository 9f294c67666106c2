"""The map's benches: who is compared, with which settings, seeds and problems."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from map_code import BENCHMARKS, tuned
from outrider.cli import main
from outrider.config import load_recipe
from study_code import study_code


@pytest.fixture(scope="module")
def code() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield study_code("../map")


ASKED = dict.fromkeys(("grpo", "dars_hw", "dars_hw_breadth", "deep_grpo", "xrpo"), 0.0)


def test_those_asked_after_and_the_two_best_of_the_designs_and_of_the_others(code: ModuleType) -> None:
    designs = {"invest": 0.1, "choose": 0.3, "choose_prefix": 0.2}
    found = code.chosen(tuned(**ASKED, **designs, dapo=0.3, vip=0.5, cures=0.2, ds_grpo=0.4, greso=None))
    assert found == [*code.ASKED, "choose", "choose-prefix", "vip", "ds-grpo"]


def test_all_runs_of_a_recipe_count_not_its_best(code: ModuleType) -> None:
    found = tuned(**ASKED, invest=0.3, dapo=0.3, vip=0.2, cures=0.1, greso=0.1)
    found["greso"]["tried"][0]["scores"]["criterion"]["value"] = 0.4  # a mean of 0.25 and the best run of all
    assert code.chosen(found)[-2:] == ["dapo", "greso"]


def asked_for(code: ModuleType, monkeypatch: pytest.MonkeyPatch, results: Path) -> list[list[str]]:
    """The benches that will have been asked for, where none is run and nothing is committed yet."""
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda words, **rest: asked.append([str(word) for word in words]) or 0)
    monkeypatch.setattr(code, "RESULTS", results)
    for setting in code.SEARCHED:
        (results / setting / "screen").mkdir(parents=True, exist_ok=True)
        found = {
            "tuning": tuned(**{name.replace("-", "_"): 0.1 for name in (*code.ASKED, *code.DESIGNS, *code.OTHERS)})
        }
        (results / setting / "screen" / "results.json").write_text(json.dumps(found))
    monkeypatch.setattr(code, "keep", lambda found, out: None)
    return asked


@pytest.mark.parametrize("setting", ["countdown", "prose"])
def test_in_the_last_settings_all_that_are_screened_are_compared(code: ModuleType, setting: str) -> None:
    """Chance has no part in whom they are, and each is shipped or lies beside the studies."""
    names = code.candidates(setting)
    assert sorted(code.chosen(tuned(**{name.replace("-", "_"): 0.1 for name in names}))) == sorted(names)
    assert {load_recipe(code.named(name), setting=setting).name for name in names} == {*names}


@pytest.mark.parametrize("setting", ["countdown", "frontier", "sparse", "prose"])
def test_what_was_best_in_the_screen_is_what_is_compared(
    code: ModuleType, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a recipe has values of its own for the setting, or lies beside the studies."""
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    names = [*code.ASKED, *code.DESIGNS, *code.OTHERS]
    assert len(names) == len({*names}) == 34
    means = {name.replace("-", "_"): 0.5 for name in names}
    code.compared(setting, "compared", code.Part((*names,)), tuned(**means), tmp_path)
    assert [words[words.index("--seeds") + 1] for words in asked] == ["1", "2", "3", "4", "5"]
    words = asked[-1]
    files = [word for word in words if word.endswith(".yaml")]
    assert [Path(file).stem for file in files] == names
    for file in files:
        recipe = load_recipe(file, setting=setting)
        assert (recipe.learn.lr, recipe.learn.minibatches) == (2e-4, 4)
        assert recipe.explore == load_recipe(code.named(Path(file).stem), setting=setting).explore


@pytest.mark.parametrize("setting", ["countdown", "prose"])
def test_the_bench_takes_what_it_is_asked_for(
    code: ModuleType, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dry run, of the screen and of the comparison: a refusal would come after hours."""
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    names = code.chosen(tuned(**ASKED, invest=0.1, choose_pass4=0.2, choose_prefix=0.3, dapo=0.1, vip=0.1))
    found = tuned(**dict.fromkeys((n.replace("-", "_") for n in names), 0.5))
    code.compared(setting, "compared", code.Part((*names,)), found, tmp_path)
    with pytest.raises(FileNotFoundError, match=f"{setting}/screen"):  # it would read what the bench has left
        code.screened(setting, tmp_path / "screen")
    assert len(asked) == code.Part(()).seeds + 1
    *fewer, compared, screen = asked
    assert all(
        [word for word in words if not word.isdigit()] == [word for word in compared if not word.isdigit()]
        for words in fewer
    )  # they have fewer seeds
    seeds, problems = ("2", "300") if setting == "prose" else ("1", "150")
    assert [screen[screen.index(word) + 1] for word in ("--tune-seeds", "--tune-problems")] == [seeds, problems]
    for words in (compared, screen):
        assert main([*words[words.index("bench") :], "--dry-run"]) == 0


def test_what_is_committed_is_not_run_again(code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, found = asked_for(code, monkeypatch, tmp_path), tuned(grpo=0.2)
    for part in ("screen", "compared"):
        (tmp_path / "sparse" / part).mkdir(parents=True, exist_ok=True)
        (tmp_path / "sparse" / part / "results.json").write_text(json.dumps({"tuning": found}))
    assert code.screened("sparse", tmp_path / "runs") == found
    code.compared("sparse", "compared", code.Part(("grpo",)), found, tmp_path / "runs")
    assert not asked


def test_a_comparison_goes_on_with_the_seeds_that_another_machine_has_measured(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there" / "sparse" / "compared", tmp_path / "here" / "sparse"
    for name in ("environment.json", "recipes/grpo.yaml"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("{}")
    (there / "bench.yaml").write_text("{seeds: 4, untouched: {problems: 300}}")
    for run in (*(f"cells/grpo/{seed}{part}" for seed in "0123" for part in ("", "/untouched")), "before"):
        for name in ("config.yaml", "environment.json", "metrics.jsonl", "table.md", "timing.jsonl", "model/weights"):
            (there / run / name).parent.mkdir(parents=True, exist_ok=True)
            (there / run / name).write_text("x")
        (there / run / "evaluations").mkdir()
    (there / "cells/grpo/2/untouched/table.md").unlink()  # its policy is still needed
    for part in ("", "/untouched"):
        (there / f"cells/grpo/3{part}/table.md").unlink()  # cut off
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    code.packed(tmp_path / "there")
    code.compared("sparse", "compared", code.Part(("grpo",)), tuned(grpo=0.2), here)
    # the bench there had been asked for four seeds, and takes no fewer
    assert [words[words.index("--seeds") + 1] for words in asked] == ["4", "5"]
    tables = {str(table.parent.relative_to(here / "compared")) for table in here.glob("**/table.md")}
    assert tables == {"before", *(f"cells/grpo/{seed}{part}" for seed in "01" for part in ("", "/untouched"))}
    assert not [*here.glob("**/model")]


@pytest.mark.parametrize("commit", ["abc-dirty", None])
def test_the_map_measures_no_tree_that_is_no_commit(
    code: ModuleType, commit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["map.py", "frontier"])
    monkeypatch.setattr(code, "environment", lambda: {"git": commit})
    with pytest.raises(SystemExit, match="this tree is no commit"):
        code.main()


def test_every_committed_tally_gives_the_committed_numbers(code: ModuleType, capsys: pytest.CaptureFixture) -> None:
    """``python benchmarks/map.py check``, of what has tallies."""
    assert code.check(code.RESULTS) == 0
    assert "differ" not in capsys.readouterr().out.replace(" 0 differ", "")


def test_designs_that_came_later_have_problems_of_their_own(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against GRPO as it was tuned, each at the rate at which it was chosen."""
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["map.py", "frontier", "--runs", str(tmp_path / "runs")])
    monkeypatch.setattr(code, "draw", lambda out: None)
    monkeypatch.setattr(code, "environment", lambda: {"git": "a commit"})
    code.main()
    benches: dict[str, list[str]] = {Path(words[words.index("--out") + 1]).name: words for words in asked}  # the last
    told = {
        part: [int(words[words.index(word) + 1]) for word in ("--first-seed", "--seeds", "--untouched-skip")]
        for part, words in benches.items()
    }
    # from the first on; the seeds of the first two are the same, and one looked at those when the design was chosen
    last = {"last": [15, 5, 1800], "control": [20, 5, 2100], "better": [25, 5, 2400], "next": [30, 5, 2700]}
    assert told == {"compared": [0, 5, 600], "later": [0, 5, 900], "again": [5, 10, 1200]} | last
    names = {part: [Path(word).stem for word in words if word.endswith(".yaml")] for part, words in benches.items()}
    assert names["compared"][: len(code.ASKED)] == list(code.ASKED)
    assert names["later"] == ["grpo", "choose-pass3", "choose-slope3"]
    assert names["again"] == ["grpo", "choose-slope3"]
    assert names["last"] == ["grpo", "choose-slope3", "choose-annealed"]
    chosen = {}
    for name in (*names["later"], *names["last"]):
        recipe = yaml.safe_load((tmp_path / "runs/frontier/recipes" / f"{name}.yaml").read_text())
        chosen[name] = (*recipe["settings"]["frontier"]["learn"].values(),)
    ours = dict.fromkeys(("choose-pass3", "choose-annealed"), (2e-4, 1))  # the screen here says 4
    assert code.LATER_PAIRS["frontier"]["choose-slope3"] == (2e-4, 1)
    # of the last benches, with better values
    assert chosen == ours | dict.fromkeys(("grpo", "choose-slope3"), (1e-4, 4))


def test_a_later_design_has_the_one_beside_it_that_the_screen_has_tuned(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And seeds that nobody has looked at."""
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    part, tuning = code.PARTS["sparse"]["later"], tuned(grpo=0.2, prefix_replay=0.3)
    code.compared("sparse", "later", part, code.tuned_later("sparse", part, tuning), tmp_path)
    recipes = {Path(word).stem: word for word in asked[-1] if word.endswith(".yaml")}
    learn = {name: load_recipe(file, setting="sparse").learn for name, file in recipes.items()}
    found = {name: (each.lr, each.minibatches) for name, each in learn.items()}
    assert found == {
        "grpo": (2e-4, 4),
        "prefix-replay": (2e-4, 4),
        "choose-replay2": (1e-4, 4),
        "choose-replay4": (1e-4, 4),
    }
    assert [asked[-1][asked[-1].index(word) + 1] for word in ("--first-seed", "--untouched-skip")] == ["5", "900"]
    part = code.PARTS["sparse"]["last"]
    code.compared("sparse", "last", part, code.tuned_later("sparse", part, tuning), tmp_path)
    [_, file] = [word for word in asked[-1] if word.endswith(".yaml")]
    last = load_recipe(file, setting="sparse")
    assert (last.name, last.learn.lr, last.learn.minibatches) == ("choose-annealed", 1e-4, 4)


@pytest.mark.parametrize(("setting", "values"), [("frontier", (2e-4, 1)), ("sparse", (1e-4, 4))])
def test_in_the_control_grpo_has_the_rate_and_updates_of_whom_the_map_recommends(
    code: ModuleType, setting: str, values: tuple[float, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    part, tuning = code.PARTS[setting]["control"], tuned(grpo=0.2)
    tuning["grpo"]["chosen"] = {"learn.lr": 5e-5, "learn.minibatches": 2}
    code.compared(setting, "control", part, code.tuned_later(setting, part, tuning), tmp_path)
    files = [word for word in asked[-1] if word.endswith(".yaml")]
    learn = {Path(file).stem: load_recipe(file, setting=setting).learn for file in files}
    assert {name: (each.lr, each.minibatches) for name, each in learn.items()} == dict.fromkeys(part.names, values)


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("countdown", "better"),
        ("countdown", "confirmed"),
        ("frontier", "better"),
        ("frontier", "next"),
        ("sparse", "better"),
    ],
)
def test_with_the_better_values_all_have_them(
    code: ModuleType, setting: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, part = asked_for(code, monkeypatch, tmp_path / "results"), code.PARTS[setting][name]
    tuning = tuned(grpo=0.2, prefix_replay=0.2, choose_slope3=0.2, choose_pass4=0.2)  # at 2e-4
    code.compared(setting, name, part, code.tuned_later(setting, part, tuning), tmp_path)
    files = [word for word in asked[-1] if word.endswith(".yaml")]
    learn = {Path(file).stem: load_recipe(file, setting=setting).learn for file in files}
    assert {name: (each.lr, each.minibatches) for name, each in learn.items()} == dict.fromkeys(part.names, (1e-4, 4))
    assert part.names[0] == "grpo"


def parts_of(code: ModuleType, setting: str) -> list[Any]:
    return [code.Part(()), *code.PARTS.get(setting, {}).values()]


def test_nothing_is_measured_twice_on_untouched_problems_nor_confirmed_with_seeds_that_were_seen(
    code: ModuleType,
) -> None:
    for setting in code.SETTINGS:
        all_parts = parts_of(code, setting)
        problems = [(part.order, at) for part in all_parts for at in range(part.skip, part.skip + part.problems)]
        _, _, screened = code.SCREENS.get(setting, ("", 1, 150))
        # nothing was screened on the shuffled ones
        assert all(at >= 300 + (screened if order == "drawn" else 0) for order, at in problems)
        seeds = [seed for part in all_parts for seed in range(part.first, part.first + part.seeds)]
        seen_when_chosen = 5 if setting == "frontier" else 0  # its later designs ran first with those of the comparison
        assert len(problems) == len({*problems})
        assert len(seeds) == len({*seeds}) + seen_when_chosen


@pytest.mark.parametrize(
    "setting",
    ["countdown", *(pytest.param(name, marks=pytest.mark.slow) for name in ("frontier", "sparse", "prose"))],
)
def test_a_setting_has_as_many_problems_as_are_measured(code: ModuleType, setting: str) -> None:
    """Numbers up to a few have fewest."""
    for order in ("drawn", "shuffled"):
        last = max((p.skip + p.problems for p in parts_of(code, setting) if p.order == order), default=0)
        task = load_recipe("grpo", [f"task.heldout_order={order}"], setting=setting).task
        assert len(task.heldout(last)) == last


@pytest.mark.parametrize("setting", ["frontier", "sparse"])
def test_who_was_screened_is_whom_the_rule_says(code: ModuleType, setting: str) -> None:
    kept = json.loads((code.RESULTS / setting / "screen" / "results.json").read_bytes())
    assert sorted(kept["tuning"]) == sorted(code.candidates(setting))


def test_a_pack_that_holds_more_than_the_bench_is_left_as_it_is(code: ModuleType, tmp_path: Path) -> None:
    """As where a folder of runs is older than what came with the repository."""
    finished = sys.modules["_finished"]
    bench, file = tmp_path / "bench", tmp_path / "packed.tar.xz"
    for run in ("before", "tuning/grpo/1e-4/1000"):
        for name in (*finished.OF_BENCH, *(f"{run}/{name}" for name in finished.OF_RUN)):
            (bench / name).parent.mkdir(parents=True, exist_ok=True)
            (bench / name).write_text("untouched: null")
    assert code.pack(bench, file) == 2
    packed = file.read_bytes()
    (bench / "before" / "table.md").unlink()
    with pytest.raises(SystemExit, match=r"holds runs that .* lacks, before for one"):
        code.pack(bench, file)
    assert file.read_bytes() == packed
    code.unpack(file, bench)
    assert not (bench / "before" / "table.md").exists(), "what is there is gone on with"
    code.unpack(file, tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "before" / "table.md").exists()


def test_what_is_kept_of_a_bench_does_not_say_where_it_was_run(code: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bench" / "recipes").mkdir(parents=True)
    for name in (*code.KEPT, "results.json"):
        (tmp_path / "bench" / name).write_text("x")
    out, recipe = tmp_path / "bench", f"{tmp_path}/recipes/grpo.yaml"
    values, budget = ["--setting", "sparse", "task.pool=512", "task.heldout_order=drawn"], ["--seeds", "5", "--out"]
    command = ["/home/ada/src/outrider/__main__.py", "bench", recipe, "vip", *values, *budget, str(out)]
    (out / "results.json").write_text(json.dumps({"environment": {"command": command}}))
    (out / "page.md").write_text(f"before\noutrider {' '.join(command[1:])}\nafter")
    code.keep(out, tmp_path / "kept")
    recipes = ["outrider", "bench", "recipes/grpo.yaml", "recipes/vip.yaml"]
    told = json.loads((tmp_path / "kept" / "results.json").read_bytes())["environment"]["command"]
    assert told == [*recipes, *values, *budget, "runs"]
    # whole recipes take no setting
    assert (tmp_path / "kept" / "page.md").read_text() == f"before\n{' '.join([*recipes, *budget])} runs\nafter"
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {*code.KEPT, "recipes", "results.json"}
    (out / "page.md").write_text("another command")
    with pytest.raises(SystemExit, match="does not name the bench's command"):
        code.keep(out, tmp_path / "again")
    assert not (tmp_path / "again" / "results.json").exists(), "it would count as done"
