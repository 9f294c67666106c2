"""Whom the map recommends, by its rule."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from map_code import BENCHMARKS, measured, tuned
from outrider.config import list_settings, load_recipe
from outrider.config.load import SettingInfo
from study_code import study_code


@pytest.fixture(scope="module")
def code() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield study_code("../map")


@pytest.fixture(scope="module")
def recommended(code: ModuleType) -> dict[str, Any]:
    """By what is committed."""
    return dict(sys.modules["_map_rule"].recommendations(code.done(code.RESULTS)))


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


@pytest.mark.parametrize(("grpo", "told"), [(32, ("vip", "next")), (40, None)])
def test_who_fails_beside_the_better_grpo_is_recommended_no_more_and_the_next_is_asked_the_same(
    code: ModuleType, tmp_path: Path, grpo: int, told: tuple[str, str] | None
) -> None:
    """A later design is ahead at both ends, but not of GRPO with better values; then whom the comparison recommends."""
    place = tmp_path / "frontier"
    (place / "screen").mkdir(parents=True)
    (place / "screen" / "results.json").write_text(json.dumps({"tuning": tuned(grpo=0.1, vip=0.2)}))

    def recommended() -> tuple[str, str] | None:
        found = sys.modules["_map_rule"].recommendations(code.done(tmp_path)).get("frontier")
        return (found[0], found[1]["part"]) if found else None

    measured(place / "compared", "vip", 40)
    measured(place / "last", "choose-slope3", 40, grpo=0)
    assert recommended() == ("choose-slope3", "last")
    measured(place / "better", "choose-slope3", 40, grpo=40)
    assert recommended() == ("vip", "compared")
    measured(place / "next", "vip", 40, grpo=grpo)
    assert recommended() == told
    if told is None:  # nor is anybody else from the comparison
        results = place / "compared" / "results.json"
        found = json.loads(results.read_bytes())
        found["untouched"]["recipes"]["dapo"] = found["untouched"]["recipes"]["vip"]
        results.write_text(json.dumps(found))
        assert recommended() is None


@pytest.mark.parametrize("info", list_settings(), ids=lambda info: info.name)
def test_a_setting_recommends_whom_the_map_does(
    code: ModuleType, recommended: dict[str, Any], info: SettingInfo
) -> None:
    """Who trains it then trains what was compared."""
    told = recommended.get(info.name)
    assert info.recommended == (told[0] if told else "")
    if told:
        shipped = load_recipe(info.recommended, info.values, setting=info.name)
        compared = load_recipe(str(code.RESULTS / info.name / told[1]["part"] / "recipes" / f"{told[0]}.yaml"))
        for part in ("model", "task", "sample", "explore", "credit", "objective", "reward", "learn"):
            assert getattr(shipped, part) == getattr(compared, part), part
        assert shipped.train.tokens == told[1]["bench"]["tokens"]
