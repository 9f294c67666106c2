"""The map's rule: who is compared, and with which settings."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from outrider.config import load_recipe
from study_code import study_code

code = study_code("../map")


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


ASKED = dict.fromkeys(("grpo", "dars_hw", "deep_grpo", "xrpo"), 0.0)


def test_those_asked_after_the_best_design_and_the_three_best_of_the_others() -> None:
    designs = {"invest": 0.1, "invest_pass2": 0.3, "invest_prefix": 0.2}
    found = code.chosen(tuned(**ASKED, **designs, dapo=0.3, vip=0.5, cures=0.2, ds_grpo=0.4, greso=None))
    assert found == ["grpo", "dars-hw", "deep-grpo", "xrpo", "invest-pass2", "vip", "ds-grpo", "dapo"]


def test_all_runs_of_a_recipe_count_not_its_best() -> None:
    found = tuned(**ASKED, invest=0.3, dapo=0.3, vip=0.2, cures=0.1, greso=0.1)
    found["greso"]["tried"][0]["scores"]["criterion"]["value"] = 0.4  # a mean of 0.25 and the best run of all
    assert code.chosen(found)[-3:] == ["dapo", "greso", "vip"]


@pytest.mark.parametrize("setting", code.SETTINGS)
def test_what_was_best_in_the_screen_is_what_is_compared(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a recipe has values of its own for the setting, or lies beside the studies."""
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda words, **rest: asked.append(words))
    names = [*code.ASKED, *code.DESIGNS, *code.OTHERS]
    means = {name.replace("-", "_"): 0.5 for name in names}
    code.compared(setting, names, tuned(**means), tmp_path)
    [words] = asked
    files = [word for word in words if word.endswith(".yaml")]
    assert [Path(file).stem for file in files] == names
    for file in files:
        recipe = load_recipe(file, setting=setting)
        assert (recipe.learn.lr, recipe.learn.minibatches) == (2e-4, 4)
        assert recipe.explore == load_recipe(code.named(Path(file).stem), setting=setting).explore
