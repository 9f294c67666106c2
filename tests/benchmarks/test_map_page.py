"""The map's pages and pictures: they say what the benches say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from arms import arm, before
from map_code import RESULTS, kept, map_code, measured, rows_of

from outrider.bench.report import BenchReport
from outrider.bench.spec import Bench

the_map, read, rule, page, figures, claims = map(
    map_code, ("map", "_map_read", "_map_rule", "_map_page", "_map_figure", "_map_claims")
)
best, setting_pages, tables = map(map_code, ("_map_best", "_map_setting", "_map_tables"))
SETTINGS = read.done(RESULTS)


def test_the_pages_say_what_the_benches_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 samples: GRPO solves all problems in half of them, vip the one that was never solved in 16 more."""
    start = before([0, 6, 20, 50], samples=64)
    # once after as many steps as GRPO, and once more after twice as many, by when it has lost something
    vip = arm("vip", [[56, 32, 32, 32], [56, 32, 32, 32]], [[48, 32, 32, 32], [48, 32, 32, 32]], samples=64)
    arms = (arm("grpo", [[32] * 4] * 2, samples=64), vip)
    bench = Bench(recipes=["grpo", "vip"], base="grpo", seeds=2, tokens=100, points=1)
    last = tuple(arm(name, [[wins] * 4] * 2, samples=64) for name, wins in (("grpo", 32), ("vip", 40)))
    report = BenchReport(bench, start, start, arms, {}, (), BenchReport(bench, start, start, last, {}, ()))
    kept(tmp_path / "sparse" / "compared", report, grpo=(2e-4, 4, 1), vip=(2e-4, 4, 2))
    numbers = [("grpo", 0, 0.5), ("grpo", 1, 0.5), ("vip", 0, 0.6), ("vip", 1, 0.52)]
    rows = "".join(f"{name},{seed},1.0,{one},1\n" for name, seed, one in numbers)
    (tmp_path / "sparse" / "compared" / "numbers.csv").write_text(f"recipe,seed,share,pass@1,pass@64\n{rows}")
    measured(tmp_path / "sparse" / "confirm-prefix-replay", "prefix-replay", 40)
    monkeypatch.setattr(tables, "FEWEST", 1)
    the_map.draw(tmp_path)
    text, behind = ((tmp_path / at / "page.md").read_text() for at in ("", "sparse"))
    assert "the base has pass@1 0.297 and pass@64 0.750. GRPO ends at 0.500 and 1.000" in behind
    ends, final = rows_of(behind, "| vip")
    assert [*ends[1:5], ends[5].split()[0]] == ["2e-4", "8", "20", "0.562", "+0.062"]
    assert final[1].split()[0] == "**+0.125**"
    # vip's changes of 0.25, 0, 0, 0 have a standard error of 0.0625; t with three degrees of freedom goes to 3.18
    assert "the median interval is ±0.199 in pass@1, ±0.000 in pass@64." in behind
    # of 0.1 and 0.02 a mean of 0.06 and a standard error of 0.04; t with one degree of freedom goes to 12.7
    assert "| 0.0 M | 0.500 | ±0.508 | 0 of 1 | 1.000 | ±0.000 | 0 of 1 |" in behind
    assert "## Confirmation of `prefix-replay`" in behind
    assert "**Confirmed**" in behind
    short, _ = rows_of(text, "| sparse | ")
    assert short[1:3] == ["0.297 → 0.500", "0.750 → 1.000"]
    assert short[3:] == ["`prefix-replay`: pass@1 +0.125, pass@64 +0.000", "`vip` +0.125\\*", "none"]
    values = "task.pool=2048 learn.lr=0.0002 learn.minibatches=4 train.tokens=100"
    assert f"\noutrider train prefix-replay --setting sparse {values}\n" in text
    final, classes = rows_of(text, "| vip")
    assert final[1] == "**+0.125** ±.000\\*"
    assert [cell.split()[0] for cell in classes[1:5]] == ["**+0.250**", "+0.000", "+0.000", "+0.000"]
    assert (tmp_path / "map.png").stat().st_size > 10_000
    assert (tmp_path / "best.png").stat().st_size > 10_000


