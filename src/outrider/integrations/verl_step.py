"""Runs the parts of a training step that come before verl's policy update: sampling, verification and advantage
estimation. Experimental.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.credit.assign import assign
from outrider.errors import UserError
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.integrations.verl_advantages import RecipeAdvantages, advantages_for
from outrider.integrations.verl_denominators import denominators_of, most_rows
from outrider.integrations.verl_sampler import VerlSampler
from outrider.model.load import Policy
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Group, Mode, Rollout, SampleRequest, SamplingParams
from outrider.record.row import WeightedRow
from outrider.tasks.heldout import heldout_problems
from outrider.train.collect import Collector
from outrider.train.metrics import step_metrics


class MadeStep(NamedTuple):
    """The training rows and the rollouts of a step.

    Attributes:
        rows: the training rows, in the order of their groups.
        uids: the ``uid`` of each row.
        groups: all rollouts of the step, for the run's records.
        metrics: the step's metrics, including those of the recipe's exploration stages (``explore``).
    """

    rows: list[WeightedRow]
    uids: list[str]
    groups: list[Group]
    metrics: dict[str, float]


class StepMaker:
    """Runs the steps of a recipe up to verl's update: samples and verifies rollouts, and estimates their advantages.

    Attributes:
        advantages: the current step's advantages for verl's trainer.
        tokens: the number of training tokens generated so far, without validation.
    """

    def __init__(self, recipe: Recipe, policy: Policy, sampler: VerlSampler) -> None:
        self.recipe, self.policy, self.sampler = recipe, policy, sampler
        self.advantages, self.tokens = RecipeAdvantages(), 0
        parts = sampler, recipe.task, recipe.reward, Ranks(), Clock()
        self.collect = Collector(*parts, prompt_end=policy.prompt_end)
        limit = sampler.context - recipe.sample.max_tokens
        stream = ProblemStream(recipe.task.train)
        self.explorer = Explorer(recipe.explore, stream, policy, recipe.seed, prompt_limit=limit)
        self._denominators, self._most = denominators_of(recipe), most_rows(recipe)
        self._all_rows = PolicyLoss(recipe.objective, recipe.sample.max_tokens).needs.all_rows

    def make(self, step: int) -> MadeStep:
        """Sample and verify the rollouts of one step, estimate their advantages, and store the advantages for verl's
        trainer.

        Raises:
            UserError: the step has no rows, or more rows than verl's optimizer batch, or the sampling temperature of
                the rows differs from the recipe's. A step with fewer rows than the optimizer batch is also an error if
                verl divides the loss by the size of the batch.
        """
        recipe = self.recipe
        self.sampler.version = step - 1
        progress = (step - 1) / (recipe.train.steps or 1)
        explored, planned = self.explorer.explore(step, recipe.train.problems, self.collect, progress)
        prefix, policy = recipe.objective.prefix, self.policy
        rows, groups = assign(explored, recipe.credit, step, self._all_rows, policy.encode, prefix, policy.token_texts)
        self._refuse_other_shape(rows, step)
        uids = [f"{row.group}#{i}" for i, row in enumerate(rows)]
        advantages = advantages_for(rows, recipe.objective, self._denominators, recipe.sample.max_tokens)
        self.advantages.put(uids, rows, advantages)
        self.tokens += sum(group.generated_tokens for group in groups)
        return MadeStep(rows, uids, groups, step_metrics(groups, self.tokens) | planned)

    def validation(self, indices: Sequence[int], n: int, temperature: float, version: int) -> list[list[Rollout]]:
        """Sample and verify ``n`` responses to each held-out problem in ``indices``."""
        recipe = self.recipe
        self.sampler.version = version
        problems = heldout_problems(recipe.task, recipe.evaluate)
        params = SamplingParams(temperature, max_tokens=recipe.sample.max_tokens)
        requests = [
            SampleRequest(
                problems[i],
                n=n,
                prompt_ids=self.policy.encode(problems[i]),
                params=params,
                stage="evaluate",
                group_id=f"evaluate:{problems[i].id}",
                seed=recipe.evaluate.seed,
            )
            for i in indices
        ]
        drawn = self.collect.renewed()(requests)
        return [drawn[start : start + n] for start in range(0, len(drawn), n)]

    def state_dict(self) -> dict[str, Any]:
        states = {"explorer": self.explorer.state_dict(), "collector": self.collect.state_dict()}
        return {**states, "tokens": self.tokens}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.explorer.load_state_dict(state["explorer"])
        self.collect.load_state_dict(state["collector"])
        self.tokens = state["tokens"]

    def _refuse_other_shape(self, rows: Sequence[WeightedRow], step: int) -> None:
        mode, full = Mode(self.recipe.sample.temperature), self._denominators.full
        if not rows:
            raise UserError(f"step {step}: nothing to train on is left, and verl has no step without rows")
        if len(rows) > self._most or (full and len(rows) < self._most):
            raise UserError(
                f"step {step} has {len(rows)} rows, and verl's optimizer batch {self._most}; it would be cut, or its "
                "denominators would count rows that are not there"
            )
        if any(row.mode != mode for row in rows):
            raise UserError(
                f"step {step}: rows have another temperature than sample.temperature, and verl "
                "computes all log-probabilities under one"
            )
