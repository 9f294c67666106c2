"""A verdict: what the verifier found, before a reward is assigned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The five things a verifier can say. Only ``CORRECT`` is success; the last two say nothing of the answer."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNPARSEABLE = "unparseable"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one rollout.

    Attributes:
        outcome: see :class:`Outcome`.
        score: the verifier's own number, usually 0 or 1; graded tasks may use anything between. NaN where the
            outcome is ``TIMEOUT`` or ``ERROR``: unscorable is not zero.
        seconds: wall time of the verdict. The one field that differs between two equal runs.
        answer: the answer that was extracted, as text; ``""`` where none was.
        detail: why, in a few words.
    """

    outcome: Outcome
    score: float
    seconds: float = 0.0
    answer: str = ""
    detail: str = ""

    @property
    def success(self) -> bool:
        return self.outcome is Outcome.CORRECT


def correct(answer: str = "", detail: str = "") -> Verdict:
    """A success, score 1."""
    return Verdict(Outcome.CORRECT, 1.0, answer=answer, detail=detail)


def incorrect(answer: str = "", detail: str = "") -> Verdict:
    """A wrong answer, score 0."""
    return Verdict(Outcome.INCORRECT, 0.0, answer=answer, detail=detail)


def unparseable(detail: str = "") -> Verdict:
    """No answer could be read, score 0."""
    return Verdict(Outcome.UNPARSEABLE, 0.0, detail=detail)
