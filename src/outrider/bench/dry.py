"""Describes the runs of a planned bench (a comparison of recipes) and the number of tokens that the runs generate. The
number is also printed when the bench starts."""

from __future__ import annotations

from outrider.bench.planned import Planned
from outrider.bench.proportion import MOST, evaluation_share
from outrider.bench.spec import Bench
from outrider.config import Recipe, dump_yaml
from outrider.preflight.recipe_warnings import recipe_warnings


def plan(planned: Planned) -> str:
    """Return a text with the cost, the warnings, and the settings in the format of ``bench.yaml``."""
    bench, recipes, _ = planned
    warned = [f"warning: {name}: {warning}" for name, recipe in recipes.items() for warning in recipe_warnings(recipe)]
    return "\n".join([*costs(planned), *warned, "", dump_yaml(bench.model_dump(mode="json"))])


def costs(planned: Planned) -> list[str]:
    """Return the numbers of runs and tokens: one line for training, and one line for each kind of evaluation.

    For training, the number of tokens is the budget, which a run's last step may exceed. The number of evaluation
    tokens is at most the number of responses times ``sample.max_tokens``, and usually only a fraction of this bound.
    """
    bench, recipes, notice = planned
    runs = len(bench.recipes) * bench.seeds
    recipe = recipes[bench.base]
    begun = f" from {bench.first_seed} on" if bench.first_seed else ""
    lines = [
        f"training: {runs} runs ({', '.join(bench.recipes)}; {bench.seeds} seeds{begun}), "
        + (
            f"{runs} x {bench.tokens:,} = {runs * bench.tokens:,} generated tokens"
            if bench.tokens
            else f"{bench.budget:,.10g} {bench.unit} each; the number of tokens is unknown"
        ),
        f"evaluation: {_times(bench.points)} per run and twice before training, "
        + _evaluation(recipe, runs * bench.points + 2, recipe.evaluate.problems),
    ]
    if (tune := bench.tune) is not None:
        runs_before = len(bench.recipes) * len(tune.candidates) * tune.seeds
        values = " x ".join(f"{key} in {', '.join(map(str, each))}" for key, each in tune.values.items())
        lines += [
            f"tuning: {runs_before} runs before the comparison ({values}; {tune.seeds} seeds per recipe and value), "
            f"{runs_before} x {tune.tokens:,} = {runs_before * tune.tokens:,} generated tokens",
            f"evaluation for tuning: once per run, {_evaluation(recipe, runs_before, tune.problems)}",
        ]
    if (last := bench.final_test) is not None:
        lines.append(f"evaluation on the final test set: once per run, {_evaluation(recipe, runs + 1, last.problems)}")
    return lines + [notice] * bool(notice) + _out_of_proportion(bench, recipe)


def _out_of_proportion(bench: Bench, recipe: Recipe) -> list[str]:
    share = evaluation_share(bench, recipe)
    if share is None or share <= MOST:
        return []
    return [
        f"warning: evaluation takes up to {share:.0f} times the tokens of training; lower --points, evaluate.problems "
        "or evaluate.n"
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _evaluation(recipe: Recipe, times: int, problems: int) -> str:
    responses = problems * (recipe.evaluate.n + recipe.evaluate.greedy)
    most = times * responses * recipe.sample.max_tokens
    return f"{times} x {responses:,} responses of at most {recipe.sample.max_tokens:,} tokens: at most {most:,}"
