"""What a task with an environment changes: turns end at its texts, and rollouts have several."""

from __future__ import annotations

from outrider.model.load import Policy
from outrider.sample.options import SampleOptions
from outrider.sample.sampler import Sampler
from outrider.sample.turns import TurnSampler
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask


def turn_options(options: SampleOptions, task: Task) -> SampleOptions:
    """The options with which a task's turns are drawn."""
    ends = task.ends if isinstance(task, TurnTask) else ()
    return options.model_copy(update={"stop": [*options.stop, *(end for end in ends if end not in options.stop)]})


def with_turns(sampler: Sampler, task: Task, policy: Policy, options: SampleOptions) -> Sampler:
    """A sampler that draws whole rollouts of a task from one that draws turns; the same where there are none."""
    if not isinstance(task, TurnTask):
        return sampler
    return TurnSampler(sampler, policy, options, task.environments(), task.limits.turns, task.limits.max_concurrent)


def single_turns(sampler: Sampler) -> Sampler:
    """What a probe of the weights draws from: without environments."""
    return sampler.single if isinstance(sampler, TurnSampler) else sampler
