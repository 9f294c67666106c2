"""The contract of a verifier: how responses to a table's problems are verified, and the fields that a row must have."""

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
    """A rule that verifies. Fields are the recipe's options: ``task: {table: {…, verifier: {number: {}}}}``."""

    old_methods: ClassVar[Mapping[str, str]] = {"judge": "verify"}

    pooled: ClassVar[bool] = False
    """Whether a verdict may hang, grow or run foreign code, and is made in processes that can be killed."""

    thinking: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]] | None = Field(
        None,
        description=(
            "opening and closing marks of reasoning, which is not verified; null: the common marks; {}: no reasoning"
        ),
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> Any:
        """The value of ``Problem.answer``: plain JSON data, from the fields of its row.

        Args:
            fields: of the row.
            answer: name of the field with the gold answer.

        Raises:
            ValueError: no response could be verified by this row, with the reason.
        """
        raise NotImplementedError

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """The verdict on a response. ``finished`` is False where it was truncated by a limit.

        Every verifier gets what stands behind the reasoning (:mod:`outrider.verify.thinking`): a block that is not
        closed is unparseable, whatever it holds.
        """
        answer = answer_of(text, problem, self.thinking)
        return unparseable(UNCLOSED) if answer is None else self.verify_answer(problem, answer, finished)

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """The verdict on what a response says behind its reasoning."""
        raise NotImplementedError

    def right(self, problem: Problem) -> str | None:
        """A response that has to be accepted as correct, made from the reference; None where none can be made."""
        raise NotImplementedError

    def right_otherwise(self, problem: Problem) -> str | None:
        """The same in another notation, by which a check of a data set finds gold answers that are compared as text
        alone; None where there is no other."""
        return None

    def prepare(self) -> None:
        """Import what takes long. Called once in each process that verifies, before the first clock starts."""


class PooledVerifier(Verifier):
    """A verifier whose verdicts need limits: they are made in a :class:`outrider.verify.pool.VerifierPool`."""

    pooled: ClassVar[bool] = True

    seconds: float = Field(5.0, gt=0, description="wall-clock limit in seconds per verdict")
    memory_gb: float = Field(2.0, gt=0, description="maximum memory growth of a verifier process in GiB")
    workers: int = Field(1, ge=1, description="verifier processes per rank")


class Prepared:
    """A verifier for a pool: unpickling prepares it, so that imports do not count in the time of a verdict."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    def __call__(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return self.verifier.verify(problem, text, finished)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.verifier.prepare()


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """A field as text; numbers as JSON writes them.

    Raises:
        ValueError: it is missing, neither text nor number, or holds half a surrogate pair.
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
