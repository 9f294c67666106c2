"""Adapts samplers to tasks with environments: adds the stop strings that end turns, and samples multi-turn rollouts."""

from __future__ import annotations

from outrider.model.load import Policy
from outrider.sample.options import SampleOptions
from outrider.sample.sampler import Sampler
from outrider.sample.turns import TurnSampler
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask


def turn_options(options: SampleOptions, task: Task) -> SampleOptions:
    """Return the options for sampling a task's turns, whose stop strings include the strings that end a turn."""
    ends = task.ends if isinstance(task, TurnTask) else ()
    return options.model_copy(update={"stop": [*options.stop, *(end for end in ends if end not in options.stop)]})


def with_turns(sampler: Sampler, task: Task, policy: Policy, options: SampleOptions) -> Sampler:
    """Turn a sampler of single turns into a sampler of multi-turn rollouts; for single-turn tasks, return the sampler
    unchanged."""
    if not isinstance(task, TurnTask):
        return sampler
    return TurnSampler(sampler, policy, options, task.environments(), task.limits.turns, task.limits.max_concurrent)


def single_turns(sampler: Sampler) -> Sampler:
    """Return the sampler of single turns, which needs no environments. After a weight sync, it samples tokens to
    compare the log-probabilities of sampler and learner."""
    return sampler.single if isinstance(sampler, TurnSampler) else sampler
