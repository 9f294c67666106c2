"""A first estimate of a run's time, from short responses that are sampled and thrown away."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.config import Recipe
from outrider.learn.options import Tinker
from outrider.record.row import row_of
from outrider.sample.options import Vllm

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

    @property
    def step(self) -> float:
        return self.sample + self.verify + self.learn + self.other


class Amounts(NamedTuple):
    """The most generated tokens of a run: of training, and of all its evaluations."""

    training: int
    evaluation: int
    evaluations: int


def amounts(recipe: Recipe, step_tokens: int) -> Amounts:
    """The most tokens of a run; ``step_tokens`` are the most of one step. Evaluations by step count the steps that
    this makes, so they are the fewest."""
    train, evaluate = recipe.train, recipe.evaluate
    limits = [train.tokens, None if train.steps is None else train.steps * step_tokens]
    training = min((limit for limit in limits if limit is not None), default=0)
    steps = min(train.steps or training // max(step_tokens, 1), max(training // max(step_tokens, 1), 1))
    by_step = steps // train.evaluate_every if train.evaluate_every else 0
    count = evaluate.before + evaluate.after + len(train.evaluate_at) + by_step
    responses = count * evaluate.problems * (evaluate.n + evaluate.greedy)
    return Amounts(training, responses * recipe.sample.max_tokens, count)


def amount_lines(recipe: Recipe, step_tokens: int) -> list[str]:
    """The tokens of a run, evaluation included, in sentences."""
    most, evaluate = amounts(recipe, step_tokens), recipe.evaluate
    samples = f"{evaluate.n} samples" + (" and a greedy one" if evaluate.greedy else "")
    lines = [f"training: at most {most.training:,} generated tokens"] if most.training else []
    if not most.evaluations:
        return [*lines, "evaluation: none"]
    each = f"{evaluate.problems:,} problems with {samples}"
    most_tokens = f"at most {most.evaluation:,} generated tokens beside those of training"
    return [*lines, f"evaluation: {most.evaluations} of {each}, {most_tokens}"]


def time_line(recipe: Recipe, step_tokens: int, processes: int) -> str:
    """The time of a run in one sentence, or why there is no estimate.

    Raises:
        UserError: the probe ends as the run would.
    """
    if isinstance(recipe.engine.learner, Tinker) or isinstance(recipe.engine.sampler, Vllm):
        return "time: no estimate, since the probe measures the local engines alone"
    from outrider.screen.progress import clock_text  # not at the top: what prints a recipe needs no rich

    rates = _measured(recipe, processes)
    if rates is None:
        return f"time: no estimate, since the model has over {LARGEST:,} parameters and there is no GPU"
    most = amounts(recipe, step_tokens)
    parts = {name: getattr(rates, name) * most.training / processes for name in ("sample", "verify", "learn", "other")}
    evaluation = (rates.sample + rates.verify) * most.evaluation / processes
    told = ", ".join(f"{name} {clock_text(seconds)}" for name, seconds in parts.items())
    whole = clock_text(sum(parts.values()) + evaluation)
    return (
        f"time: about {whole} at most (rough: from {rates.tokens:,} tokens of one process, for {processes}): training "
        f"{clock_text(sum(parts.values()))} ({told}), evaluation {clock_text(evaluation)}"
    )


def _measured(recipe: Recipe, processes: int) -> Rates | None:
    """The rates of short responses to a few problems; None for a model that is too large."""
    import torch  # not at the top: a dry run goes without torch where there is none

    from outrider.train.clock import Clock
    from outrider.train.engines import open_policy
    from outrider.train.ranks import Ranks
    from outrider.train.run import build

    short = recipe.sample.model_copy(update={"max_tokens": min(TOKENS, recipe.sample.max_tokens)})
    probed, ranks, clock = recipe.model_copy(update={"sample": short}), Ranks(), Clock()
    policy, _ = open_policy(probed, ranks)
    if not torch.cuda.is_available() and policy.model.num_parameters() > LARGEST:
        return None
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
    of = {name: seconds.get(name, 0.0) / tokens for name in ("sample", "verify", "learn", "other")}
    return Rates(of["sample"], of["verify"], BACKWARD * of["learn"], of["other"], tokens)
