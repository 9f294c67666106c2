"""The map's benches: which recipes run, with which hyperparameters, seeds and problems."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest
from map_code import RESULTS, map_code, tuned

from outrider.cli import main
from outrider.config import load_recipe

the_map, plan, runs = map(map_code, ("map", "_map_plan", "_map_run"))
ASKED = dict.fromkeys(("grpo", "dars_hw", "dars_hw_breadth", "deep_grpo", "xrpo"), 0.0)
ALL = tuned(**{name.replace("-", "_"): 0.5 for name in (*plan.ASKED, *plan.DESIGNS, *plan.OTHERS)})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The benches that would run: none is run, and nothing but the screens is committed."""
    words: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command, **rest: words.append([str(w) for w in command]) or 0)
    monkeypatch.setattr(runs, "keep", lambda found, out: None)
    monkeypatch.setattr(the_map, "RESULTS", tmp_path / "results")
    for setting in plan.SETTINGS:
        screen = tmp_path / "results" / setting / "screen" / "results.json"
        screen.parent.mkdir(parents=True)
        screen.write_text(json.dumps({"tuning": {name: ALL[name] for name in plan.candidates(setting)}}))
    return words


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def files_of(words: list[str]) -> list[str]:
    return [word for word in words if word.endswith(".yaml")]


@pytest.mark.parametrize("name", ["_map_read", "_map_run"])
def test_the_examples_in_docstrings_hold(name: str) -> None:
    failed, tried = doctest.testmod(map_code(name))
    assert tried
    assert not failed


def test_the_comparison_has_the_papers_recipes_and_the_two_best_designs_and_others() -> None:
    designs = {"invest": 0.1, "choose": 0.3, "choose_prefix": 0.2}
    found = plan.chosen(tuned(**ASKED, **designs, dapo=0.3, vip=0.5, cures=0.2, ds_grpo=0.4, greso=None))
    assert found == [*plan.ASKED, "choose", "choose-prefix", "vip", "ds-grpo"]


def test_recipes_are_ranked_by_the_mean_of_their_runs_not_by_the_best() -> None:
    found = tuned(**ASKED, invest=0.3, dapo=0.3, vip=0.2, cures=0.1, greso=0.1)
    found["greso"]["tried"][0]["scores"]["criterion"]["value"] = 0.4  # a mean of 0.25 and the best run of all
    assert plan.chosen(found)[-2:] == ["dapo", "greso"]


@pytest.mark.parametrize("setting", ["countdown", "prose"])
def test_two_settings_compare_every_recipe_that_they_screen(setting: str) -> None:
    names = plan.candidates(setting)
    assert sorted(plan.chosen({name: ALL[name] for name in names})) == sorted(names)
    assert {load_recipe(runs.recipe_path(name), setting=setting).name for name in names} == {*names}


@pytest.mark.parametrize("setting", plan.SETTINGS)
def test_the_committed_screen_has_the_recipes_of_the_plan(setting: str) -> None:
    kept = json.loads((RESULTS / setting / "screen" / "results.json").read_bytes())
    assert sorted(kept["tuning"]) == sorted(plan.candidates(setting))


@pytest.mark.parametrize("setting", plan.SETTINGS)
def test_the_comparison_has_the_hyperparameters_of_the_screen(
    setting: str, asked: list[list[str]], tmp_path: Path
) -> None:
    """Also where a recipe has values of its own for the setting, or lies beside the studies."""
    bench = plan.Bench("compared", (*ALL,), skip=600, order="drawn")
    runs.measured(setting, bench, ALL, tmp_path / "kept", tmp_path)
    assert [after(words, "--seeds") for words in asked] == ["1", "2", "3", "4", "5"]
    assert [Path(file).stem for file in files_of(asked[-1])] == [*ALL]
    for file in files_of(asked[-1]):
        recipe = load_recipe(file, setting=setting)
        assert (recipe.learn.lr, recipe.learn.minibatches) == (2e-4, 4)
        assert recipe.explore == load_recipe(runs.recipe_path(Path(file).stem), setting=setting).explore


