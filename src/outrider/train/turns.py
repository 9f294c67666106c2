"""Samplers for tasks with environments: turns with stop texts, and multi-turn rollouts."""

from __future__ import annotations

from outrider.model.load import Policy
from outrider.sample.options import SampleOptions
from outrider.sample.sampler import Sampler
from outrider.sample.turns import TurnSampler
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask


def turn_options(options: SampleOptions, task: Task) -> SampleOptions:
    """The sampling options of a task's turns."""
    ends = task.ends if isinstance(task, TurnTask) else ()
    return options.model_copy(update={"stop": [*options.stop, *(end for end in ends if end not in options.stop)]})


def with_turns(sampler: Sampler, task: Task, policy: Policy, options: SampleOptions) -> Sampler:
    """A sampler of multi-turn rollouts from a sampler of turns; unchanged for single-turn tasks."""
    if not isinstance(task, TurnTask):
        return sampler
    return TurnSampler(sampler, policy, options, task.environments(), task.limits.turns, task.limits.max_concurrent)


def single_turns(sampler: Sampler) -> Sampler:
    """The sampler for probes of the weights, without environments."""
    return sampler.single if isinstance(sampler, TurnSampler) else sampler
