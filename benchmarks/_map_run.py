"""Run the benches of the map, each in a process of its own, and keep what is committed of them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from _finished import unpack
from _map_plan import POOLS, Bench, candidates

from outrider.config import load_recipe
from outrider.tasks.heldout import Order

RECIPES = Path(__file__).parent / "studies" / "recipes"
FINISHED = "finished.tar.xz"
KEPT = ("bench.yaml", "frontier.png", "numbers.csv", "page.md", "table.md", "tallies.csv")
TOKENS = {"prose": 2_400_000}
SCREENS = {"prose": ("1e-4", 2, 300)}
"""Learning rates, seeds and problems of a screen that has others than the rest."""


def screened(setting: str, kept: Path, out: Path) -> Mapping[str, Any]:
    """The screen: what was tried of each recipe, and what was best. The bench's own runs have one step."""
    if not (kept / "results.json").exists():
        unpack(kept / FINISHED, out)
        rates, seeds, problems = SCREENS.get(setting, ("1e-4,2e-4", 1, 150))
        words: list[object] = ["--setting", setting, *overrides(setting, "drawn")]
        words += ["evaluate.n=64", "evaluate.problems=300"]  # a bench of one step would lower them
        words += ["--seeds", 1, "--steps", 1, "--points", 1]
        words += ["--tune", f"learn.lr={rates}", "--tune", "learn.minibatches=1,4", "--tune-by", "mean"]
        words += ["--tune-seeds", seeds, "--tune-tokens", "1200000", "--tune-problems", problems]
        run_bench([*map(recipe_path, candidates(setting))], *words, "--out", out)
        keep(out, kept)
    found: Mapping[str, Any] = json.loads((kept / "results.json").read_bytes())["tuning"]
    return found


def measured(setting: str, bench: Bench, tuned: Mapping[str, Any], kept: Path, runs: Path) -> None:
    """A comparison or a confirmation, one seed after another, so that an unfinished bench has whole seeds."""
    if (kept / "results.json").exists():
        return
    out = runs / bench.folder
    files = [str(recipe_file(setting, name, bench, tuned, runs / "recipes")) for name in bench.recipes]
    unpack(kept / FINISHED, out)
    words = ["--setting", setting, *overrides(setting, bench.order), "--tokens", TOKENS.get(setting, 3_600_000)]
    words += ["--points", 4, "--first-seed", bench.first_seed]
    words += ["--final-test", bench.problems, "--final-test-skip", bench.skip]
    begun = out / "bench.yaml"
    fewest = yaml.safe_load(begun.read_text("utf-8"))["seeds"] if begun.is_file() else 1  # a bench takes no fewer
    for seeds in range(fewest, bench.seeds + 1):
        run_bench(files, *words, "--seeds", seeds, "--out", out)
    keep(out, kept)


def recipe_file(setting: str, name: str, bench: Bench, tuned: Mapping[str, Any], folder: Path) -> Path:
    """A file with the recipe at its hyperparameters in the bench."""
    if bench.hyperparameters is None:
        values = {key.removeprefix("learn."): value for key, value in tuned[name]["chosen"].items()}
    else:
        values = dict(zip(("lr", "minibatches"), bench.hyperparameters, strict=True))
    file = folder / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"extends": recipe_path(name), "settings": {setting: {"learn": values}}}))
    learn = load_recipe(str(file), setting=setting).learn
    if (learn.lr, learn.minibatches) != (values["lr"], values["minibatches"]):
        sys.exit(f"{file} resolves to {learn.lr} and {learn.minibatches}, not to {values}")
    return file


def overrides(setting: str, order: Order) -> tuple[str, str]:
    """For all recipes of a bench."""
    return f"task.pool={POOLS[setting]}", f"task.heldout_order={order}"


def recipe_path(name: str) -> str:
    """The name of a shipped recipe; the path of one that lies beside the studies.

    >>> recipe_path("grpo"), Path(recipe_path("deep-lambda-0.1")).name
    ('grpo', 'deep-lambda-0.1.yaml')
    """
    file = RECIPES / f"{name}.yaml"
    return os.path.relpath(file) if file.exists() else name


def run_bench(recipes: Sequence[str], *words: object) -> None:
    """A bench in a process of its own. A bench with failed runs is a result, whose page names them."""
    here = os.environ | {"OMP_NUM_THREADS": "1"}
    status = subprocess.call([sys.executable, "-m", "outrider", "bench", *recipes, *map(str, words)], env=here)
    if status > 1 or status < 0:
        sys.exit(status)


def keep(found: Path, out: Path) -> None:
    """Copy what is committed of a bench: numbers, pages and recipes, without the runs and this machine's paths.

    The page's command is for the folder in which it is committed, where every recipe lies as it was run: whole, so that
    it takes no setting and no override. The results keep both.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copy(found / name, out / name)
    shutil.copytree(found / "recipes", out / "recipes", dirs_exist_ok=True)
    results = json.loads((found / "results.json").read_bytes())
    _, *words = results["environment"]["command"]
    values = words.index("--setting")
    recipes = [f"recipes/{Path(word).stem}.yaml" for word in words[1:values]]
    budget = ["runs" if word == str(found) else word for word in words[values + 4 :]]  # behind setting and overrides
    text = (out / "page.md").read_text("utf-8")
    was, now = (shlex.join(["outrider", *asked]) for asked in (words, ["bench", *recipes, *budget]))
    if was not in text:
        sys.exit(f"{found / 'page.md'} does not name the bench's command: {was}")
    (out / "page.md").write_text(text.replace(was, now), "utf-8")
    results["environment"]["command"] = ["outrider", "bench", *recipes, *words[values : values + 4], *budget]
    # last: where it is, the bench is done
    (out / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    (out / FINISHED).unlink(missing_ok=True)
