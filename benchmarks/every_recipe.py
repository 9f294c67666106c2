"""Does every shipped recipe train on Countdown, and is its run reported? Two small steps of each: finite, moved
weights, all rollouts verified, a page without options.

Usage: ``python benchmarks/every_recipe.py [RECIPE …]``. Writes ``results/every_recipe.json`` when all are run. Whether
a recipe *learns* is a question of tokens and seeds, and for ``outrider bench``.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from _machine import keep
from safetensors.numpy import load_file

from outrider.commands.train_command import train_command
from outrider.config import list_recipes, load_recipe
from outrider.record.store import RolloutStore
from outrider.report.report_command import report_command

SMALL = [
    "train.problems=8",
    "train.tokens=null",
    "train.steps=2",
    "train.trackers=[]",
    "train.ranks=1",
    "task.countdown.sizes=[3]",  # about a third is solved, so that groups are mixed
    "evaluate.before=false",
    "evaluate.after=false",
    "learn.warmup=0 steps",
]


def trained(name: str, folder: Path) -> dict[str, float]:
    """Numbers of the last step of a small run of a recipe, which is reported.

    Raises:
        AssertionError: it does not train, or leaves a rollout without a verdict.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert train_command(load_recipe(name, SMALL), folder) == 0, name
        assert report_command(folder) == 0, name
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    store = RolloutStore(folder / "rollouts")
    for row in rows:
        rollouts = store.read(row["step"])
        assert math.isfinite(row["learn/loss"]), (name, row)
        assert row["learn/grad_norm"] > 0, (name, row)
        assert row["step_tokens"] == sum(len(r.token_ids) for r in rollouts), name
        assert all(r.verdict is not None and (r.advantage is not None or r.unused) for r in rollouts), name
    before = load_file(str(files("outrider") / "base/countdown/model.safetensors"))
    after = load_file(folder / "model" / "model.safetensors")
    assert any((before[key] != after[key]).any() for key in before), name
    return {key: rows[-1][key] for key in ("tokens", "rollouts", "learn/grad_norm", "learn/updates")}


def main(names: list[str]) -> None:
    """Train every recipe, or those named."""
    found = {}
    for name in names or [info.name for info in list_recipes()]:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = trained(name, Path(folder) / "run")
        print(name, found[name], flush=True)
    if not names:
        keep("every_recipe", {"overrides": SMALL, "recipes": found})


if __name__ == "__main__":
    main(sys.argv[1:])