def test_a_failed_confirmation_recommends_none_and_has_its_row(tmp_path: Path) -> None:
    measured(tmp_path / "prose" / "compared", "vip", 40)
    measured(tmp_path / "prose" / "confirm-dars-hw", "dars-hw", 24)
    (tmp_path / "best.png").write_text("an old one")
    the_map.draw(tmp_path)
    text, behind = ((tmp_path / at / "page.md").read_text() for at in ("", "prose"))
    assert rows_of(text, "| prose | ")[0][3] == "none"
    confirmation, cost = rows_of(text, "| prose: dars-hw")
    # where dars-hw ends, at pass@1 0.375, the line of GRPO from 0.297 and 0.75 to 0.5 and 1 is at 0.846
    assert [cell.split()[0] for cell in confirmation] == [
        *("prose:", "2e-4,", "2", "**-0.125**", "**-0.015**", "+0.000", "+0.154", "0.500", "1.000", "not")
    ]
    assert [cell.split()[0] for cell in cost[1:]] == ["2e-4,", "1.00", "—", "+0.000", "+0.154"]
    assert "**Not confirmed**" in behind
    assert "outrider train" not in text
    assert not (tmp_path / "best.png").exists()


def test_the_committed_pages_are_those_that_are_drawn() -> None:
    assert (RESULTS / "page.md").read_text("utf-8") == page.page(SETTINGS)
    for name, setting in SETTINGS.items():
        assert (RESULTS / name / "page.md").read_text("utf-8") == setting_pages.setting_page(name, setting)


@pytest.mark.parametrize("name", ["page.md", *(f"{name}/page.md" for name in SETTINGS)])
def test_the_committed_pages_have_the_words_of_the_field(name: str) -> None:
    text = (RESULTS / name).read_text("utf-8")
    assert not re.findall(r"\b(nobody|whoever|untouched|one try|many tries|ahead|behind|both ends|fresh)\b", text)


def test_a_page_says_how_many_seeds_are_kept() -> None:
    text, behind = ((RESULTS / at / "page.md").read_text("utf-8") for at in ("", "sparse"))
    for name, found in read.comparisons(SETTINGS).items():
        assert f"{name} {read.seeds_kept(found)}" in text
    assert f"Seeds: {read.seeds_kept(SETTINGS['sparse'].comparison)}" in behind


def test_a_setting_without_a_comparison_is_on_the_page_with_its_confirmation(tmp_path: Path) -> None:
    measured(tmp_path / "countdown" / "confirm-prefix-replay", "prefix-replay", 40)
    the_map.draw(tmp_path)
    text, behind = ((tmp_path / at / "page.md").read_text() for at in ("", "countdown"))
    short, *_ = rows_of(text, "| countdown | ")
    assert short[1:] == ["0.297 → 0.500", "0.750 → 1.000", "`prefix-replay`: pass@1 +0.125, pass@64 +0.000", "—", "—"]
    assert "## Comparison" not in text + behind
    assert not (tmp_path / "map.png").exists()
    assert (tmp_path / "best.png").exists()


@pytest.mark.parametrize(("seldom", "drawn"), [(9, 1), (10, 2)])
def test_the_picture_leaves_out_classes_of_few_problems(seldom: int, drawn: int) -> None:
    """Beside the ten that were never solved."""
    start = before([0] * 10 + [6] * seldom, samples=64)
    arms = tuple(arm(name, [[wins] * (10 + seldom)] * 2, samples=64) for name, wins in (("grpo", 32), ("vip", 40)))
    bench = Bench(recipes=["grpo", "vip"], base="grpo", seeds=2, tokens=100, points=1)
    learn = {name: {"lr": 1e-4, "minibatches": 4, "epochs": 1} for name in ("grpo", "vip")}
    results = BenchReport(bench, start, start, arms, {}, ()).to_json() | {"learn": learn}
    right = figures.figure({"sparse": results}).axes[1]
    assert len(right.containers) == drawn


def test_the_picture_has_the_changes_on_the_final_test_set(tmp_path: Path) -> None:
    measured(tmp_path / "frontier" / "compared", "vip", 48)
    measured(tmp_path / "sparse" / "compared", "vip", 16)
    above, _, below, _ = figures.figure(read.comparisons(read.done(tmp_path))).axes
    titles = [axes.get_title(loc="left") for axes in (above, below)]
    assert titles == ["frontier: final test set", "sparse: final test set"]
    assert [float(axes.containers[0].lines[0].get_xdata()[0]) for axes in (above, below)] == [0.25, -0.25]


