"""The laws of verifiers: which verdicts a verifier must return, and which changes of the input must not affect a
verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from outrider.record import Outcome, Problem
from outrider.testing.law import breaks, require, require_equal
from outrider.texts import MARKS
from outrider.verify.verifier import Verifier

VerifierExample = tuple[Mapping[str, Any], Sequence[str], Sequence[str]]
"""The fields of a table row, correct responses, and incorrect responses."""


class VerifierRow(NamedTuple):
    """A verifier, and an example on which to check it.

    Attributes:
        right: correct responses.
        wrong: incorrect responses.
        answer: name of the field with the gold answer.
        prompt: name of the field with the question. The row may lack this field.
    """

    verifier: Verifier
    fields: Mapping[str, Any]
    right: Sequence[str]
    wrong: Sequence[str]
    answer: str = "answer"
    prompt: str = "problem"

    @property
    def problem(self) -> Problem:
        """The problem that a task would create from the row."""
        return Problem("row", str(self.fields.get(self.prompt, "")), self.verifier.reference(self.fields, self.answer))

    @property
    def marks(self) -> Mapping[str, str]:
        """The reasoning tags, as a map from each opening tag to its closing tag."""
        return MARKS if self.verifier.thinking is None else self.verifier.thinking

    def require(self, text: str, success: bool, finished: bool = True) -> None:
        """Require that the verifier accepts the response if ``success`` is true, and rejects it otherwise."""
        verdict = self.verifier.verify(self.problem, text, finished)
        expected = "'correct'" if success else "another outcome than 'correct'"
        cut = "" if finished else ", truncated,"
        found = f"the verdict on {text!r}{cut} is {verdict.outcome.value!r}, expected {expected}"
        require(verdict.success == success, found)


def makes_a_plain_reference(row: VerifierRow) -> None:
    """``reference`` returns JSON data, and the same data in every call. The verifier does not change the row."""
    before = deepcopy(dict(row.fields))
    reference = row.verifier.reference(row.fields, row.answer)
    require_equal(json.loads(json.dumps(reference)), reference, "the reference that was written and read back")
    require_equal(row.verifier.reference(row.fields, row.answer), reference, "the reference of a second call")
    require_equal(dict(row.fields), before, "the fields of the row")


def accepts_right_responses(row: VerifierRow) -> None:
    """A correct response is accepted, even after a reasoning block that contains an incorrect response."""
    for text in row.right:
        row.require(text, True)
        for opening, closing in row.marks.items():
            row.require(f"{opening}{row.wrong[0] if row.wrong else ''}{closing}\n{text}", True)


def rejects_wrong_responses(row: VerifierRow) -> None:
    """An incorrect response is rejected."""
    for text in row.wrong:
        row.require(text, False)


def rejects_nothing(row: VerifierRow) -> None:
    """An empty response is rejected, whether finished or truncated."""
    for text in ("", " ", "\n\n"):
        for finished in (True, False):
            row.require(text, False, finished)


def rejects_unclosed_reasoning(row: VerifierRow) -> None:
    """A correct response within an unclosed reasoning block is rejected."""
    for text in row.right:
        for opening in row.marks:
            row.require(f"{opening}\n{text}", False)


def is_deterministic(row: VerifierRow) -> None:
    """A response always gets the same verdict, even after other responses, and even from a copy of the verifier."""
    texts = [*row.right, *row.wrong, ""]
    first = [_outcome(row.verifier, row.problem, text) for text in texts]
    copied = row.verifier.model_copy(deep=True)
    again = [_outcome(copied, row.problem, text) for text in reversed(texts)][::-1]
    for text, found, expected in zip(texts, again, first, strict=True):
        require_equal(found, expected, f"the outcome and score of a second verdict on {text!r}")


def _outcome(verifier: Verifier, problem: Problem, text: str) -> str:
    verdict = verifier.verify(problem, text, True)
    return f"{verdict.outcome.value} {verdict.score:g}"  # as text, since NaN does not equal itself


def accepts_its_own_right_response(row: VerifierRow) -> None:
    """The verifier's method ``right`` returns a correct response, or None."""
    text = row.verifier.right(row.problem)
    if text is not None:
        row.require(text, True)


def lets_errors_through(row: VerifierRow) -> None:
    """If a verifier fails, it raises an exception or returns the outcome ``error``, never ``incorrect``.

    The response in this check is a string whose methods raise errors. A verifier that never calls these methods, for
    example because it uses only regular expressions, is not tested.
    """
    for text in row.right[:1]:
        trap = _Trap(text)
        try:
            verdict = row.verifier.verify_answer(row.problem, trap, True)
        except _TrapError:
            continue
        swallowed = trap.touched and verdict.outcome is not Outcome.ERROR
        require(not swallowed, f"an exception while it reads {text!r} became the outcome {verdict.outcome.value!r}")


VERIFIER_LAWS: dict[str, Callable[[VerifierRow], None]] = {
    "reference": makes_a_plain_reference,
    "right responses": accepts_right_responses,
    "wrong responses": rejects_wrong_responses,
    "empty response": rejects_nothing,
    "unclosed reasoning": rejects_unclosed_reasoning,
    "determinism": is_deterministic,
    "own right response": accepts_its_own_right_response,
    "errors": lets_errors_through,
}
"""The laws of every verifier."""


def verifier_checks(
    verifier: Verifier, rows: Sequence[VerifierExample], answer: str = "answer", prompt: str = "problem"
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check, with a function that runs the check on all ``rows``."""
    with breaks("prepare", component=type(verifier).__name__):
        verifier.prepare()
    for law, rule in VERIFIER_LAWS.items():
        yield law, partial(_check_rows, law, rule, [VerifierRow(verifier, *row, answer, prompt) for row in rows])


def _check_rows(law: str, rule: Callable[[VerifierRow], None], rows: Sequence[VerifierRow]) -> None:
    for place, row in enumerate(rows, 1):
        with breaks(law, f"row {place}", type(row.verifier).__name__):
            rule(row)


class _TrapError(Exception):
    """Raised by the methods of a :class:`_Trap`."""


class _Trap(str):
    """A response whose string methods fail; ``touched`` is true if one of the methods was called."""

    touched = False


def _fails(self: _Trap, *arguments: Any, **options: Any) -> Any:
    self.touched = True
    raise _TrapError("the response cannot be read")


_READS = {name for name in dir(str) if not name.startswith("_")}
_READS |= {"__contains__", "__eq__", "__ne__", "__lt__", "__gt__", "__add__", "__iter__", "__len__", "__getitem__"}
_READS |= {"__hash__", "__float__", "__int__", "__format__", "__str__", "__mod__"}
for _name in _READS:
    setattr(_Trap, _name, _fails)
