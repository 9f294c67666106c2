"""A verdict is the verifier's result for one response, before a reward is assigned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a verification. Only ``CORRECT`` is a success. After ``TIMEOUT`` and ``ERROR``, the answer may or
    may not be correct."""

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
        score: the verifier's score, usually 0 or 1; graded tasks may use values in between. If the outcome is
            ``TIMEOUT`` or ``ERROR``, the score is NaN, not 0.
        seconds: wall time of the verification, the only field that may differ if the same run is repeated.
        answer: the answer that the verifier extracted from the response, as text; ``""`` if it found none.
        detail: short explanation of the outcome.
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
    """Return the verdict for a correct answer, with score 1."""
    return Verdict(Outcome.CORRECT, 1.0, answer=answer, detail=detail)


def incorrect(answer: str = "", detail: str = "") -> Verdict:
    """Return the verdict for a wrong answer, with score 0."""
    return Verdict(Outcome.INCORRECT, 0.0, answer=answer, detail=detail)


def unparseable(detail: str = "") -> Verdict:
    """Return the verdict for a response without a readable answer, with score 0."""
    return Verdict(Outcome.UNPARSEABLE, 0.0, detail=detail)