@pytest.mark.parametrize(("learn", "star"), [((4, 1), ""), ((1, 1), r"\*"), ((4, 2), r"\*"), ((2, 2), "")])
def test_a_star_marks_a_recipe_with_another_learning_rate_or_other_updates_than_grpo(
    learn: tuple[int, int], star: str, tmp_path: Path
) -> None:
    place = tmp_path / "frontier" / "compared"
    measured(place, "vip", 40)
    (place / "recipes" / "vip.yaml").write_text(f"learn: {{lr: 0.0002, minibatches: {learn[0]}, epochs: {learn[1]}}}")
    settings = read.done(tmp_path)
    text = page.page(settings)
    assert f"`vip` +0.125{star} |" in text
    assert f"**+0.125** ±.000{star} |" in text
    left, right = figures.figure(read.comparisons(settings)).axes
    inside = [bars.lines[0].get_markerfacecolor() for axes in (left, right) for bars in axes.containers]
    assert {colour == "white" for colour in inside} == {bool(star)}


def test_the_readmes_picture_is_the_last_confirmation_beside_grpo(tmp_path: Path) -> None:
    measured(tmp_path / "frontier" / "compared", "vip", 56)
    measured(tmp_path / "frontier" / "confirm-choose-slope3", "choose-slope3", 56, points=2)
    measured(tmp_path / "frontier" / "confirm-choose-pass4", "choose-pass4", 40, grpo=24, points=2)
    one, _, final = best.best_figure(read.done(tmp_path)).axes
    heights = {line.get_label(): list(line.get_ydata()) for line in one.lines if not line.get_label().startswith("_")}
    start = 76 / 256
    assert heights == {"grpo": [start, 0.375, 0.375], "choose-pass4": [start, 0.625, 0.625]}
    assert final.lines[0].get_ydata()[0] == start
    assert [text.get_text() for text in final.get_legend().get_texts()] == ["before", "grpo", "choose-pass4"]


def test_a_papers_claim_stands_beside_the_change_of_its_recipe() -> None:
    """Of 64 samples on the final test set 8 more are right than with GRPO; DARS was not run."""
    start = before([0, 6, 20, 50], samples=64)
    bench = Bench(recipes=["grpo", "xrpo"], base="grpo", seeds=2, tokens=100, points=2)

    def report(grpo: tuple[int, ...], xrpo: tuple[int, ...], final_test: BenchReport | None = None) -> BenchReport:
        """By how many of 64 samples are right in both evaluations of a run."""
        arms = [
            arm(name, *([[wins] * 4] * 2 for wins in points), samples=64)
            for name, points in (("grpo", grpo), ("xrpo", xrpo))
        ]
        return BenchReport(bench, start, start, tuple(arms), {}, (), final_test)

    table_of = claims.claims
    found = {
        # from 19 in steps: GRPO has 32 at its last evaluation, XRPO at its first
        "frontier": report((26, 32), (32, 48), final_test=report((32, 32), (40, 40))),
        "sparse": report((26, 32), (20, 24)),  # without a final test set
        "prose": report((32, 32), (32, 32)),  # GRPO, too, has them at its first
        "countdown": report((16, 10), (16, 16)),  # GRPO fell, so every recipe has as much before any step
    }
    table = table_of({name: each.to_json() for name, each in found.items()})
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert rows[0][3:] == [*found]
    assert [row[0] for row in rows[2:]] == ["xrpo", "xrpo"]
    assert rows[2][3].split()[0] == "**+0.125**"
    assert rows[2][4:] == ["—"] * 3
    assert rows[3][3:] == ["2.0 times", "not reached", "1.0 times", "—"]


def test_the_claims_of_deep_grpo_are_greedy_and_of_the_maximum_k() -> None:
    """DEEP-GRPO solves four problems in 64 samples where GRPO solves three; greedily both solve none."""
    start = before([0, 6, 20, 50], samples=64)
    bench = Bench(recipes=["grpo", "deep-grpo"], base="grpo", seeds=2, tokens=100, points=1)
    arms = (arm("grpo", [[0, 32, 32, 32]] * 2, samples=64), arm("deep-grpo", [[28] * 4] * 2, samples=64))
    found = BenchReport(
        bench, start, start, (*arms,), {}, (), BenchReport(bench, start, start, (*arms,), {}, ())
    ).to_json()
    table = claims.claims({"frontier": found})
    cells = [line.strip("| ").split(" | ")[-1].split()[0] for line in table.splitlines()[2:]]
    assert cells == ["+0.000", "+0.250"]
