"""Hints (QuestA): the prompt reveals the beginning of the problem's given solution. Later in training, the revealed
part becomes shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, PrivateAttr

from outrider.explore.bounds import Bounds
from outrider.explore.corpus import question_of, without_thinking
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Context, Group, Problem, SampleRequest

SHORTEST = 10  # characters; shorter hints are not useful


class Hint(Stage):
    """Samples ``n`` rollouts per problem, from a prompt that contains the beginning of the problem's solution.

    The solution is the problem's ``metadata["solution"]``. If the problems come from a table, the task's option
    ``solution`` names the table's field. Text in ``<think>…</think>`` is removed. The run is divided into parts of
    equal length, one for each entry of ``shares``. The entry is the fraction of the solution's characters that is
    revealed in that part. The learner uses the prompt with the hint, from which the rollout was sampled, so the
    importance ratio starts at 1. The filled ``template`` replaces the question within the prompt, so any text around
    the question remains. If the task gives no question (``metadata["question"]``), the filled template replaces the
    whole prompt. Evaluation prompts contain no hints.

    Hinted rollouts do not show how often the policy solves a problem without hints. Later stages therefore do not count
    them in pass rates, and the run's report shows no trend of the success rate. In rollout files, the column
    ``context`` of hinted rollouts is ``seeded``. A step's metrics (``success``, ``solved``, ``reward``) include hinted
    rollouts. New problems that a later stage adds have prompts without hints.

    Degenerate cases: the prompt has no hint if the problem has no solution, if the hint has fewer than ten characters,
    or if the prompt leaves no room for the longest response. ``unhinted`` counts these rollouts. A problem that already
    has rollouts gets no further rollouts.

    Source: Li et al. 2025, QuestA, arXiv 2507.13266, and its released code (add_prefix.py). QuestA reveals half of the
    solution at first, and later a quarter. Differences: the released code trains on rarely solved problems, chosen
    before training, and omits problems whose solution does not contain the answer. The released code starts the second
    part of the run with a new optimizer, and includes whitespace around a solution in the character count.

    >>> Hint().shares
    [0.5, 0.25]
    """

    n: int = Field(16, ge=1, description="number of rollouts to sample per problem, from a prompt that contains a hint")
    shares: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        [0.5, 0.25],
        min_length=1,
        description=(
            "fractions of the solution's characters to reveal as the hint; the run is divided into equal parts, one "
            "for each fraction"
        ),
    )
    template: str = Field(
        "{question}\n\n## Hint.{hint}",
        description=(
            "template that replaces the question in the prompt; {question} stands for the question, and {hint} for the "
            "revealed beginning of the solution"
        ),
    )

    _counts: Counter[str] = PrivateAttr(default_factory=Counter)

    def check(self, around: Surroundings) -> None:
        around.refuse_drawn()
        for part in ("{question}", "{hint}"):
            if self.template.count(part) != 1:
                raise ValueError(f"hint.template must contain {part} exactly once, but is {self.template!r}")

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before.begun(self.n * problems, (self.n, self.n))

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        share = self.shares[min(int(view.progress * len(self.shares)), len(self.shares) - 1)]
        return [self._hinted(group.problem, share, view) for group in view.groups if not group.size]

    def _hinted(self, problem: Problem, share: float, view: View) -> SampleRequest:
        plain = SampleRequest(problem, n=self.n)
        solution = problem.metadata.get("solution")
        given = without_thinking(solution) if isinstance(solution, str) else ""
        hint = given[: int(share * len(given))]
        if len(hint) >= SHORTEST:
            question = question_of(problem)
            # sequential replacement, since a question may contain "{hint}"
            head, _, tail = self.template.partition("{hint}")
            text = head.replace("{question}", question) + hint + tail.replace("{question}", question)
            ids = view.engine.encode(replace(problem, prompt=problem.prompt.replace(question, text, 1)))
            if len(ids) <= view.prompt_limit:
                self._counts["hinted"] += self.n
                return replace(plain, prompt_ids=ids, context=Context("seeded", (problem.id,)))
        self._counts["unhinted"] += self.n
        return plain

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Return the number of rollouts with a hint (``hinted``), and the number of rollouts for which no hint was
        possible (``unhinted``).
        """
        counts = {name: float(self._counts[name]) for name in ("hinted", "unhinted")}
        self._counts.clear()
        return counts
