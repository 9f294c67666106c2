"""The explorer: stages in order, each asked again and again until it wants nothing more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from outrider.errors import UserError
from outrider.explore.stage import Stage
from outrider.explore.stream import ProblemStream
from outrider.record import Group, Ids, Problem, Rollout, SampleRequest, group_id

T = TypeVar("T")
Draw = Callable[[Sequence[SampleRequest]], list[Rollout]]
Share = Callable[[Callable[[], T]], T]


class Explorer:
    """Plans a step's rollouts and has them drawn and judged, round by round.

    Every process of a run calls ``explore``; plans are made on one and shared, so that the state of the stages lives
    in one place. What comes back is the same everywhere.

    Args:
        stages: the recipe's, in order.
        stream: where the problems of a step come from.
        encode: a problem's plain prompt as token ids.
        seed: the run's master seed.
        share: calls a function on the planning process and gives its result to all.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        stream: ProblemStream,
        encode: Callable[[Problem], Ids],
        seed: int,
        share: Share[Any] = lambda make: make(),
    ) -> None:
        self.stages, self.stream, self._encode, self._seed, self._share = stages, stream, encode, seed, share

    def explore(self, step: int, problems: int, draw: Draw) -> list[Group]:
        """One step: take problems, then let each stage plan from the groups so far until it asks for nothing."""
        taken: list[Problem] = self._share(lambda: self.stream.take(problems))
        groups = {p.id: Group(p, group_id(step, p)) for p in taken}
        for index, stage in enumerate(self.stages):
            for round in itertools.count():
                plan = self._planner(stage, index, groups, step, round)
                requests: list[SampleRequest] = self._share(plan)
                if not requests:
                    break
                for problem in {r.problem.id: r.problem for r in requests}.values():
                    groups.setdefault(problem.id, Group(problem, group_id(step, problem)))
                drawn: dict[str, list[Rollout]] = {}
                for rollout in draw(requests):
                    drawn.setdefault(rollout.problem_id, []).append(rollout)
                groups.update({key: groups[key].joined(rollouts) for key, rollouts in drawn.items()})
        finished = list(groups.values())
        self._share(lambda: self._observe(finished))
        return finished

    def _observe(self, groups: Sequence[Group]) -> None:
        for stage in self.stages:
            stage.observe(groups)

    def metrics(self) -> dict[str, float]:
        """The stages' numbers as ``explore/<stage>/<name>``, from the planning process."""
        collected: dict[str, float] = self._share(
            lambda: {
                f"explore/{_name(stage, i)}/{key}": value
                for i, stage in enumerate(self.stages)
                for key, value in stage.metrics().items()
            }
        )
        return collected

    def state_dict(self) -> dict[str, Any]:
        stages = [{"stage": _name(stage, i), "state": stage.state_dict()} for i, stage in enumerate(self.stages)]
        return {"stream": self.stream.state_dict(), "stages": stages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict`` was taken.

        Raises:
            UserError: the stages are others than those that were saved.
        """
        names = [_name(stage, i) for i, stage in enumerate(self.stages)]
        saved = [entry["stage"] for entry in state["stages"]]
        if saved != names:
            raise UserError(f"the checkpoint holds the state of stages {saved}, the recipe has {names}")
        self.stream.load_state_dict(state["stream"])
        for stage, entry in zip(self.stages, state["stages"], strict=True):
            stage.load_state_dict(entry["state"])

    def _planner(
        self, stage: Stage, index: int, groups: Mapping[str, Group], step: int, round: int
    ) -> Callable[[], list[SampleRequest]]:
        return lambda: self._complete(stage.plan(list(groups.values()), step, round), groups, step, _name(stage, index))

    def _complete(
        self, requests: Sequence[SampleRequest], groups: Mapping[str, Group], step: int, stage: str
    ) -> list[SampleRequest]:
        """Number the rollouts within their groups and fill in what a stage leaves open. Requests for none vanish."""
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
                    prompt_ids=self._encode(problem) if request.prompt_ids is None else request.prompt_ids,
                    stage=stage,
                    group_id=group_id(step, problem),
                    first_member=first,
                    seed=self._seed,
                )
            )
        return completed


def _name(stage: Stage, index: int) -> str:
    return f"{index}-{type(stage).__name__.lower()}"
