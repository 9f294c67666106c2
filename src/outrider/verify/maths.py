r"""The verifier for mathematical answers, which first compares text and numbers, and then uses math-verify's parser.

The fast and reliable steps come first:

1. The answer is extracted only from the completion, so boxes and examples in the prompt do not count.
2. An answer whose text equals the gold answer, apart from typesetting, is correct. Plain numbers are compared exactly.
   Both comparisons take microseconds.
3. An answer that :func:`outrider.verify.latex.refuse` rejects is unparseable. This check takes microseconds.
4. Answers in words are compared as text, ignoring case.
5. Other answers are read as LaTeX and compared as mathematical objects (:mod:`outrider.verify.algebra`). This
   comparison takes milliseconds. After a few seconds, the comparing process is killed, and the verdict is ``timeout``.
6. An answer that only copies a formula from the question, such as 99^2+99+1 instead of 9901, is incorrect.

The verifier accepts a value with or without its unit (5 cm is 5) and both readings of a percentage (50% is 50 and 0.5).
Degrees are plain numbers (90° is 90, not pi/2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field

from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict, incorrect, unparseable
from outrider.texts import box_spans
from outrider.verify.answer_lines import answer_line, last_answer_line
from outrider.verify.answers import (
    LONGEST,
    boxes,
    last_boxes,
    last_number,
    normalise,
    shown,
)
from outrider.verify.choice_letter import option_text, same_choice
from outrider.verify.notation import in_other_notation
from outrider.verify.short_answer import gold_of
from outrider.verify.verifier import PooledVerifier

_BEST_FIRST = (Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE)
_LETTER = "by its letter"
_WARM = r"""
\frac{1}{2}, -\frac{3\sqrt{2}}{5}, 3\sqrt{13}, 2^{10}, x^2+2x+1, (x-1)(x+2)^2, \frac{2x-7}{(x+1)(x-2)}, 10\pi, 10!
2 \cdot 3^{5}, 8.7 \times 10^{8}, a_1+b_{2}, e^{-2t}, \sin x, \log_2 3, 1+2i, -x^4+3x^2-7, \sqrt[3]{2}, \frac{\pi}{3}
\frac{-1+\sqrt{17}}{2}, 12\sqrt{3}-4, \begin{pmatrix} 1 & 2 \\ 3 & -4 \end{pmatrix}
"""


class Maths(PooledVerifier):
    r"""Accepts a response if its final answer equals the gold answer as a mathematical object, in any form.

    By default, decimals are exact: 0.33 is not 1/3. In a list of gold answers, each answer is an alternative, and a
    response needs only one of them. If several answers are required, the gold answer is one text with commas between
    the answers.

    Raises:
        UserError: the package math-verify is not installed.
    """

    boxes: Literal["last", "first", "all"] = Field(
        "last",
        description=(
            "\\boxed{} answers that are compared with the gold answer: the last (last), the first (first), or all "
            'boxes as one list (all); last also includes boxes directly before the last one, joined to it by "and", '
            "a comma or nothing"
        ),
    )
    no_box: Literal["unparseable", "answer_line", "last_number"] = Field(
        "unparseable",
        description=(
            'answer of a response without \\boxed{}: none (unparseable), the text after "Answer:" or "####" '
            "(answer_line), or the last number (last_number)"
        ),
    )
    tolerance: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "maximum relative error of the response's answer if the gold answer is a decimal number; 0: answers must "
            "be exactly equal"
        ),
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> str | list[str]:
        _require()
        value = fields.get(answer)
        if not isinstance(value, list):
            return self._gold(fields, answer)
        if not value:
            raise ValueError(f"the field {answer!r} holds an empty list")
        return list(dict.fromkeys(self._gold({answer: one}, answer) for one in value))

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        answer = self._answer(text, finished)
        if answer is None:
            return unparseable("no final answer" if finished else "truncated before a final answer")
        if len(answer) > LONGEST:  # checked first, since every later step takes at least linear time
            return replace(unparseable(f"{len(answer)} characters, at most {LONGEST} are read"), answer=shown(answer))
        from outrider.verify.copying import (
            copied,  # imported here, since a recipe needs only the options of the verifier
        )

        try:
            results = [self._compared(gold, answer) for gold in _all(problem.answer)]
        except (RecursionError, MemoryError) as error:  # the answer's text is the cause, not the verifier
            return replace(unparseable(f"too much to read ({type(error).__name__})"), answer=shown(answer))
        outcome, detail = min(results, key=lambda pair: _BEST_FIRST.index(pair[0]))
        if outcome is Outcome.CORRECT and detail != _LETTER and copied(problem.prompt, answer, _all(problem.answer)):
            return incorrect(shown(answer), "a formula of the question")
        return Verdict(outcome, float(outcome is Outcome.CORRECT), answer=shown(answer), detail=detail)

    def _compared(self, gold: str, answer: str) -> tuple[Outcome, str]:
        """Compare the answer with one gold answer. If the gold answer is a multiple-choice option, compare the option
        letters. If the answer has no letter, compare the option's text."""
        same = same_choice(gold, answer)
        if same is None:
            from outrider.verify.equality import compare

            return compare(option_text(gold), answer, self.tolerance)
        return (Outcome.CORRECT, _LETTER) if same else (Outcome.INCORRECT, "another option")

    def right(self, problem: Problem) -> str:
        return f"\\boxed{{{_all(problem.answer)[0]}}}"

    def right_otherwise(self, problem: Problem) -> str | None:
        other = in_other_notation(_all(problem.answer)[0])
        return None if other is None else f"\\boxed{{{other}}}"

    def prepare(self) -> None:
        """Import the parser and the comparison code, and parse some answers so that later verdicts are fast."""
        _require()
        import logging

        import math_verify  # noqa: F401

        from outrider.verify import copying, equality  # noqa: F401
        from outrider.verify.latex import expression

        logging.getLogger("math_verify").setLevel(logging.ERROR)  # no warning that its time limit is off
        # ANTLR builds its tables when it parses, which takes seconds for the first answers
        for example in _WARM.replace("\n", ",").split(","):
            if example.strip():
                expression(example.strip())

    def _answer(self, text: str, finished: bool) -> str | None:
        r"""Return the answer from a response. In a truncated response, only a closed box counts, since the last line
        may be incomplete.

        If both boxes and answer lines are read, an answer line after the last box replaces the box.
        """
        if (boxed := self._boxed(text, repeated=True)) is not None:
            reads_both = self.no_box == "answer_line" and finished and self.boxes != "first"
            line = last_answer_line(text) if reads_both else None
            return boxed if line is None or line[0] < max(begin for begin, _ in box_spans(text)) else line[1]
        if self.no_box == "unparseable" or not finished:
            return None
        return answer_line(text) if self.no_box == "answer_line" else last_number(text)

    def _boxed(self, text: str, repeated: bool = False) -> str | None:
        """Join the boxes that contain the answer into one list. If ``repeated``, keep several boxes with equal
        contents."""
        from outrider.verify.repetitions import joined_boxes  # here, as above

        found = last_boxes(text) if self.boxes == "last" else boxes(text)
        contents = [b.strip() for b in (found[:1] if self.boxes == "first" else found) if b.strip()]
        # a box that is too long to read is not normalised, since normalising a megabyte takes half a second
        keys = [normalise(b) if len(b) <= LONGEST else b for b in contents]
        return joined_boxes(contents, keys, repeated) if contents else None

    def _gold(self, fields: Mapping[str, Any], name: str) -> str:
        from outrider.verify.latex import UnreadableError, refuse

        gold = gold_of(fields, name, self._boxed)
        try:
            refuse(gold)
        except UnreadableError as reason:
            raise ValueError(f"the answer {gold[:80]!r} is beyond what is compared: {reason}") from reason
        return gold


def _all(answer: str | list[str]) -> list[str]:
    return [answer] if isinstance(answer, str) else answer


def _require() -> None:
    """Raise UserError if math-verify is not installed, so that a run fails before it starts and not later."""
    if find_spec("math_verify") is None:
        raise UserError("verifier: math needs the package math-verify: pip install 'outrider[math]'")
