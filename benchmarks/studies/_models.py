"""The models of the studies of the STILL report (arXiv 2508.07534): the base, a longer SFT, and runs of RL.

What lies in the folder of runs is taken as it is, the rest is made by ``outrider``: 2 minutes of a core for a run of
1.2 M tokens, 5 for the SFT. A folder of runs is shared by the studies; an analysis lies beside the run that it is of.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from _study import arguments, outrider_command

from outrider.analyse.folder import AnalysisFolder
from outrider.cli import main
from outrider.tasks.countdown import Countdown

BASE = "base:countdown"
SEEDS = (0, 1, 2)
_EVALUATE = ("evaluate.problems=300", "evaluate.n=64", "evaluate.greedy=false")
UPDATES = 5  # between the checkpoints of a run, of which the last two of these and the end are kept
_SAVE = (f"train.save_every={UPDATES}", "train.keep=3")
_TRAIN = ("train.tokens=1200000", "train.ranks=1", "evaluate.before=false", *_SAVE)


class Asked(NamedTuple):
    """The runs of a setting: seeds, what each is trained and evaluated with, the number of responses per step whose
    tokens are replaced, and whether there are also runs of pass@k training."""

    seeds: tuple[int, ...]
    train: tuple[str, ...]
    evaluate: tuple[str, ...]
    replaced: int = 24
    passk: bool = True


SETTINGS = {
    "countdown": Asked(SEEDS, _TRAIN, _EVALUATE),
    "prose": Asked(SEEDS, _TRAIN, _EVALUATE),
    # an hour of a core per run; seed 2 is one of the runs of docs/language-models.md
    "smollm2": Asked(
        (2,), ("train.ranks=1", "learn.lr=2e-5", "train.tokens=200000", *_SAVE), (), replaced=8, passk=False
    ),
}


def arguments_with_runs(docstring: str | None) -> argparse.ArgumentParser:
    """The command line of a study with models: ``--out`` and ``--runs``."""
    parser = arguments(docstring)
    place = Path("runs/study-still")
    parser.add_argument("--runs", type=Path, default=place, metavar="DIR", help="models, runs and analyses; kept")
    return parser


def arguments_with_setting(docstring: str | None) -> argparse.ArgumentParser:
    """As well with the setting whose runs are asked."""
    parser = arguments_with_runs(docstring)
    parser.add_argument("--setting", choices=tuple(SETTINGS), default="countdown", help="(default: %(default)s)")
    return parser


def suffix(setting: str) -> str:
    """What tells files and runs of another setting than Countdown apart.

    >>> suffix("countdown"), suffix("prose")
    ('', '_prose')
    """
    return "" if setting == "countdown" else f"_{setting}"


def longer_sft(runs: Path, steps: int = 3000, seed: int = 2, task: Countdown | None = None) -> Path:
    """The base, trained on for half as many steps again as it had, at half its learning rate: on new problems of
    its own task, or on another one."""
    model = runs / "sft"
    if not model.exists():
        learnt = {"countdown": (task or Countdown(seed=seed)).model_dump(mode="json")}
        learn = ("learn.lr=1e-3", "learn.betas=[0.9, 0.999]", "learn.weight_decay=0")
        outrider_command("sft", json.dumps(learnt), f"base={BASE}", f"steps={steps}", *learn, "--out", model)
    return model


def trained(runs: Path, name: str, recipe: str, seed: int, *overrides: str, setting: str = "countdown") -> Path:
    """The run ``name-seed`` of a recipe with the budget of :data:`SETTINGS` and an evaluation, unless overridden.

    One that was interrupted goes on.
    """
    run = runs / f"{name}{suffix(setting)}-{seed}"
    last = "model" if "evaluate.after=false" in overrides else "table.md"  # what a run writes last
    if not (run / last).exists():
        of = SETTINGS[setting]
        asked = [f"seed={seed}", "--setting", setting, *of.train, *of.evaluate, *overrides]
        command("train", recipe, *asked, "--out", run, *(["--resume"] if run.exists() else []))
    return run


def evaluated(runs: Path, name: str, model: str | Path, *overrides: str) -> Path:
    """64 samples of each of 300 held-out problems, kept as a run without steps; one that was interrupted is refused."""
    run = runs / name
    if not (run / "table.md").exists():
        asked = ["--task", "countdown", *_EVALUATE, "sample.max_tokens=96", *overrides]
        command("evaluate", model, *asked, "--out", run)
    return run


def analysed(runs: Path, kind: str, name: str, run: Path, *asked: object) -> Any:
    """The table of ``outrider analyse KIND RUN``; one that was interrupted goes on, a finished one is read."""
    place = runs / f"{kind}-{name}"
    command("analyse", kind, run, *asked, "--out", place)
    return AnalysisFolder(place).table()


def command(*words: object) -> None:
    """A command in this process, since a dozen of them would spend a minute on imports; its failure is ours."""
    if status := main([str(word) for word in words]):
        sys.exit(status)
