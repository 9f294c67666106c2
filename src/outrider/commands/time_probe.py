"""Estimates a run's time before the run starts. The estimate comes from a probe, which samples short responses and
discards them."""

from __future__ import annotations

import numpy as np

from outrider.config import Recipe
from outrider.estimate.decoder_shape import shape_of
from outrider.estimate.time_estimate import Rates, time_sentence
from outrider.learn.options import Tinker
from outrider.model.places import local_config
from outrider.record.row import row_of
from outrider.sample.options import Vllm
from outrider.tasks.turn_task import TurnTask

PROBLEMS, TOKENS = 8, 32
"""Number of problems in the probe, and number of tokens per response."""
BACKWARD = 3
"""Approximate time of a forward and backward pass, as a multiple of the time of a forward pass."""
LARGEST = 50_000_000
"""Maximum parameters of a model for a probe on a CPU. With a larger model, the probe would take minutes."""


def time_line(recipe: Recipe, processes: int) -> str:
    """Return one sentence with the estimated time of a run, or with the reason why the time cannot be estimated.

    Raises:
        UserError: the probe fails with an error that would also end the run.
    """
    if (why := _no_probe(recipe)) is not None:
        return f"time: no estimate, since {why}"
    rates = _measured(recipe, processes)
    if rates is None:
        return "time: no estimate, since the probe generated no token"
    return time_sentence(recipe, rates, processes)


def _no_probe(recipe: Recipe) -> str | None:
    """Return the reason why the probe cannot run; None if it can run."""
    import torch  # not at the top: a dry run must work without torch

    if isinstance(recipe.engine.learner, Tinker) or isinstance(recipe.engine.sampler, Vllm):
        return "the probe measures the local engines alone"
    if isinstance(recipe.task, TurnTask) and not recipe.task.trusted:
        return "the probe would run the task's environments"
    if torch.cuda.is_available():
        return None
    shape = shape_of(local_config(recipe.model) or {})
    if shape is None or shape.parameters > LARGEST:
        return f"the model has more than {LARGEST:,} parameters, or an unknown number, and there is no GPU"
    return None


def _measured(recipe: Recipe, processes: int) -> Rates | None:
    """Measure the speed of each phase with short responses to a few problems; None if no token was generated."""
    import torch  # not at the top: a dry run must work without torch

    from outrider.processes.clock import Clock
    from outrider.processes.ranks import Ranks
    from outrider.train.build import build
    from outrider.train.engines import open_policy

    short = recipe.sample.model_copy(update={"max_tokens": min(TOKENS, recipe.sample.max_tokens)})
    here = recipe.train.model_copy(update={"lag": 0})  # without overlap, each phase can be measured
    probed, ranks, clock = recipe.model_copy(update={"sample": short, "train": here}), Ranks(), Clock()
    policy, _ = open_policy(probed, ranks)
    threads = torch.get_num_threads()
    if processes > 1:
        torch.set_num_threads(1)  # like each process of the run
    trainer = build(probed, policy, ranks, clock)
    problems = min(PROBLEMS, recipe.train.problems)
    try:
        trainer.explorer.prepare()
        with clock.phase("other"):
            trainer.sync_weights(0)  # the first sync includes all one-time setup
        clock.take()
        with clock.phase("other"):
            groups, _ = trainer.explorer.explore(1, problems, trainer.collect, 0.0)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        rows = [row_of(r, np.zeros(r.trainable_tokens), r.prompt_ids) for r in rollouts]
        trainer.learner.logprobs(rows)  # the first pass allocates memory that later passes reuse
        with clock.phase("learn"):
            trainer.learner.logprobs(rows)
        seconds = clock.take()
    finally:
        torch.set_num_threads(threads)
        trainer.collect.close()
        recipe.task.close()
    tokens = sum(group.generated_tokens for group in groups)
    if not tokens:
        return None
    of = {name: seconds.get(name, 0.0) / tokens for name in ("sample", "verify", "learn", "other")}
    return Rates(of["sample"], of["verify"], BACKWARD * recipe.learn.epochs * of["learn"], of["other"], tokens)
