"""Verifies gold answers with the task's verifier. The verifier should accept each gold answer for its own problem, but
not for the preceding problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.record import Verdict
from outrider.tasks import Table, Task
from outrider.tasks.task import right_response, verify_all
from outrider.validate.sides import SideEntry


class VerifiedResponse(NamedTuple):
    """A response to a problem, the verdict on the response, and a correct response to the problem."""

    entry: SideEntry
    response: str
    verdict: Verdict
    right: str


class Graded(NamedTuple):
    """The verdicts of a task's verifier on gold answers.

    Attributes:
        verified: number of problems with a gold answer to verify.
        without: number of problems without a gold answer.
        rejected: gold answers that the verifier rejects, either unchanged or in another notation (LaTeX or code). There
            is at most one entry per problem. If the verifier rejects only the other notation, it probably cannot parse
            the gold answer, and accepts only the same text.
        foreign: cases in which the verifier accepts the next problem's gold answer as a response, although the two gold
            answers are different texts. Two different texts may still have the same value, such as 1/2 and 0.5.
    """

    verified: int
    without: int
    rejected: list[VerifiedResponse]
    foreign: list[VerifiedResponse]

    @property
    def accepted(self) -> float:
        """Share of the verified gold answers that are accepted; NaN if no gold answer was verified."""
        return 1 - len(self.rejected) / self.verified if self.verified else float("nan")


def grade(task: Task, entries: Sequence[SideEntry]) -> Graded:
    """Verify three responses per problem: its gold answer, the same answer in another notation, and the next problem's
    gold answer."""
    responses = [(entry, right_response(task, entry.problem)) for entry in entries]
    own = [(entry, response) for entry, response in responses if response is not None]
    pairs = zip(own, [*own[1:], *own[:1]], strict=True)
    foreign = [(entry, response, right) for (entry, right), (_, response) in pairs if response != right]
    others = [(entry, _otherwise(task, entry), right) for entry, right in own]
    otherwise = [(entry, other, right) for entry, other, right in others if other is not None]
    verified = _verify(task, [*((entry, right, right) for entry, right in own), *otherwise, *foreign])
    first = len(own) + len(otherwise)
    rejected = list({one.entry.place: one for one in reversed(verified[:first]) if not one.verdict.success}.values())[
        ::-1
    ]
    accepted = [one for one in verified[first:] if one.verdict.success]
    return Graded(len(own), len(entries) - len(own), rejected, accepted)


def _otherwise(task: Task, entry: SideEntry) -> str | None:
    """Return a correct response in another notation, if the task's verifier provides one; otherwise None."""
    return task.verifier.right_otherwise(entry.problem) if isinstance(task, Table) else None


def _verify(task: Task, items: Sequence[tuple[SideEntry, str, str]]) -> list[VerifiedResponse]:
    verdicts = verify_all(task, [(entry.problem, response, True) for entry, response, _ in items])
    return [
        VerifiedResponse(entry, response, v, right) for (entry, response, right), v in zip(items, verdicts, strict=True)
    ]
