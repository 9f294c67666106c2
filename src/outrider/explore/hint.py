"""Hints: the beginning of a problem's given solution stands in its prompt, and less of it later (QuestA)."""

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

SHORTEST = 10  # characters: less of a solution says nothing


class Hint(Stage):
    """``n`` rollouts of every problem, each after a prompt that ends in a part of the problem's solution.

    The solution is the task's own (``metadata["solution"]``; a table's field ``solution``), without thoughts in
    ``<think>…</think>``. Of its characters a share is shown, the first of ``shares`` in the first part of the run, the
    next in the next, all parts of equal length. Rollouts are trained after the prompt that they were drawn from, so
    with ratio 1. The words ``template`` take the place of the question within the prompt, so that a format around it
    stays; a task whose prompts name no question (``metadata["question"]``) gets the hint behind the whole prompt.
    Evaluation asks no stage, and shows no hint.

    Their context is ``seeded``: they say nothing of how often the policy solves a problem by itself, so a stage that
    goes by a first pass finds none behind this one, and a report has no trend of success over steps. A step's own
    numbers (``success``, ``solved``, ``reward``) are of what was drawn, hints included. New problems that a later stage
    takes have plain prompts.

    Degenerate cases: a problem without a solution, a share of fewer than ten characters, or a prompt that leaves the
    longest response no room: the plain prompt, counted as ``unhinted`` by rollouts. A problem that has rollouts
    already gets none.

    Source: Li et al. 2025, QuestA, arXiv 2507.13266, and its released code (add_prefix.py): half of the solution, then
    a quarter, from problems that are rarely solved, which are chosen before training, without those whose answer
    is not in the solution; there the second part of the run has an optimizer of its own, and blanks around a solution
    count.

    >>> Hint().shares
    [0.5, 0.25]
    """

    n: int = Field(16, ge=1, description="rollouts per problem")
    shares: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        [0.5, 0.25], min_length=1, description="shares of a solution's characters to reveal, in order over the run"
    )
    template: str = Field(
        "{question}\n\n## Hint.{hint}", description="prompt with {question} and {hint}, in place of the question"
    )

    _counts: Counter[str] = PrivateAttr(default_factory=Counter)

    def check(self, around: Surroundings) -> None:
        around.refuse_drawn()
        for part in ("{question}", "{hint}"):
            if self.template.count(part) != 1:
                raise ValueError(f"hint.template needs {part} once, and is {self.template!r}")

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
            # one after the other, as a question may hold "{hint}"
            head, _, tail = self.template.partition("{hint}")
            text = head.replace("{question}", question) + hint + tail.replace("{question}", question)
            ids = view.engine.encode(replace(problem, prompt=problem.prompt.replace(question, text, 1)))
            if len(ids) <= view.prompt_limit:
                self._counts["hinted"] += self.n
                return replace(plain, prompt_ids=ids, context=Context("seeded", (problem.id,)))
        self._counts["unhinted"] += self.n
        return plain

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Rollouts of the step with a hint, and without for want of one."""
        counts = {name: float(self._counts[name]) for name in ("hinted", "unhinted")}
        self._counts.clear()
        return counts
