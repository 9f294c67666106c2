"""``outrider.train``, a Python function that trains a policy with a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.api.arguments import RecipeArguments, folder_of, recipe_of
from outrider.api.rewards import InProcess, SumInProcess
from outrider.api.run import Run
from outrider.api.session import Callback, Session
from outrider.config import Recipe
from outrider.errors import UserError
from outrider.explore import Stage
from outrider.plugins import refuse_main


def train(
    recipe: str | Path | Recipe = "grpo",
    *,
    setting: str | None = None,
    model: Any = None,
    data: Any = None,
    eval_data: Any = None,
    prompt: str | None = None,
    reward: Any = None,
    reward_weights: Sequence[float] | None = None,
    success_at: float | None = None,
    environment: Any = None,
    stages: Sequence[Stage | str | Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train a policy with a recipe, and return the run.

    The command ``outrider train`` calls the same code, so the same options give the same weights. A run started from
    Python has one process unless ``config={"train.ranks": n}`` requests more processes.

    Args:
        recipe: a shipped recipe, a YAML file, or a recipe from :func:`outrider.load_recipe`.
        setting: name of a setting, or a YAML file. A setting defines the model, the task, the maximum response length
            and the number of training tokens.
        model: a folder, a hub name, or one of Outrider's base models, such as ``"base:countdown"``. A pair ``(model,
            tokenizer)`` from transformers is also accepted, and is written to ``data/`` next to the run folder. If you
            specify ``model`` but no ``setting``, ``data`` is required. The maximum response length and the learning
            rate are then those of the recipe.
        data: training problems: a path, ``hf:name``, a list of dicts, a pandas or polars frame, a ``datasets.Dataset``,
            or a task. Rows are written to ``data/`` next to the run folder.
        eval_data: held-out problems, in any form that ``data`` accepts; required unless ``data`` is a task.
        prompt: prompt template in which ``{column}`` stands for the row's value in that column, or the name of a
            shipped template.
        reward: a function ``(problem, completion)`` that returns a number or a verdict, or a function with TRL's
            signature ``(completions, **columns)``. A verifier is also accepted, by name (``"math"``) or with options.
            A function from a notebook is called in this process, without a time limit. A list of rewards becomes a
            weighted sum.
        reward_weights: weights of the rewards in a list; default: 1 for each reward.
        success_at: minimum score at which a response counts as correct; default 1. The score is the value of the reward
            function or, for a list of rewards, their weighted sum.
        environment: the environment class, or its import path; see ``docs/environments.md``.
        stages: exploration stages (components that decide how many rollouts each problem gets) to run after the
            recipe's own stages.
        config: option values by dotted key, such as ``{"learn.lr": 1e-6}``; these values override the arguments above.
        out: the run folder; default ``runs/<recipe>-<seed>``.
        resume: whether to continue from the last checkpoint in the run folder.
        force: whether to train even if the run is estimated not to fit into memory, and to resume even if the
            configuration has changed.
        callbacks: hooks that are called after steps and evaluations; only for runs with one process; see
            :class:`outrider.Callback`.

    Raises:
        UserError: an argument is invalid; the message names the recipe key that the argument sets.

    >>> import outrider, tempfile
    >>> small = {"train.problems": 2, "train.tokens": None, "train.steps": 1, "evaluate.problems": 2, "evaluate.n": 2}
    >>> run = outrider.train("grpo", config=small, out=tempfile.mkdtemp())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    grpo on held-out countdown ...
    >>> len(run.metrics), len(run.rollouts()), len(run.evaluations)  # 2 problems of 8 rollouts; before and after
    (1, 16, 2)
    """
    arguments: RecipeArguments = {
        "setting": setting,
        "model": model,
        "data": data,
        "eval_data": eval_data,
        "prompt": prompt,
        "reward": reward,
        "reward_weights": reward_weights,
        "success_at": success_at,
        "environment": environment,
        "stages": stages,
        "config": config,
        "out": out,
    }
    if callbacks:
        with Session(recipe, resume=resume, force=force, callbacks=callbacks, **arguments) as session:
            for _ in session:
                pass
        return session.run
    made = recipe_of(recipe, **arguments)
    place = folder_of(made, out)
    from outrider.commands.train_command import train_command  # imported here, since it imports PyTorch

    refuse_main(made, made.train.ranks)
    if made.train.ranks != 1 and isinstance(_verifier(made.task), InProcess | SumInProcess):
        raise UserError(
            "reward is a function that this process alone has, and train.ranks asks for others: put it into a module"
        )
    train_command(made, place, resume, force)
    return Run(place)


def _verifier(task: Any) -> Any:
    """Return the verifier of a task; None if the task has none."""
    return getattr(getattr(task, "problems", task), "verifier", None)
