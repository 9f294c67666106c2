r"""Verifiers of short final answers, by equal text or by equal number.

A gold answer that contains ``\boxed{…}`` or ``####`` is read like a response, so it may be a worked solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from outrider.record import Problem, Verdict
from outrider.texts import late_pattern
from outrider.verify.answers import Match, extract, last_box, normalise, verify_text, whole_number
from outrider.verify.verifier import Verifier, text_of

_EQUATION = late_pattern(r"[-+*/^0-9].*=")  # x + y = 3 is an equation, not the number 3


def gold_of(fields: Mapping[str, Any], name: str, boxed: Callable[[str], str | None] = extract) -> str:
    """The gold answer of a row; from a worked solution, the ``boxed`` answer or the text after ``####``.

    Raises:
        ValueError: the field holds no answer, or its box is not closed.
    """
    gold = text_of(fields, name).strip()
    if "\\boxed" in gold and last_box(gold) is None:
        raise ValueError(f"the field {name!r} holds no box that is closed")
    if "\\boxed" in gold:
        gold = boxed(gold) or ""
    elif "####" in gold:
        gold = extract(gold) or ""
    if not normalise(gold):
        raise ValueError(f"the field {name!r} holds no answer")
    return gold


class Exact(Verifier):
    """Correct if the final answers are equal as texts, see :func:`outrider.verify.answers.normalise`."""

    match: ClassVar[Match] = "exact"

    def reference(self, fields: Mapping[str, Any], answer: str) -> str:
        return gold_of(fields, answer)

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return verify_text(problem.answer, text, finished, self.match)

    def right(self, problem: Problem) -> str:
        return f"\\boxed{{{problem.answer}}}"


class Number(Exact):
    """Correct if the final answers are the same number, exactly: 0.33 is not 1/3."""

    match: ClassVar[Match] = "number"

    def reference(self, fields: Mapping[str, Any], answer: str) -> str:
        gold = super().reference(fields, answer)
        if whole_number(gold) is None or _EQUATION.search(gold):
            raise ValueError(f"the answer {gold[:80]!r} is not a number; verifier: exact compares text")
        return gold
