"""One greedy rollout per problem, as a baseline for the sampled rollouts."""

from __future__ import annotations

from pydantic import Field

from outrider.explore.bounds import Bounds
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Context, SampleRequest, SamplingParams


class Greedy(Stage):
    """Adds a greedy rollout to each problem that has rollouts, as the baseline of ReMax (``greedy`` in the recipe's
    ``credit``).

    The rollout always takes the most likely token (temperature 0). Since the rollout is not a sample of the policy, it
    is not trained on, but its tokens count as generated. In rollout files, the column ``stage`` is this stage's
    position in ``explore`` and its name, such as ``1-greedy``. Other stages do not count the rollout as evidence of a
    pass rate and do not branch it. Other baselines and the step's metrics count it like any other rollout of the group.
    A request that overrides sampling options must set all of them, so this stage needs its own ``max_tokens``.

    Degenerate cases: the stage requests nothing for an empty batch, or for groups that have no rollouts or were
    excluded by an earlier stage.

    Source: ReMax, Li et al. 2023, arXiv 2310.10505, algorithm 1.

    >>> Greedy(max_tokens=96)
    Greedy(max_tokens=96)
    """

    max_tokens: int = Field(
        ge=1, description="maximum length in tokens of the greedy response; must equal sample.max_tokens"
    )

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("greedy adds to existing rollouts and cannot be the first stage: put uniform before it")
        around.refuse_limit(self.max_tokens)

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        each = before.more(problems)
        return each._replace(fewest=before.fewest + (problems if before.most and before.first[0] else 0))

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        params = SamplingParams(temperature=0.0, max_tokens=self.max_tokens)
        return [
            SampleRequest(group.problem, n=1, context=Context(trained="excluded"), params=params)
            for group in view.groups
            if group.size and not group.dropped
        ]
