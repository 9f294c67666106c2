"""Evaluates the policy on held-out problems, with several samples and one greedy response per problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from outrider.config.train import EVALUATED_TOGETHER, EvaluateOptions
from outrider.measure.evaluation import Evaluation, evaluate
from outrider.record import Ids, Problem, Rollout, SampleRequest, SamplingParams
from outrider.record.disk import move
from outrider.runs.folder import RunFolder
from outrider.train.collect import Collector


class Evaluated(NamedTuple):
    """An evaluation's metrics and its rollouts."""

    evaluation: Evaluation
    sampled: list[Rollout]
    greedy: list[Rollout]


class Evaluator:
    """Evaluates the sampler's current policy on a fixed set of problems.

    The random numbers depend only on ``options.seed`` and the problem, not on the step or the run. Two policies
    therefore get the same random numbers, which reduces the noise in their paired difference.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        encode: Callable[[Problem], Ids],
        collect: Collector,
        options: EvaluateOptions,
        params: SamplingParams,
    ) -> None:
        self.problems, self.encode, self.collect = list(problems), encode, collect
        self.options, self.params = options, params

    def run(self) -> Evaluated:
        """Sample and verify responses to all problems, and return the evaluation."""
        collect = self.collect.renewed()
        greedy_params = replace(self.params, temperature=0.0, top_p=1.0, top_k=0)
        sampled: list[Rollout] = []
        greedy: list[Rollout] = []
        for start in range(0, len(self.problems), EVALUATED_TOGETHER):
            chunk = self.problems[start : start + EVALUATED_TOGETHER]
            sampled += collect([self._request(p, "evaluate", self.options.n, self.params) for p in chunk])
        if self.options.greedy:
            greedy = collect([self._request(p, "greedy", 1, greedy_params) for p in self.problems])
        evaluation = evaluate(self.problems, sampled, greedy, self.options.bootstrap, self.options.seed)
        return Evaluated(evaluation, sampled, greedy)

    def _request(self, problem: Problem, purpose: str, n: int, params: SamplingParams) -> SampleRequest:
        return SampleRequest(
            problem,
            n=n,
            prompt_ids=self.encode(problem),
            params=params,
            stage=purpose,
            group_id=f"{purpose}:{problem.id}",
            seed=self.options.seed,
        )


def write_evaluated(
    folder: RunFolder, step: int, evaluated: Evaluated, problems: Sequence[Problem], seconds: float | None = None
) -> None:
    """Write an evaluation to disk. Rollouts are written first, so that results never exist without their rollouts."""
    levels = {problem.id: problem.level for problem in problems}
    test_sets = {problem.id: problem.test_set for problem in problems if problem.test_set}
    for name, rollouts in (("evaluate", evaluated.sampled), ("greedy", evaluated.greedy)):
        path = folder.rollouts.folder / f"{name}-{step:08d}.parquet"
        if path.exists():  # the run was killed after it had written rollouts, but no results
            move(path, folder.path / "superseded" / "evaluations")
        folder.rollouts.write(step, rollouts, name, levels, test_sets)
    folder.rollouts.sync()
    folder.write_evaluation(step, evaluated.evaluation.to_json(), seconds)
