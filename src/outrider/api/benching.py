"""``outrider.bench``, a Python function that compares recipes at equal budgets."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.api.frames import pandas
from outrider.config import Recipe
from outrider.errors import UserError
from outrider.plugins import refuse_main

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from outrider.bench.report import BenchReport


def bench(
    recipes: Sequence[str | Path | Recipe],
    *,
    out: str | Path | None = None,
    setting: str | None = None,
    config: Mapping[str, Any] | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    tokens: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    base: str | None = None,
    points: int | None = None,
    tune: Mapping[str, Any] | None = None,
    final_test: Mapping[str, Any] | None = None,
    at_once: int | None = None,
) -> BenchResult:
    """Train recipes with the same budget and seeds, and compare the trained policies on the same held-out problems.

    The command ``outrider bench`` calls the same code. After an interruption, the same call continues the bench.

    Args:
        recipes: names of shipped recipes, paths of YAML files, or recipes from :func:`outrider.load_recipe`.
        out: the output folder of the bench; default ``runs/bench-<recipes>``.
        setting: name of a shipped setting, or a YAML file, for all recipes. A setting defines the model, the task and
            the maximum response length.
        config: option values for all recipes, by dotted key such as ``learn.lr``.
        seeds: number of runs per recipe, with the seeds ``first_seed``, ``first_seed + 1``, and so on.
        tokens: budget of each run in generated tokens; default 1,600,000, unless the budget is given as ``steps``, or
            as ``seconds`` of training.
        base: name of the recipe with which all other recipes are compared; None: the first recipe.
        points: number of evaluations during each run, evenly spaced over the budget; None: 4, or fewer if the budget is
            small. A small budget also lowers ``evaluate.problems`` and ``evaluate.n``, unless ``config`` sets these
            options.
        tune: hyperparameters to tune for each recipe before the comparison, for example ``{"values": {"learn.lr":
            [1e-4, 2e-4]}, "tokens": 400_000}``; see :class:`outrider.bench.spec.Tune`.
        final_test: final test set, used only to evaluate the final policies, for example ``{"problems": 500}``; see
            :class:`outrider.bench.spec.FinalTest`.
        at_once: number of concurrent runs; None: one per core.

    Raises:
        UserError: an argument is invalid, the recipes cannot be compared, or ``out`` contains files that do not
            belong to this bench.
    """
    from outrider.bench.bench_command import run_bench  # imported here, since it imports PyTorch
    from outrider.bench.planned import DEFAULT_TOKENS, default_folder, planned
    from outrider.bench.spec import given_keys, load_recipes

    if isinstance(recipes, str | Path | Recipe) or not recipes:
        raise UserError("recipes is a list of at least one recipe, as in outrider.bench(['grpo', 'dr-grpo'])")
    if tokens is None and steps is None and seconds is None:
        tokens = DEFAULT_TOKENS
    options: dict[str, Any] = {
        "seeds": seeds,
        "first_seed": first_seed,
        "tokens": tokens,
        "steps": steps,
        "seconds": seconds,
    }
    options |= {"tune": tune, "final_test": final_test}
    options |= {key: value for key, value in {"base": base, "points": points}.items() if value is not None}
    named = [recipe if isinstance(recipe, Recipe) else str(recipe) for recipe in recipes]
    plan = planned(options, load_recipes(named, config or {}, setting), given_keys(named, config or {}))
    for recipe in plan.recipes.values():
        refuse_main(recipe, 2)  # each run has its own process
    folder = default_folder(plan.recipes) if out is None else Path(out)
    return BenchResult(run_bench(plan, folder, at_once), folder)


class BenchResult:
    """The result of a bench. The data frames of the result need pandas (``pip install 'outrider[notebook]'``).

    Attributes:
        path: the bench folder, with ``bench.html``, ``results.json``, ``numbers.csv`` and the runs.
        failures: one sentence per failed run.
    """

    def __init__(self, report: BenchReport, path: Path) -> None:
        self._report, self.path = report, path
        self.failures = list(report.failures)

    @cached_property
    def verdict(self) -> list[str]:
        """Sentences that say which recipe is better in which metric, and by how much, with confidence intervals. The
        most important sentence comes first."""
        from outrider.bench.verdict import verdict

        return verdict(self._report)

    @cached_property
    def table(self) -> DataFrame:
        """Each metric at the end of training: the mean over seeds, with its 95 % confidence interval. There is one row
        for the model before training, and one row per recipe."""
        arms = [self._report.before, *self._report.arms]
        return self._frame({arm.name: {q: self._report.value(arm, q) for q in self._report.quantities} for arm in arms})

    @cached_property
    def differences(self) -> DataFrame:
        """The paired difference in each metric between a recipe and ``base`` (default: the first recipe), with its 95 %
        confidence interval. There is one row per recipe except ``base``."""
        others = [arm for arm in self._report.arms if arm.name != self._report.bench.base]
        return self._frame(
            {arm.name: {q: self._report.against_base(arm, q) for q in self._report.policy} for arm in others}
        )

    def plot(self) -> Figure:
        """Plot pass@k against pass@1 during training. Two more plots show pass@1 and pass@k over generated tokens."""
        from outrider.bench.picture import frontier_figure
        from outrider.screen.notebook import show_figures

        show_figures()
        return frontier_figure(self._report)

    def _frame(self, rows: Mapping[str, Mapping[str, Any]]) -> DataFrame:
        def ends(name: str, found: Any) -> dict[str, float]:
            return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}

        flat = {
            recipe: {key: value for name, found in of.items() for key, value in ends(name, found).items()}
            for recipe, of in rows.items()
        }
        return pandas().DataFrame.from_dict(flat, orient="index")

    def __repr__(self) -> str:
        return f"BenchResult({str(self.path)!r}, {len(self._report.arms)} recipes, {len(self.failures)} failures)"

    def _repr_html_(self) -> str:
        table = html.escape((self.path / "table.md").read_text("utf-8"))
        told = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.verdict)
        return f"{told}<pre>{table}</pre>"
