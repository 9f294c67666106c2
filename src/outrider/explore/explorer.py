"""Runs the exploration stages of a step in order. Each stage may request rollouts several times (in rounds)."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from outrider.errors import UserError
from outrider.explore.stage import AdmittingStage, PredictingStage, PreparedStage, Stage
from outrider.explore.stream import ProblemStream
from outrider.explore.view import Engine, View
from outrider.record import Group, Prefix, Problem, Rollout, SampleRequest, group_id
from outrider.record.turns import observed

T = TypeVar("T")

MOST_ROUNDS = 1000
"""Maximum rounds per stage and step, as a guard against stages that never finish; built-in stages need only a few
rounds."""
Draw = Callable[[Sequence[SampleRequest]], list[Rollout]]
Broadcast = Callable[[Callable[[], T]], T]


class _Plan(NamedTuple):
    """A stage's plan for one round: the requested rollouts or, if there are none, the groups and rollouts to drop."""

    requests: list[SampleRequest]
    dropped: dict[str, str]


class Explored(NamedTuple):
    """The groups of a step, and the stages' metrics, named ``explore/<stage>/<name>``."""

    groups: list[Group]
    metrics: dict[str, float]


class Explorer:
    """Plans a step's rollouts in rounds; the rollouts of a round are sampled and verified before the next round.

    Every process of a run calls ``explore``. Only one process plans and broadcasts the plans, so only this process
    holds the state of the stages. All processes get the same result.

    Args:
        stages: the recipe's stages, in order. The explorer works on copies.
        stream: source of the problems.
        engine: the policy and its tokenizer, for the stages.
        seed: the run's master seed.
        share: runs a function on the planning process and broadcasts the result to all processes.
        prompt_limit: maximum number of tokens in a prompt; with a longer prompt, the longest response would not fit
            into the model's context.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        stream: ProblemStream,
        engine: Engine,
        seed: int,
        share: Broadcast[Any] = lambda make: make(),
        prompt_limit: int = sys.maxsize,
    ) -> None:
        self._prompt_limit = prompt_limit
        self.stages = [
            stage.model_copy(deep=True) for stage in stages
        ]  # the copies hold the state, so the recipe stays plain data
        self.stream, self._engine, self._seed, self._share = stream, engine, seed, share

    def prepare(self) -> None:
        """Let every stage load its models and files.

        Raises:
            UserError: a package, model or file is missing.
        """
        self._share(self._prepare)

    def explore(self, step: int, problems: int, draw: Draw, progress: float = 0.0) -> Explored:
        """Run one step: take problems, then run the stages one after the other. Each stage is asked repeatedly for
        requests, which may depend on all rollouts so far, until the stage requests no more rollouts.

        Raises:
            UserError: the task has too few distinct problems, or stages refuse too many problems.
        """
        taken: list[Problem] = self._share(lambda: self._begin(step, problems))
        groups = {p.id: Group(p, group_id(step, p)) for p in taken}
        for index in range(len(self.stages)):
            for round in itertools.count():
                if round == MOST_ROUNDS:
                    raise UserError(_endless(type(self.stages[index]).__name__, index, step))
                plan: _Plan = self._share(self._planner(index, groups, step, round, progress))
                if not plan.requests:
                    break
                self._join(groups, plan.requests, draw(plan.requests), step)
            groups = {key: _without(group, plan.dropped) for key, group in groups.items()}
        finished = list(groups.values())
        predicted, metrics = self._share(lambda: (self._predictions(finished), self._observe(finished)))
        return Explored([group.predicted_as(predicted.get(group.id)) for group in finished], metrics)

    @staticmethod
    def _join(groups: dict[str, Group], requests: Sequence[SampleRequest], drawn: list[Rollout], step: int) -> None:
        """Add rollouts to the groups of their problems; a problem that is new to the step gets a new group."""
        for problem in {r.problem.id: r.problem for r in requests}.values():
            groups.setdefault(problem.id, Group(problem, group_id(step, problem)))
        by_problem: dict[str, list[Rollout]] = {}
        for rollout in drawn:
            by_problem.setdefault(rollout.problem_id, []).append(rollout)
        groups.update({key: groups[key].joined(rollouts) for key, rollouts in by_problem.items()})

    def _prepare(self) -> None:
        for stage in self.stages:
            if isinstance(stage, PreparedStage):
                stage.prepare()

    def _begin(self, step: int, problems: int) -> list[Problem]:
        before, taken = self.stream.position, self._take(step, problems, ())
        if len(taken) < problems:
            raise UserError(
                f"a step needs {problems} problems, but only {len(taken)} of the next {self.stream.position - before} "
                "are distinct and not skipped by a stage"
            )
        return taken

    def _take(self, step: int, n: int, present: Container[str]) -> list[Problem]:
        """Take ``n`` problems that no stage refuses."""
        choosy = [stage for stage in self.stages if isinstance(stage, AdmittingStage)]
        return self.stream.take(n, present, lambda problem: all(stage.admits(problem, step) for stage in choosy))

    def _predictions(self, finished: Sequence[Group]) -> dict[str, float]:
        """Return the predicted pass rate of each group's problem, from the last stage that predicts pass rates."""
        predicting = [stage for stage in self.stages if isinstance(stage, PredictingStage)]
        found = ((group.id, stage.predicted(group.problem)) for stage in predicting for group in finished)
        return {group: rate for group, rate in found if rate is not None}

    def _observe(self, finished: Sequence[Group]) -> dict[str, float]:
        groups = [group.drawn for group in finished]  # replayed rollouts were observed in the step that sampled them
        return {
            f"explore/{_name(stage, i)}/{key}": value
            for i, stage in enumerate(self.stages)
            for key, value in stage.observe(groups).items()
        }

    def state_dict(self) -> dict[str, Any]:
        stages = [{"stage": _name(stage, i), "state": stage.state_dict()} for i, stage in enumerate(self.stages)]
        return {"stream": self.stream.state_dict(), "stages": stages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state.

        Raises:
            UserError: the stages differ from the saved stages.
        """
        names = [_name(stage, i) for i, stage in enumerate(self.stages)]
        saved = [entry["stage"] for entry in state["stages"]]
        if saved != names:
            raise UserError(f"the checkpoint holds the state of stages {saved}, but the recipe has {names}")
        self.stream.load_state_dict(state["stream"])
        for stage, entry in zip(self.stages, state["stages"], strict=True):
            stage.load_state_dict(entry["state"])

    def _planner(
        self, index: int, groups: Mapping[str, Group], step: int, round: int, progress: float
    ) -> Callable[[], _Plan]:
        stage = self.stages[index]
        present = set(groups)

        def take(n: int) -> list[Problem]:
            taken = self._take(step, n, present)
            present.update(problem.id for problem in taken)
            return taken

        view = View(list(groups.values()), step, round, progress, take, self._engine, self._seed, self._prompt_limit)

        def plan() -> _Plan:
            requests = self._complete(stage.plan(view), groups, step, _name(stage, index))
            return _Plan(requests, {} if requests else _dropped(stage, view.groups))

        return plan

    def _complete(
        self, requests: Sequence[SampleRequest], groups: Mapping[str, Group], step: int, stage: str
    ) -> list[SampleRequest]:
        """Fill in the fields that a stage leaves open, such as the seed and the rollouts' numbers within their group.
        Requests for zero rollouts are removed."""
        members = {key: group.size for key, group in groups.items()}
        completed = []
        for request in requests:
            if request.n == 0:
                continue
            problem = request.problem
            first = members.get(problem.id, 0)
            members[problem.id] = first + request.n
            completed.append(
                replace(
                    request,
                    prefix=_with_turns(request.prefix, groups.get(problem.id)),
                    prompt_ids=self._engine.encode(problem) if request.prompt_ids is None else request.prompt_ids,
                    stage=stage,
                    group_id=group_id(step, problem),
                    first_member=first,
                    seed=self._seed,
                )
            )
        return completed


def _with_turns(prefix: Prefix | None, group: Group | None) -> Prefix | None:
    """Add the environments' observations to the prefix of a multi-turn branch; return any other prefix unchanged."""
    if prefix is None or group is None or not any(rollout.observations for rollout in group.rollouts):
        return prefix
    by_id = {rollout.id: rollout for rollout in group.rollouts}
    return replace(prefix, observed=observed(by_id[prefix.parent], by_id, len(prefix.ids)))


def _name(stage: Stage, index: int) -> str:
    return f"{index}-{type(stage).__name__.lower()}"


def _dropped(stage: Stage, groups: Sequence[Group]) -> dict[str, str]:
    dropped = dict(stage.drop(groups))
    known = {group.id for group in groups} | {rollout.id for group in groups for rollout in group.rollouts}
    if unknown := dropped.keys() - known:
        raise ValueError(f"{type(stage).__name__} drops groups or rollouts that are not in the step: {sorted(unknown)}")
    return dropped


def _without(group: Group, dropped: Mapping[str, str]) -> Group:
    """Exclude the whole group, or some of its rollouts, from training, and return the changed group."""
    if group.id in dropped:
        return group.excluded(dropped[group.id])
    if not any(rollout.id in dropped for rollout in group.rollouts):
        return group
    marked = (r.excluded(dropped[r.id]) if r.id in dropped else r for r in group.rollouts)
    return replace(group, rollouts=tuple(marked))


def _endless(stage: str, index: int, step: int) -> str:
    return (
        f"explore.{index}: {stage} requested rollouts in all {MOST_ROUNDS} rounds of step {step} and did not finish; a "
        "stage ends with an empty plan, for example `if view.round > 0: return []`"
    )
