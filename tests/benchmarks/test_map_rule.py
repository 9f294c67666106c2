"""Which recipe the map recommends in a setting: that of its last confirmation, if it is confirmed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from map_code import PENDING, RESULTS, map_code, measured

from outrider.config import list_settings, load_recipe
from outrider.config.load import SettingInfo
from outrider.estimate.auto import choose, with_values

plan, read, rule = map(map_code, ("_map_plan", "_map_read", "_map_rule"))
SETTINGS = read.done(RESULTS)


def confirmation(**changes: tuple[float, float]) -> dict[str, Any]:
    """Of ``vip`` beside GRPO: each change on the final test set with half of its interval."""

    def estimate(value: float, half: float) -> dict[str, float | None]:
        found = {"value": value, "low": value - half, "high": value + half, "error": half / 2}
        return {name: None if math.isnan(each) else each for name, each in found.items()} | {"seeds": 5, "problems": 9}

    told = {name.replace("pass", "pass@"): estimate(*each) for name, each in changes.items()}
    return {
        "before": {"pass@1": {}, "pass@8": {}, "pass@64": {}},
        "recipes": {"grpo": {}, "vip": {}},
        "untouched": {"recipes": {"grpo": {}, "vip": {"minus_base": told}}},
    }


@pytest.mark.parametrize(
    ("one", "most", "confirmed"),
    [
        ((0.04, 0.01), (0.00, 0.03), True),
        ((-0.01, 0.02), (0.06, 0.02), True),
        ((0.04, 0.01), (0.06, 0.02), True),
        ((0.04, 0.05), (0.03, 0.04), False),  # higher by less than the noise
        ((0.09, 0.01), (-0.04, 0.03), False),  # significantly lower in pass@64
        ((-0.02, 0.01), (0.06, 0.02), False),  # and in pass@1
        ((0.04, 0.01), (math.nan, math.nan), False),
    ],
)
def test_a_confirmed_recipe_is_significantly_higher_in_one_and_lower_in_neither(
    one: tuple[float, float], most: tuple[float, float], confirmed: bool
) -> None:
    """pass@8 has no part in it."""
    found = confirmation(pass1=one, pass8=(-0.5, 0.1), pass64=most)
    assert rule.confirmed(found) is confirmed
    assert rule.recommended(read.Setting({}, (found,))) == ("vip" if confirmed else "")


def test_a_confirmation_without_a_final_test_set_confirms_nothing() -> None:
    assert not rule.confirmed(confirmation(pass1=(0.1, 0.01), pass64=(0.1, 0.01)) | {"untouched": None})


def test_the_last_confirmation_of_a_setting_counts(tmp_path: Path) -> None:
    """On frontier that of choose-pass4; without a confirmation no recipe is recommended."""

    def recommended() -> str:
        return rule.recommended(read.done(tmp_path)["frontier"])

    place = tmp_path / "frontier"
    measured(place / "compared", "vip", 40)
    assert recommended() == ""
    measured(place / "confirm-choose-slope3", "choose-slope3", 40)
    assert recommended() == "choose-slope3"
    measured(place / "confirm-choose-pass4", "choose-pass4", 24)
    assert recommended() == ""
    measured(place / "confirm-choose-pass4", "choose-pass4", 48)
    measured(place / "confirm-choose-slope3", "choose-slope3", 24)
    assert recommended() == "choose-pass4"


def test_a_setting_needs_a_finished_bench_and_no_comparison(tmp_path: Path) -> None:
    (tmp_path / "countdown" / "compared").mkdir(parents=True)  # it has packed runs
    assert read.done(tmp_path) == {}
    measured(tmp_path / "countdown" / "confirm-prefix-replay", "prefix-replay", 40)
    setting = read.done(tmp_path)["countdown"]
    assert setting.comparison is None
    assert rule.recommended(setting) == "prefix-replay"


@pytest.mark.parametrize("info", [each for each in list_settings() if each.name not in PENDING], ids=lambda i: i.name)
def test_a_setting_recommends_the_recipe_that_the_map_recommends(info: SettingInfo) -> None:
    """As it was confirmed: the recipe in the setting is that of the bench."""
    setting = SETTINGS.get(info.name)
    name = rule.recommended(setting) if setting else ""
    assert info.recommended == name
    if setting and name:
        found = setting.confirmations[-1]
        shipped = load_recipe(name, info.values, setting=info.name)
        compared = load_recipe(str(RESULTS / info.name / found["folder"] / "recipes" / f"{name}.yaml"))
        # what is auto now was a number then
        shipped = with_values(shipped, choose(shipped, None, recorded=compared).values)
        for part in ("model", "task", "sample", "explore", "credit", "objective", "reward", "learn"):
            assert getattr(shipped, part) == getattr(compared, part), part
        assert shipped.train.tokens == found["bench"]["tokens"]
