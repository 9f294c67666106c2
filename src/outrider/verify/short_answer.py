r"""Verifiers for short final answers, which must equal the gold answer as text or as a number.

The gold answer may be a worked solution with ``\boxed{…}`` or ``####``. Then only the answer in the box, or after
``####``, counts.
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
    """Return the gold answer of a row. If it is a worked solution, return only the answer in a box or after ``####``.

    Raises:
        ValueError: the field contains no answer, or the box is not closed.
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
    """Accepts a final answer that equals the gold answer as text, after :func:`outrider.verify.answers.normalise`."""

    match: ClassVar[Match] = "exact"

    def reference(self, fields: Mapping[str, Any], answer: str) -> str:
        return gold_of(fields, answer)

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return verify_text(problem.answer, text, finished, self.match)

    def right(self, problem: Problem) -> str:
        return f"\\boxed{{{problem.answer}}}"


class Number(Exact):
    """Accepts a final answer that is exactly the same number as the gold answer: 0.33 is not 1/3."""

    match: ClassVar[Match] = "number"

    def reference(self, fields: Mapping[str, Any], answer: str) -> str:
        gold = super().reference(fields, answer)
        if whole_number(gold) is None or _EQUATION.search(gold):
            raise ValueError(f"the answer {gold[:80]!r} is not a number; verifier: exact compares text")
        return gold
