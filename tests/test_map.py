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
    """What the screen finds: for each recipe something worse, something that failed, and its best."""

    def tried(lr: float, mean: float | None) -> dict[str, Any]:
        scores = None if mean is None else {"criterion": {"value": mean}}
        return {"values": {"learn.lr": lr, "learn.minibatches": 4}, "failed": 0, "scores": scores}

    return {
        name.replace("_", "-"): {
            "tried": [tried(1e-4, 0.01), tried(5e-4, None), tried(2e-4, mean)],
            "chosen": {"learn.lr": 2e-4, "learn.minibatches": 4},
        }
        for name, mean in means.items()
    }


ASKED = dict.fromkeys(("grpo", "invest", "dars_hw", "deep_grpo", "xrpo"), 0.0)


def test_those_asked_after_and_the_three_best_of_the_others() -> None:
    found = code.chosen(tuned(**ASKED, dapo=0.3, vip=0.5, cures=0.2, ds_grpo=0.4))
    assert found == ["grpo", "invest", "dars-hw", "deep-grpo", "xrpo", "vip", "ds-grpo", "dapo"]


@pytest.mark.parametrize("setting", code.SETTINGS)
def test_what_was_best_in_the_screen_is_what_is_compared(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a recipe has values of its own for the setting, or lies beside the studies."""
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda words, **rest: asked.append(words))
    names = [*code.ASKED, *code.OTHERS]
    means = {name.replace("-", "_"): 0.5 for name in names}
    code.compared(setting, names, tuned(**means), tmp_path)
    [words] = asked
    files = [word for word in words if word.endswith(".yaml")]
    assert [Path(file).stem for file in files] == names
    for file in files:
        recipe = load_recipe(file, setting=setting)
        assert (recipe.learn.lr, recipe.learn.minibatches) == (2e-4, 4)
        assert recipe.explore == load_recipe(code.named(Path(file).stem), setting=setting).explore
