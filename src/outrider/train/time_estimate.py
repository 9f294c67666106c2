"""A first estimate of a run's time, from short responses that are sampled and thrown away."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.config import Recipe
from outrider.learn.options import Tinker
from outrider.model.places import local_config
from outrider.record.row import row_of
from outrider.sample.options import Vllm
from outrider.tasks.turn_task import TurnTask
from outrider.train.decoder_shape import shape_of
from outrider.train.memory import most_rollouts

PROBLEMS, TOKENS = 8, 32
"""Problems of the probe, and tokens of a response."""
BACKWARD = 3
"""A forward and a backward pass take about as long as three forward ones."""
LARGEST = 50_000_000
"""Parameters of the largest model that is probed on a CPU: beyond, the probe itself takes minutes."""


class Rates(NamedTuple):
    """Seconds per generated token of one process, by phase, and the tokens that they were measured on."""

    sample: float
    verify: float
    learn: float
    other: float
    tokens: int

    def of_a_token(self) -> dict[str, float]:
        return {"sample": self.sample, "verify": self.verify, "learn": self.learn, "other": self.other}


class Amounts(NamedTuple):
    """The most generated tokens of a run: of training (None without a limit of steps or tokens), and of evaluations.

    ``unbounded`` names the stages whose rollouts ``training`` leaves out, since a recipe does not bound them.
    """

    training: int | None
    evaluation: int
    evaluations: int
    unbounded: tuple[str, ...] = ()


def amounts(recipe: Recipe) -> Amounts:
    """The most tokens of a run. Evaluations by step count the steps of the longest responses, so they are the fewest;
    with ``train.seconds`` alone there are none to count."""
    train, evaluate = recipe.train, recipe.evaluate
    rollouts, unbounded = most_rollouts(recipe.explore, train.problems)
    step_tokens = max(rollouts * recipe.sample.max_tokens, 1)
    limits = [train.tokens, None if train.steps is None else train.steps * step_tokens]
    training = min((limit for limit in limits if limit is not None), default=None)
    steps = 0 if training is None else max(training // step_tokens, 1)
    by_step = steps // train.evaluate_every if train.evaluate_every else 0
    count = evaluate.before + evaluate.after + len(train.evaluate_at) + by_step
    responses = count * evaluate.problems * (evaluate.n + evaluate.greedy)
    stages = () if train.tokens == training else tuple(unbounded)
    return Amounts(training, responses * recipe.sample.max_tokens, count, stages)


def amount_lines(recipe: Recipe) -> list[str]:
    """The tokens of a run, evaluation included, in sentences."""
    most, evaluate = amounts(recipe), recipe.evaluate
    samples = f"{evaluate.n} samples" + (" and a greedy one" if evaluate.greedy else "")
    lines = []
    if most.training is not None:
        more = f", and those of {' and '.join(most.unbounded)}, which have no bound" if most.unbounded else ""
        lines = [f"training: at most {most.training:,} generated tokens{more}"]
    if recipe.train.seconds is not None:
        lines += [f"training: at most {recipe.train.seconds:g} seconds, without evaluating and saving"]
    if not most.evaluations:
        return [*lines, "evaluation: none"]
    each = f"{evaluate.problems:,} problems with {samples}"
    most_tokens = f"at most {most.evaluation:,} generated tokens beside those of training"
    # shorter responses make more steps of the same tokens, and so more evaluations
    by_step = recipe.train.evaluate_every > 0 and recipe.train.steps is None
    more = ", and more by train.evaluate_every if responses end earlier" if by_step else ""
    return [*lines, f"evaluation: {most.evaluations} of {each}, {most_tokens}{more}"]


def time_line(recipe: Recipe, processes: int) -> str:
    """The time of a run in one sentence, or why there is no estimate.

    Raises:
        UserError: the probe ends as the run would.
    """
    if (why := _no_probe(recipe)) is not None:
        return f"time: no estimate, since {why}"
    rates = _measured(recipe, processes)
    if rates is None:
        return "time: no estimate, since the probe generated no token"
    return estimate(recipe, rates, processes)


def estimate(recipe: Recipe, rates: Rates, processes: int) -> str:
    """The time of a run at these rates, in one sentence."""
    from outrider.screen.progress import clock_text  # not at the top: what prints a recipe needs no rich

    most, limit = amounts(recipe), recipe.train.seconds
    parts = {name: seconds * (most.training or 0) / processes for name, seconds in rates.of_a_token().items()}
    training = sum(parts.values())
    told = ", ".join(f"{name} {clock_text(seconds)}" for name, seconds in parts.items())
    if limit is not None and (most.training is None or limit < training):
        training, told = limit, "train.seconds"
    evaluation = (rates.sample + rates.verify) * most.evaluation / processes
    bounded = " at most" if training == limit or not most.unbounded else ""
    return (
        f"time: about {clock_text(training + evaluation)}{bounded} (rough: from {rates.tokens:,} tokens of one "
        f"process, for {processes}): training {clock_text(training)} ({told}), evaluation {clock_text(evaluation)}"
    )


def _no_probe(recipe: Recipe) -> str | None:
    """Why nothing is measured."""
    import torch  # not at the top: a dry run goes without torch where there is none

    if isinstance(recipe.engine.learner, Tinker) or isinstance(recipe.engine.sampler, Vllm):
        return "the probe measures the local engines alone"
    if isinstance(recipe.task, TurnTask) and not recipe.task.trusted:
        return "the probe would run the task's environments"
    if torch.cuda.is_available():
        return None
    shape = shape_of(local_config(recipe.model) or {})
    if shape is None or shape.parameters > LARGEST:
        return f"the model has over {LARGEST:,} parameters, or a number that is not known, and there is no GPU"
    return None


def _measured(recipe: Recipe, processes: int) -> Rates | None:
    """The rates of short responses to a few problems; None where no token was generated."""
    import torch  # not at the top: a dry run goes without torch where there is none

    from outrider.train.clock import Clock
    from outrider.train.engines import open_policy
    from outrider.train.ranks import Ranks
    from outrider.train.run import build

    short = recipe.sample.model_copy(update={"max_tokens": min(TOKENS, recipe.sample.max_tokens)})
    probed, ranks, clock = recipe.model_copy(update={"sample": short}), Ranks(), Clock()
    policy, _ = open_policy(probed, ranks)
    threads = torch.get_num_threads()
    if processes > 1:
        torch.set_num_threads(1)  # as each of them has
    trainer = build(probed, policy, ranks, clock)
    problems = min(PROBLEMS, recipe.train.problems)
    try:
        trainer.explorer.prepare()
        with clock.phase("other"):
            trainer.hand_over(0)  # which also makes what is made once
        clock.take()
        with clock.phase("other"):
            groups, _ = trainer.explorer.explore(1, problems, trainer.collect, 0.0)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        rows = [row_of(r, np.zeros(r.trainable_tokens), r.prompt_ids) for r in rollouts]
        trainer.learner.logprobs(rows)  # the first pass pays for memory that the others find
        with clock.phase("learn"):
            trainer.learner.logprobs(rows)
        seconds = clock.take()
    finally:
        torch.set_num_threads(threads)
        trainer.collect.sampler.close()
        recipe.task.close()
    tokens = sum(group.generated_tokens for group in groups)
    if not tokens:
        return None
    of = {name: seconds.get(name, 0.0) / tokens for name in ("sample", "verify", "learn", "other")}
    return Rates(of["sample"], of["verify"], BACKWARD * recipe.learn.epochs * of["learn"], of["other"], tokens)
