"""The map's rule: who is compared, and with which settings."""

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

from arms import arm, before
from outrider.bench.report import BenchReport
from outrider.bench.spec import Bench
from outrider.cli import main
from outrider.config import list_settings, load_recipe
from outrider.config.load import SettingInfo
from study_code import study_code

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def code() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield study_code("../map")


def tuned(**means: float | None) -> dict[str, Any]:
    """What the screen finds: for each recipe something as good, something better or worse, and what was chosen."""

    def tried(lr: float, mean: float | None) -> dict[str, Any]:
        scores = None if mean is None else {"criterion": {"value": mean}}
        return {"values": {"learn.lr": lr, "learn.minibatches": 4}, "failed": int(mean is None), "scores": scores}

    return {
        name.replace("_", "-"): {
            "tried": [tried(1e-4, mean), tried(2e-4, mean)],
            "chosen": {"learn.lr": 2e-4, "learn.minibatches": 4},
        }
        for name, mean in means.items()
    }


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


def measured(place: Path, name: str, wins: int, grpo: int = 32, points: int = 1) -> None:
    """A bench of two seeds that is done: how many of 64 tries at each problem are right, of GRPO and of a recipe."""
    start = before([0, 6, 20, 50], samples=64)
    of_each = {"grpo": grpo, name: wins}
    arms = [arm(each, *[[[right] * 4] * 2] * points, samples=64) for each, right in of_each.items()]
    bench = Bench(recipes=["grpo", name], base="grpo", seeds=2, tokens=100, points=points)
    found = BenchReport(bench, start, start, (*arms,), {}, (), BenchReport(bench, start, start, (*arms,), {}, ()))
    place.mkdir(parents=True, exist_ok=True)
    rows = (f"{each},{seed},{i},0.5,0.5\n" for each in of_each for seed in range(2) for i in range(points))
    (place / "numbers.csv").write_text("recipe,seed,share,pass@1,pass@64\n" + "".join(rows))
    told = found.to_json() | {"environment": {"command": ["outrider", "bench", "task.pool=2048"]}}
    (place / "results.json").write_text(json.dumps(told))
    recipes(place, **dict.fromkeys(of_each, 1))


def recipes(place: Path, **epochs: int) -> None:
    """As a bench keeps them, as far as the map reads them."""
    (place / "recipes").mkdir(exist_ok=True)
    for name, count in epochs.items():
        (place / "recipes" / f"{name}.yaml").write_text(f"learn: {{epochs: {count}}}")


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


