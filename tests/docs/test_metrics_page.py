"""The page of metrics: it defines every metric that stages, losses, steps and runs have, and no other."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from stage_cases import CASES

from outrider.config import list_recipes, load_recipe
from outrider.learn.learner import _COUNTS, _LAST  # the learners' own names, which no public function lists
from outrider.objective.policy_loss import PolicyLoss
from outrider.runs.metric_names import with_present_names
from outrider.testing.scripted import ScriptedRun
from outrider.testing.situations import SITUATIONS
from outrider.train.metrics import step_metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/metrics.md").read_text("utf-8")
STAGES = PAGE.split("## Stages")[1].split("## Evaluations")[0]
COUNTED = re.compile(r"calibration_\d+")


def listed(cells: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cells))


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of tables, without heads."""
    lines = [line for line in text.split("\n") if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


PLAIN = set().union(*(listed(row[0]) for row in rows(PAGE.replace(STAGES, ""))))
OF_STAGES = {pair for row in rows(STAGES) for pair in itertools.product(listed(row[0]), listed(row[1]))}


def documented(name: str) -> bool:
    if name.startswith("explore/"):
        _, stage, metric = name.split("/", 2)
        stage = stage.partition("-")[2] or stage
        return (stage, COUNTED.sub("calibration_<class>", metric)) in OF_STAGES
    general = re.sub(r"^spent/[^/]+(/(?:tokens|rollouts|success_per_1000|solved_per_1000))$", r"spent/<stage>\1", name)
    return re.sub(r"unused/.+$", "unused/<reason>", general) in PLAIN


def metrics_of(case: str) -> set[str]:
    """Of a stage of the matrix, in every situation."""
    found: set[str] = set()
    for situation in SITUATIONS.values():
        stage = CASES[case].stage()
        run = ScriptedRun([stage] if CASES[case].first else [situation.before(), stage], situation)
        run.steps(2)
        found |= {name for name in run.metrics if name.startswith("explore/")}
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_metric_of_a_stage_is_defined(case: str) -> None:
    missing = sorted(name for name in metrics_of(case) if not documented(name))
    assert not missing


def test_no_metric_of_a_stage_is_defined_that_does_not_exist() -> None:
    names = set().union(*map(metrics_of, CASES))
    found = {tuple(COUNTED.sub("calibration_<class>", name).split("/", 2)[1:]) for name in names}
    known = {(stage.partition("-")[2] or stage, metric) for stage, metric in found}
    assert known >= OF_STAGES, sorted(OF_STAGES - known)


def test_every_metric_of_learning_is_defined() -> None:
    diagnostics = {"loss", "tokens", "reference_resets", "entropy_coefficient"} | _COUNTS | _LAST
    for info in list_recipes():
        recipe = load_recipe(info.name)
        diagnostics |= set(PolicyLoss(recipe.objective, recipe.sample.max_tokens).needs.diagnostics)
    assert not sorted(name for name in diagnostics if not documented(f"learn/{name}"))


def test_every_metric_of_a_step_is_defined() -> None:
    run = ScriptedRun([CASES["uniform"].stage()], SITUATIONS["turns"])
    assert not sorted(name for name in step_metrics(run.next(), 100) if not documented(name))


@pytest.mark.parametrize("version", ["run_of_0_1", "run_of_0_2"])
def test_metrics_of_older_runs_are_defined_under_present_names(version: str) -> None:
    files = [*(ROOT / "tests" / version).rglob("metrics.jsonl")]
    names = {
        name
        for file in files
        for line in file.read_text().splitlines()
        for name in with_present_names(json.loads(line))
    }
    assert names
    assert not sorted(name for name in names if not documented(name))
