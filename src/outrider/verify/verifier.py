"""The interface of verifiers. A verifier verifies responses, using the fields of the data set's row for the problem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from outrider.errors import nearest
from outrider.options import Options
from outrider.record import Problem, Verdict, unparseable
from outrider.verify.thinking import UNCLOSED, answer_of


class Verifier(Options):
    """A rule that verifies responses. Its fields are the verifier's options in a recipe:
    ``task: {table: {…, verifier: {number: {}}}}``."""

    old_methods: ClassVar[Mapping[str, str]] = {"judge": "verify"}

    pooled: ClassVar[bool] = False
    """Whether verifying needs processes that can be killed: it may hang, use much memory or run third-party code."""

    thinking: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]] | None = Field(
        None,
        description=(
            "map from the opening to the closing mark of reasoning blocks, which the verifier ignores; null: the "
            "common marks, such as <think>; {}: no reasoning blocks"
        ),
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> Any:
        """Return the value of ``Problem.answer``: plain JSON data, made from the fields of the problem's row.

        Args:
            fields: the fields of the row.
            answer: name of the field with the gold answer.

        Raises:
            ValueError: responses cannot be verified with this row; the message states the reason.
        """
        raise NotImplementedError

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify a response. ``finished`` is False if a limit truncated the response.

        Every verifier receives only the text after the reasoning (:mod:`outrider.verify.thinking`). A response whose
        reasoning block is not closed is unparseable, whatever it contains.
        """
        answer = answer_of(text, problem, self.thinking)
        return unparseable(UNCLOSED) if answer is None else self.verify_answer(problem, answer, finished)

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify the part of a response after its reasoning."""
        raise NotImplementedError

    def right(self, problem: Problem) -> str | None:
        """Return a response made from ``Problem.answer`` that must be accepted as correct; None if this is
        impossible."""
        raise NotImplementedError

    def right_otherwise(self, problem: Problem) -> str | None:
        """Return a correct response that writes the gold answer in another notation, such as code instead of LaTeX;
        None if there is none.

        ``outrider validate`` verifies this response. A rejection shows that the verifier probably cannot parse the gold
        answer, and compares responses with it only as text.
        """
        return None

    def prepare(self) -> None:
        """Do slow imports. Each verifying process calls this method once, before the time limit of the first verdict
        starts."""


class PooledVerifier(Verifier):
    """A verifier that runs in a :class:`outrider.verify.pool.VerifierPool`, because it needs limits on time and
    memory."""

    pooled: ClassVar[bool] = True

    seconds: float = Field(5.0, gt=0, description="wall-clock limit in seconds for verifying one response")
    memory_gb: float = Field(
        2.0, gt=0, description="maximum memory, in GiB, that a verifier process may allocate after its start"
    )
    workers: int = Field(
        1,
        ge=1,
        description=(
            "number of verifier processes for each training or evaluation process; verifier processes check "
            "responses in parallel"
        ),
    )


class Prepared:
    """A verifier for a pool. Unpickling calls ``prepare``, so that imports do not count towards a verdict's time."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    def __call__(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return self.verifier.verify(problem, text, finished)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.verifier.prepare()


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Return a field as text. Numbers are written as in JSON.

    Raises:
        ValueError: the field is missing, is neither text nor number, or contains half a surrogate pair.
    """
    if name not in fields:
        raise ValueError(f"no field {name!r} ({nearest(name, fields)})")
    value = fields[name]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError(f"the field {name!r} holds {json.dumps(value, default=str)[:40]}, not a text or number")
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the field {name!r} holds half a surrogate pair, which is no text") from error
    return text