@pytest.mark.parametrize(
    ("setting", "benches"),
    [
        ("countdown", {"compared": (15, 300), "confirm-prefix-replay": (10, 600)}),
        ("frontier", {"compared": (0, 600), "confirm-choose-slope3": (25, 2400), "confirm-choose-pass4": (35, 600)}),
        ("sparse", {"compared": (0, 600), "confirm-prefix-replay": (25, 600)}),
        ("prose", {"compared": (0, 600), "confirm-dars-hw": (10, 500)}),
    ],
)
def test_a_setting_runs_its_comparison_and_its_confirmations(
    setting: str,
    benches: dict[str, tuple[int, int]],
    asked: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with its first seed and the first problem of its final test set; a confirmation has GRPO and one recipe, at
    the same hyperparameters, whatever the screen says."""
    monkeypatch.setattr(sys, "argv", ["map.py", setting, "--runs", str(tmp_path / "runs")])
    monkeypatch.setattr(the_map, "environment", lambda: {"git": "a commit"})
    monkeypatch.setattr(the_map, "draw", lambda out: None)
    the_map.main()
    last = {Path(after(words, "--out")).name: words for words in asked}
    told = {name: (after(words, "--first-seed"), after(words, "--final-test-skip")) for name, words in last.items()}
    assert told == {name: (str(seed), str(skip)) for name, (seed, skip) in benches.items()}
    for name, words in last.items():
        if name.startswith("confirm-"):
            assert [Path(file).stem for file in files_of(words)] == ["grpo", name.removeprefix("confirm-")]
            for file in files_of(words):
                learn = load_recipe(file, setting=setting).learn
                assert (learn.lr, learn.minibatches) == (1e-4, 4)


@pytest.mark.parametrize("setting", ["countdown", "prose"])
def test_the_bench_accepts_the_options_of_screen_comparison_and_confirmation(
    setting: str, asked: list[list[str]], tmp_path: Path
) -> None:
    """Its dry run: a refusal would come after hours."""
    with pytest.raises(FileNotFoundError, match="screen"):  # it would read what the bench has left
        runs.screened(setting, tmp_path / "screen", tmp_path / "runs")
    benches = [plan.comparison(setting, ALL), *plan.confirmations(setting)]
    for bench in benches:
        runs.measured(setting, bench, ALL, tmp_path / bench.folder, tmp_path)
    screen, *others = asked
    seeds, problems = ("2", "300") if setting == "prose" else ("1", "150")
    assert (after(screen, "--tune-seeds"), after(screen, "--tune-problems")) == (seeds, problems)
    for words in (screen, *others[:: plan.Bench("", (), 0).seeds]):
        assert main([*words[words.index("bench") :], "--dry-run"]) == 0


def test_a_committed_bench_is_not_run_again(asked: list[list[str]], tmp_path: Path) -> None:
    kept = tmp_path / "results" / "sparse"
    (kept / "compared").mkdir()
    (kept / "compared" / "results.json").write_text("{}")
    assert runs.screened("sparse", kept / "screen", tmp_path / "runs").keys() == {*plan.candidates("sparse")}
    runs.measured("sparse", plan.comparison("sparse", ALL), ALL, kept / "compared", tmp_path / "runs")
    assert not asked


def test_a_comparison_continues_with_the_seeds_that_another_machine_has_measured(
    asked: list[list[str]], tmp_path: Path
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
        (there / f"cells/grpo/3{part}/table.md").unlink()  # interrupted
    the_map.packed(tmp_path / "there")
    bench = plan.Bench("compared", ("grpo",), skip=600)
    runs.measured("sparse", bench, ALL, tmp_path / "results" / "sparse" / "compared", here)
    # the bench there had been asked for four seeds, and takes no fewer
    assert [after(words, "--seeds") for words in asked] == ["4", "5"]
    tables = {str(table.parent.relative_to(here / "compared")) for table in here.glob("**/table.md")}
    assert tables == {"before", *(f"cells/grpo/{seed}{part}" for seed in "01" for part in ("", "/untouched"))}
    assert not [*here.glob("**/model")]


@pytest.mark.parametrize("commit", ["abc-dirty", None])
def test_a_tree_that_is_no_commit_is_not_measured(commit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["map.py", "frontier"])
    monkeypatch.setattr(the_map, "environment", lambda: {"git": commit})
    with pytest.raises(SystemExit, match="this tree is no commit"):
        the_map.main()


def test_a_setting_measures_no_final_test_set_twice_and_no_seed_twice() -> None:
    for setting in plan.SETTINGS:
        benches = [plan.comparison(setting, ALL), *plan.confirmations(setting)]
        problems = [(bench.order, at) for bench in benches for at in range(bench.skip, bench.skip + bench.problems)]
        _, _, screened = runs.SCREENS.get(setting, ("", 1, 150))
        # nothing was screened on the shuffled ones
        assert all(at >= 300 + (screened if order == "drawn" else 0) for order, at in problems)
        assert len(problems) == len({*problems})
        seeds = [seed for bench in benches for seed in range(bench.first_seed, bench.first_seed + bench.seeds)]
        assert len(seeds) == len({*seeds})


@pytest.mark.parametrize(
    "setting",
    ["countdown", *(pytest.param(name, marks=pytest.mark.slow) for name in ("frontier", "sparse", "prose"))],
)
def test_a_setting_has_as_many_problems_as_are_measured(setting: str) -> None:
    """Numbers up to a few have fewest."""
    for order in ("drawn", "shuffled"):
        benches = [plan.comparison(setting, ALL), *plan.confirmations(setting)]
        last = max((each.skip + each.problems for each in benches if each.order == order), default=0)
        task = load_recipe("grpo", [f"task.heldout_order={order}"], setting=setting).task
        assert len(task.heldout(last)) == last