def test_designs_that_came_later_have_problems_of_their_own(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against GRPO as it was tuned, each at the rate at which it was chosen."""
    asked = asked_for(code, monkeypatch, tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["map.py", "frontier", "--runs", str(tmp_path / "runs")])
    monkeypatch.setattr(code, "draw", lambda out: None)
    code.main()
    benches: dict[str, list[str]] = {Path(words[words.index("--out") + 1]).name: words for words in asked}  # the last
    told = {
        part: [int(words[words.index(word) + 1]) for word in ("--first-seed", "--seeds", "--untouched-skip")]
        for part, words in benches.items()
    }
    # from the first on; the seeds of the first two are the same, and one looked at those when the design was chosen
    last = {"last": [15, 5, 1800], "control": [20, 5, 2100], "better": [25, 5, 2400]}
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
    assert chosen == ours | dict.fromkeys(("grpo", "choose-slope3"), (1e-4, 4))  # of the last bench, with better values


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


@pytest.mark.parametrize("setting", ["countdown", "frontier", "sparse"])
def test_with_the_better_values_all_have_them(
    code: ModuleType, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, part = asked_for(code, monkeypatch, tmp_path / "results"), code.PARTS[setting]["better"]
    tuning = tuned(grpo=0.2, prefix_replay=0.2, choose_slope3=0.2)  # at 2e-4
    code.compared(setting, "better", part, code.tuned_later(setting, part, tuning), tmp_path)
    files = [word for word in asked[-1] if word.endswith(".yaml")]
    learn = {Path(file).stem: load_recipe(file, setting=setting).learn for file in files}
    assert {name: (each.lr, each.minibatches) for name, each in learn.items()} == dict.fromkeys(part.names, (1e-4, 4))
    assert part.names[0] == "grpo"


def test_nothing_is_measured_twice_on_untouched_problems_nor_confirmed_with_seeds_that_were_seen(
    code: ModuleType,
) -> None:
    for setting, parts in code.PARTS.items():
        all_parts = [code.Part(()), *parts.values()]
        problems = [at for part in all_parts for at in range(part.skip, part.skip + part.problems)]
        seeds = [seed for part in all_parts for seed in range(part.first, part.first + part.seeds)]
        seen_when_chosen = 5 if setting == "frontier" else 0  # its later designs ran first with those of the comparison
        assert len(problems) == len({*problems})
        assert len(seeds) == len({*seeds}) + seen_when_chosen


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
    values, budget = ["--setting", "sparse", "task.pool=512"], ["--seeds", "5", "--out"]
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


def test_the_page_says_what_the_benches_say(code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 samples: GRPO solves all problems in half of them, vip the one that was never solved in 16 more."""
    start = before([0, 6, 20, 50], samples=64)
    # once after as many steps as GRPO, and once more after twice as many, by when it has lost something
    vip = arm("vip", [[56, 32, 32, 32]] * 2, [[48, 32, 32, 32]] * 2, samples=64)
    arms = (arm("grpo", [[32] * 4] * 2, samples=64), vip)
    bench = Bench(recipes=["grpo", "vip"], base="grpo", seeds=2, tokens=100, points=1)
    kept = tuple(arm(name, [[wins] * 4] * 2, samples=64) for name, wins in (("grpo", 32), ("vip", 40)))
    found = BenchReport(bench, start, start, arms, {}, (), BenchReport(bench, start, start, kept, {}, ()))
    compared = found.to_json() | {"environment": {"command": ["outrider", "bench", "grpo", "vip", "task.pool=2048"]}}
    for part, results in (("compared", compared), ("screen", {"tuning": tuned(grpo=0.1, vip=0.2)})):
        (tmp_path / "sparse" / part).mkdir(parents=True, exist_ok=True)
        (tmp_path / "sparse" / part / "results.json").write_text(json.dumps(results, allow_nan=False))
    rows = [("grpo", 0, 0.5), ("grpo", 1, 0.5), ("vip", 0, 0.6), ("vip", 1, 0.52)]
    numbers = "".join(f"{name},{seed},1.0,{one},1\n" for name, seed, one in rows)
    (tmp_path / "sparse" / "compared" / "numbers.csv").write_text(f"recipe,seed,share,pass@1,pass@64\n{numbers}")
    recipes(tmp_path / "sparse" / "compared", grpo=1, vip=2)
    monkeypatch.setattr(sys.modules["_map_page"], "FEWEST", 1)
    code.draw(tmp_path)
    text, behind = ((tmp_path / at / "page.md").read_text() for at in ("", "sparse"))
    assert "The base has pass@1 0.297 and pass@64 0.750; GRPO takes them to 0.500 and 1.000" in behind
    ends, kept = (line.split(" | ") for line in behind.splitlines() if line.startswith("| vip"))
    assert [*ends[1:5], ends[5].split()[0]] == ["2e-4", "8", "20", "0.562", "+0.062"]
    assert kept[1].split()[0] == "**+0.125**"
    # vip's changes of 0.25, 0, 0, 0 have a standard error of 0.0625; t with three degrees of freedom goes to 3.18
    assert "the usual interval at the end is ±0.199 in pass@1, ±0.000 in pass@64." in behind
    # of 0.1 and 0.02 a mean of 0.06 and a standard error of 0.04; t with one degree of freedom goes to 12.7
    assert "| 0.0 M | 0.500 | ±0.508 | 0 of 1 | 1.000 | ±0.000 | 0 of 1 |" in behind
    assert "| sparse | 0.297 → 0.500 | 0.750 → 1.000 | `vip` +0.125, +0.000\\* | `vip` +0.125\\* | nobody |" in text
    values = "task.pool=2048 learn.lr=0.0002 learn.minibatches=4 train.tokens=100"
    assert f"\noutrider train vip --setting sparse {values}\n" in text
    untouched, classes = (line.split(" | ") for line in text.splitlines() if line.startswith("| vip"))
    assert untouched[1].split()[0] == "**+0.125**"
    assert [cell.split()[0] for cell in classes[1:5]] == ["**+0.250**", "+0.000", "+0.000", "+0.000"]
    assert (tmp_path / "map.png").stat().st_size > 10_000


def test_what_is_committed_is_what_is_drawn_and_the_readme_has_its_first_table(code: ModuleType) -> None:
    results = code.done(code.RESULTS)
    drawn = sys.modules["_map_page"].page(results)
    assert (code.RESULTS / "page.md").read_text("utf-8") == drawn
    for setting in {found["setting"] for found in results.values()}:
        benches = {title: found for title, found in results.items() if found["setting"] == setting}
        committed = (code.RESULTS / setting / "page.md").read_text("utf-8")
        assert committed == sys.modules["_map_setting"].setting_page(setting, benches)
    [table] = [part for part in drawn.split("\n\n") if part.startswith("| setting ")]
    assert table in (BENCHMARKS.parent / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("seldom", "drawn"), [(9, 1), (10, 2)])
def test_the_picture_leaves_out_classes_of_few_problems(code: ModuleType, seldom: int, drawn: int) -> None:
    """Beside the ten that were never solved."""
    start = before([0] * 10 + [6] * seldom, samples=64)
    arms = tuple(arm(name, [[wins] * (10 + seldom)] * 2, samples=64) for name, wins in (("grpo", 32), ("vip", 40)))
    bench = Bench(recipes=["grpo", "vip"], base="grpo", seeds=2, tokens=100, points=1)
    results = BenchReport(bench, start, start, arms, {}, ()).to_json()
    about = {
        "setting": "sparse",
        "part": "compared",
        "tuned": tuned(grpo=0.1, vip=0.1),
        "epochs": {"grpo": 1, "vip": 1},
    }
    below = sys.modules["_map_figure"].figure({"sparse": results | about}).axes[1]
    assert len(below.containers) == drawn


def test_the_picture_has_a_recipe_once_in_a_setting_as_the_last_bench_found_it(
    code: ModuleType, tmp_path: Path
) -> None:
    """There 48 of 64 are right and half of GRPO's, before that as many as GRPO's."""
    measured(tmp_path / "frontier" / "later", "choose-slope3", 32)
    measured(tmp_path / "frontier" / "again", "choose-slope3", 48)
    measured(tmp_path / "sparse" / "compared", "vip", 32)
    for setting in ("frontier", "sparse"):
        (tmp_path / setting / "screen").mkdir()
        (tmp_path / setting / "screen" / "results.json").write_text(json.dumps({"tuning": tuned(grpo=0.1, vip=0.2)}))
    above, _, below, _ = sys.modules["_map_figure"].figure(code.done(tmp_path)).axes
    assert [axes.get_title(loc="left") for axes in (above, below)] == ["frontier", "sparse"]
    [drawn] = above.containers
    assert (drawn.get_label(), *drawn.lines[0].get_xdata()) == ("choose-slope3", 0.25)


def test_who_was_run_again_is_judged_by_that_bench_and_later_ones_and_who_was_compared_there(
    code: ModuleType, tmp_path: Path
) -> None:
    for part, name in (("compared", "vip"), ("later", "vip"), ("later", "late"), ("again", "late"), ("last", "late")):
        results = tmp_path / "frontier" / part / "results.json"
        before = json.loads(results.read_bytes()) if results.exists() else None
        measured(results.parent, name, 40)
        if before:
            both = before["recipes"] | json.loads(results.read_bytes())["recipes"]
            results.write_text(json.dumps(before | {"recipes": both}))
    measured(tmp_path / "frontier" / "control", "late", 40)
    (tmp_path / "frontier" / "screen").mkdir()
    tuning = tuned(grpo=0.1, vip=0.2, late=0.1, choose_slope3=0.1)
    (tmp_path / "frontier" / "screen" / "results.json").write_text(json.dumps({"tuning": tuning}))
    told = sys.modules["_map_rule"].judges(code.done(tmp_path))["frontier"]
    parts = {name: [found["part"] for found in benches] for name, benches in told.items()}
    assert parts == {"vip": ["compared"], "late": ["again", "last"]}


def test_a_star_is_at_whoever_had_another_rate_or_other_updates_than_grpo(code: ModuleType, tmp_path: Path) -> None:
    measured(tmp_path / "frontier" / "compared", "vip", 40)
    (tmp_path / "frontier" / "screen").mkdir()
    tuning = tuned(grpo=0.1, vip=0.2)
    for minibatches, epochs, star in (4, 1, ""), (1, 1, r"\*"), (4, 2, r"\*"), (2, 2, ""):
        tuning["vip"]["chosen"] = {"learn.lr": 2e-4, "learn.minibatches": minibatches}
        recipes(tmp_path / "frontier" / "compared", vip=epochs)
        (tmp_path / "frontier" / "screen" / "results.json").write_text(json.dumps({"tuning": tuning}))
        code.draw(tmp_path)
        text = (tmp_path / "page.md").read_text()
        assert f"`vip` +0.125{star} |" in text
        assert f"**+0.125** ±.000{star} |" in text
        left, right = sys.modules["_map_figure"].figure(code.done(tmp_path)).axes
        inside = [bars.lines[0].get_markerfacecolor() for axes in (left, right) for bars in axes.containers]
        assert {colour == "white" for colour in inside} == {bool(star)}


def test_several_benches_are_weighed_by_their_intervals() -> None:
    read = sys.modules["_map_read"]
    wide, narrow = read.Estimate(0.0, -0.04, 0.04, 5, 300), read.Estimate(0.05, 0.03, 0.07, 10, 600)
    found = read.together([wide, narrow])
    assert found.value == pytest.approx(0.04)  # four to one
    assert (found.low, found.high) == pytest.approx((0.04 - 0.32**0.5 / 31.6227766, 0.04 + 0.32**0.5 / 31.6227766))
    assert (found.seeds, found.problems) == (15, 900)


def test_the_page_says_how_a_recipe_does_beside_grpo_at_its_own_rate(code: ModuleType, tmp_path: Path) -> None:
    """There GRPO solves as many as it, where in the bench that recommends it GRPO solves none."""
    measured(tmp_path / "frontier" / "compared", "vip", 32)
    measured(tmp_path / "frontier" / "last", "choose-slope3", 40, grpo=0)
    measured(tmp_path / "frontier" / "control", "choose-slope3", 40, grpo=40)
    (tmp_path / "frontier" / "screen").mkdir()
    (tmp_path / "frontier" / "screen" / "results.json").write_text(json.dumps({"tuning": tuned(grpo=0.1, vip=0.2)}))
    code.draw(tmp_path)
    text, behind = ((tmp_path / at / "page.md").read_text() for at in ("", "frontier"))
    [row] = [line for line in text.splitlines() if line.startswith("| frontier: choose-slope3")]
    assert [cell.split()[0] for cell in row.strip("| ").split(" | ")[1:]] == [
        *("2e-4,", "+0.000", "+0.000", "+0.000", "0.625", "1.000")  # and in brackets 0.500 and 1.000
    ]
    assert "recommended no more: not `choose-slope3`." in behind
    assert "outrider train" not in text, "vip is not told from GRPO either"


@pytest.mark.parametrize(("late", "best"), [(40, "choose-slope3"), (0, "vip")])
def test_a_design_that_came_later_is_recommended_where_it_is_ahead_at_both_ends(
    code: ModuleType, tmp_path: Path, late: int, best: str
) -> None:
    """Beside it GRPO solves nothing; in the comparison vip solves all in 8 tries more."""
    measured(tmp_path / "frontier" / "compared", "vip", 40)
    measured(tmp_path / "frontier" / "later", "choose-slope3", late, grpo=0)
    (tmp_path / "frontier" / "screen").mkdir()
    screen = json.dumps({"tuning": tuned(grpo=0.1, vip=0.2)})
    (tmp_path / "frontier" / "screen" / "results.json").write_text(screen)
    code.draw(tmp_path)
    text, behind = ((tmp_path / at / "page.md").read_text() for at in ("", "frontier"))
    assert "## frontier, later designs" in behind
    assert "(later/page.md)" in behind
    assert f"\noutrider train {best} --setting frontier" in text
    told = "nobody" if best == "vip" else f"`{best}`"
    assert f"Ahead of GRPO at both ends here: {told}." in behind
    done = code.done(tmp_path)
    drawn = sys.modules["_map_best"].best_figure(sys.modules["_map_rule"].recommendations(done))
    one, _, untouched = drawn.axes
    heights = {line.get_label(): list(line.get_ydata()) for line in one.lines if not line.get_label().startswith("_")}
    grpo = 0 if best == "choose-slope3" else 0.5
    start = 76 / 256
    assert heights == {"grpo": [start, grpo], best: [start, 0.625]}
    assert untouched.lines[0].get_ydata()[0] == start
    assert [text.get_text() for text in untouched.get_legend().get_texts()] == ["before", "grpo", best]
    assert (tmp_path / "best.png").stat().st_size > 10_000


def test_the_picture_has_grpo_at_equal_values_where_it_was_run_so(code: ModuleType, tmp_path: Path) -> None:
    """There both solve more than in the bench that recommends it, and of two such benches the later is drawn, but for
    one that looks less often."""
    measured(tmp_path / "frontier" / "compared", "vip", 40, points=2)
    measured(tmp_path / "frontier" / "later", "vip", 48, points=2)
    measured(tmp_path / "frontier" / "again", "vip", 56, points=1)
    (tmp_path / "frontier" / "screen").mkdir()
    screen = tmp_path / "frontier" / "screen" / "results.json"
    tuning, rule = tuned(grpo=0.1, vip=0.2), sys.modules["_map_rule"]

    def drawn() -> tuple[str, int, float]:
        screen.write_text(json.dumps({"tuning": tuning}))
        done = code.done(tmp_path)
        shown = rule.at_equal_values(rule.recommendations(done), done)
        one, _, untouched = sys.modules["_map_best"].best_figure(shown).axes
        [points] = [len(line.get_ydata()) for line in one.lines if line.get_label() == "grpo"]
        [end] = [line.get_ydata()[0] for line in untouched.lines if line.get_label() == "vip"]
        return shown["frontier"][1]["part"], points, float(end)

    assert drawn() == ("later", 3, 0.75)
    tuning["vip"]["chosen"] = {"learn.lr": 1e-4, "learn.minibatches": 4}
    assert drawn() == ("compared", 3, 0.625), "which recommends it"
    tuning["choose-slope3"] = tuning["vip"]
    measured(tmp_path / "frontier" / "last", "choose-slope3", 40, grpo=0, points=2)
    measured(tmp_path / "frontier" / "control", "choose-slope3", 48, grpo=40, points=2)
    done = code.done(tmp_path)
    shown = rule.at_equal_values(rule.recommendations(done), done)
    assert [(name, found["part"]) for name, found in shown.values()] == [("choose-slope3", "control")]


def test_a_papers_figures_stand_beside_those_of_its_recipe(code: ModuleType) -> None:
    """Of 64 tries on the untouched problems XRPO has 8 more than GRPO; of DARS there is nothing."""
    start = before([0, 6, 20, 50], samples=64)
    bench = Bench(recipes=["grpo", "xrpo"], base="grpo", seeds=2, tokens=100, points=2)

    def report(grpo: tuple[int, ...], xrpo: tuple[int, ...], untouched: BenchReport | None = None) -> BenchReport:
        """By how many of 64 tries are right in both evaluations of a run."""
        arms = [
            arm(name, *([[wins] * 4] * 2 for wins in points), samples=64)
            for name, points in (("grpo", grpo), ("xrpo", xrpo))
        ]
        return BenchReport(bench, start, start, tuple(arms), {}, (), untouched)

    claims = sys.modules["_map_claims"].claims
    found = {
        # from 19 in steps: GRPO is at 32 with its last, XRPO with its first
        "frontier": report((26, 32), (32, 48), untouched=report((32, 32), (40, 40))),
        "sparse": report((26, 32), (20, 24)),  # its untouched problems were not measured
        "prose": report((32, 32), (32, 32)),  # GRPO, too, is there with its first
        "countdown": report((16, 10), (16, 16)),  # it fell, so anybody has what it has before any step
    }
    table = claims({name: each.to_json() for name, each in found.items()})
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert rows[0][3:] == [*found]
    assert [row[0] for row in rows[2:]] == ["xrpo", "xrpo"]
    assert rows[2][3].split()[0] == "**+0.125**"
    assert rows[2][4:] == ["—"] * 3
    assert rows[3][3:] == ["2.0 times", "not reached", "1.0 times", "—"]


def test_deep_grpos_figures_are_greedy_and_of_many_tries(code: ModuleType) -> None:
    """It solves four problems in 64 tries where GRPO solves three, more often in all; greedily both solve none."""
    start = before([0, 6, 20, 50], samples=64)
    bench = Bench(recipes=["grpo", "deep-grpo"], base="grpo", seeds=2, tokens=100, points=1)
    arms = (arm("grpo", [[0, 32, 32, 32]] * 2, samples=64), arm("deep-grpo", [[28] * 4] * 2, samples=64))
    found = BenchReport(
        bench, start, start, (*arms,), {}, (), BenchReport(bench, start, start, (*arms,), {}, ())
    ).to_json()
    table = sys.modules["_map_claims"].claims({"frontier": found})
    cells = [line.strip("| ").split(" | ")[-1].split()[0] for line in table.splitlines()[2:]]
    assert cells == ["+0.000", "+0.250"]


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        ({"vip": [(0.04, 0.01), (0.0, 0.03)], "dapo": [(0.02, 0.01), (0.03, 0.04)]}, "dapo"),  # 0.04 and 0.05
        ({"vip": [(0.09, 0.01), (-0.04, 0.03)], "dapo": [(0.02, 0.01), (-0.01, 0.02)]}, "dapo"),  # vip narrows
        ({"vip": [(0.04, 0.05), (0.03, 0.04)]}, ""),  # by less than the noise
        ({"vip": [(-0.01, 0.02), (0.06, 0.02)]}, "vip"),
    ],
)
def test_who_is_ahead_at_one_end_and_behind_at_neither_is_recommended(
    code: ModuleType, changes: dict[str, list[tuple[float, float]]], best: str
) -> None:
    def estimate(value: float, half: float) -> dict[str, float]:
        return {"value": value, "low": value - half, "high": value + half, "seeds": 5, "problems": 300, "error": half}

    recipes = {
        name: {"minus_base": dict(zip(("pass@1", "pass@64"), (estimate(*each) for each in both), strict=True))}
        for name, both in changes.items()
    }
    found = {"before": {"pass@1": {}, "pass@64": {}}, "untouched": {"recipes": {"grpo": {}} | recipes}}
    found |= {"setting": "frontier", "part": "compared"}

    def recommended(*benches: dict[str, Any]) -> str:
        told = sys.modules["_map_rule"].recommendations({bench["part"]: bench for bench in benches})
        return told["frontier"][0] if told else ""

    ends = dict(zip(("pass@1", "pass@64"), (estimate(0.01, 0.02), estimate(0.02, 0.03)), strict=True))
    behind = found | {"untouched": {"recipes": {"grpo": {}, "late": {"minus_base": ends}}}}
    assert recommended(found) == best
    assert recommended(found | {"untouched": None}) == ""
    # a design that came later has to be ahead at both ends
    for both, later in (((0.02, 0.01), (0.03, 0.02)), "late"), (((0.09, 0.01), (0.01, 0.02)), best):
        ends = dict(zip(("pass@1", "pass@64"), (estimate(*each) for each in both), strict=True))
        designs = found | {"untouched": {"recipes": {"grpo": {}, "late": {"minus_base": ends}}}}
        assert recommended(found, designs | {"part": "later"}) == later
        assert recommended(found, designs | {"untouched": None, "part": "later"}, designs | {"part": "again"}) == later
        # run again it is judged there alone, whatever it was before
        assert recommended(found, designs | {"part": "later"}, behind | {"part": "again"}) == best
    # beside a last design it keeps what it was found to be, but for one that is ahead there itself
    ends = {"pass@1": estimate(0.02, 0.01), "pass@64": estimate(0.03, 0.02)}
    ahead = found | {"untouched": {"recipes": {"grpo": {}, "late": {"minus_base": ends}}}, "part": "again"}
    ends = {"pass@1": estimate(0.02, 0.01), "pass@64": estimate(0.03, 0.04)}
    beside = found | {"untouched": {"recipes": {"grpo": {}, "late": {"minus_base": ends}}}, "part": "last"}
    assert recommended(found, ahead, beside) == "late"
    beside["untouched"]["recipes"]["last"] = {"minus_base": {"pass@1": estimate(0.02, 0.01)}}
    beside["untouched"]["recipes"]["last"]["minus_base"]["pass@64"] = estimate(0.02, 0.01)
    assert recommended(found, ahead, beside) == "last"
    # who was compared is judged there alone, whatever it is beside later designs
    beside = {name: {"minus_base": ends} for name in changes}
    assert recommended(found, found | {"untouched": {"recipes": {"grpo": {}} | beside}, "part": "later"}) == best
    both = {"pass@1": estimate(0.02, 0.01), "pass@64": estimate(0.03, 0.02)}
    beside = {name: {"minus_base": both} for name in changes}
    assert recommended(found, found | {"untouched": {"recipes": {"grpo": {}} | beside}, "part": "later"}) == best
    # beside GRPO at its own rate it has to be ahead at one end, and behind at none
    for one, most, name in (0.02, 0.01, "late"), (0.005, 0.01, best), (0.02, -0.03, best):
        ends = {"pass@1": estimate(one, 0.01), "pass@64": estimate(most, 0.02)}
        control = found | {"untouched": {"recipes": {"grpo": {}, "late": {"minus_base": ends}}}, "part": "control"}
        assert recommended(found, ahead, control) == name
    assert recommended(found, ahead, control | {"untouched": None}) == "late"
    # with better values for GRPO it is recommended with these where it is ahead there, and else no more
    for one, name, part in (0.02, "late", "better"), (0.005, best, "compared"):
        ends = {"pass@1": estimate(one, 0.01), "pass@64": estimate(0.01, 0.02)}
        better = found | {"untouched": {"recipes": {"grpo": {}, "late": {"minus_base": ends}}}, "part": "better"}
        told = sys.modules["_map_rule"].recommendations({each["part"]: each for each in (found, ahead, better)})
        told = {setting: (recipe, bench["part"]) for setting, (recipe, bench) in told.items()}
        assert told == ({"frontier": (name, part)} if name else {})


@pytest.mark.parametrize("info", list_settings(), ids=lambda info: info.name)
def test_a_setting_recommends_whom_the_map_does(code: ModuleType, info: SettingInfo) -> None:
    """Who trains it then trains what was compared."""
    told = sys.modules["_map_rule"].recommendations(code.done(code.RESULTS)).get(info.name)
    assert info.recommended == (told[0] if told else "")
    if told:
        shipped = load_recipe(info.recommended, info.values, setting=info.name)
        compared = load_recipe(str(code.RESULTS / info.name / told[1]["part"] / "recipes" / f"{told[0]}.yaml"))
        for part in ("model", "task", "sample", "explore", "credit", "objective", "reward", "learn"):
            assert getattr(shipped, part) == getattr(compared, part), part
        assert shipped.train.tokens == told[1]["bench"]["tokens"]
