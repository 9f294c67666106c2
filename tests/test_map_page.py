"""The map's pages and pictures: they say what the benches say."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from arms import arm, before
from map_code import BENCHMARKS, measured, recipes, tuned
from outrider.bench.report import BenchReport
from outrider.bench.spec import Bench
from study_code import study_code


@pytest.fixture(scope="module")
def code() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield study_code("../map")


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


def test_the_readme_tells_the_changes_of_whom_its_picture_shows(code: ModuleType) -> None:
    rule, read = sys.modules["_map_rule"], sys.modules["_map_read"]
    results, text = code.done(code.RESULTS), (BENCHMARKS.parent / "README.md").read_text("utf-8")
    for name, found in rule.at_equal_values(rule.recommendations(results), results).values():
        assert f"`{name}`" in text
        for quantity in ("pass@1", read.largest(found)):
            change = read.as_change(read.untouched_change(name, [found], quantity)).replace("**", "")
            assert change in text, (name, quantity)


@pytest.mark.parametrize("text", ["README.md", "docs/which-method.md", "CHANGELOG.md"])
def test_a_change_that_a_text_tells_is_on_a_page_of_results(text: str) -> None:
    """With its interval: a figure that no bench has is found. Whether it is the newest is not asked here."""
    told = re.compile(r"([+-]\d\.\d{3}) ±(\.\d{3})")
    pages = (page.read_text("utf-8") for page in (BENCHMARKS / "results").glob("**/page.md"))
    known = {change for page in pages for change in told.findall(page.replace("**", ""))}
    found = told.findall((BENCHMARKS.parent / text).read_text("utf-8").replace("**", ""))
    assert found
    assert {*found} <= known


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
    row, cost = [line for line in text.splitlines() if line.startswith("| frontier: choose-slope3")]
    # both end with every problem solved in many tries, and took as many seconds
    assert [cell.split()[0] for cell in cost.strip("| ").split(" | ")[1:]] == ["2e-4,", "1.00", "—", "+0.000", "+0.000"]
    assert [cell.split()[0] for cell in row.strip("| ").split(" | ")[1:]] == [
        *("2e-4,", "+0.000", "+0.000", "+0.000", "0.625", "1.000")  # and in brackets 0.500 and 1.000
    ]
    assert "recommended no more: not `choose-slope3`." in behind
    assert "outrider train" not in text, "vip is not told from GRPO either"


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
