"""A verifier that runs in a process pool and calls a Python function, such as a reward function written for TRL or
``verifiers``."""

from __future__ import annotations

import inspect
import json
import math
import string
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, SupportsFloat

from pydantic import Field, field_validator, model_validator

from outrider.errors import UserError, nearest
from outrider.importing import Where, load_object, text_without_import
from outrider.record import Outcome, Problem, Verdict
from outrider.verify.verifier import PooledVerifier, text_of

Style = Literal["plain", "trl", "verifiers"]

OTHER_STYLES = {
    "completions": "trl",
    "prompts": "trl",
    "prompt": "verifiers",
    "answer": "verifiers",
    "state": "verifiers",
}
"""Styles other than ``plain``, keyed by the parameter names by which they are recognised."""


class NoRewardError(TypeError):
    """Raised if a reward function returned None, which means (as in TRL) that it does not apply to the problem."""


class Function(PooledVerifier):
    """Accepts a response if a function's score is at least ``success_at``. Exceptions, None and NaN give ``ERROR``, not
    score 0.

    The attribute ``answer`` of a problem is a dictionary with the keys ``answer`` (the gold answer or None) and
    ``fields`` (the problem's table row). ``style`` decides how the function is called:

    - ``plain``: ``f(problem, completion)`` returns a number or a :class:`outrider.record.Verdict`.
    - ``trl``: ``f(prompts=[…], completions=[…], **columns)`` returns a list of numbers, as a reward function of TRL's
      GRPOTrainer does. Every list has one entry, so reward functions that compare the rollouts of a group do not work.
      The columns are the fields of the row. Token ids and the trainer's state are not available.
    - ``verifiers``: the function receives, by parameter name, any of ``prompt``, ``completion``, ``answer``, ``info``,
      ``task``, ``state`` and the fields of the row. The score of a rubric is the weighted sum of its functions.

    The option ``completion`` selects the whole response, or only the text after the reasoning. In the second case, a
    response with an unclosed reasoning block is unparseable. Reward functions for TRL and ``verifiers`` expect the
    whole response, and often search it for reasoning tags.

    Functions may be ``async``. Each function is also loaded once before sampling starts, so that errors appear early.

    Raises:
        UserError: the file, module or function does not exist, cannot be imported, or does not match the style.
    """

    function: Where = Field(
        description="import path of the scoring function, written as module:name or as path/to/file.py:name"
    )
    style: Style = Field(
        "plain",
        description=(
            "calling convention of the function: with problem and response (plain), as TRL calls reward functions "
            "(trl), or as the package verifiers calls reward functions (verifiers)"
        ),
    )
    completion: Literal["answer", "whole"] | None = Field(
        None,
        description=(
            "text passed to the function: only the answer after the reasoning (answer), or the whole response "
            "(whole); null: answer with style: plain, and whole with any other style"
        ),
    )
    messages: bool = Field(
        False,
        description=(
            "whether to pass prompts and responses as lists of chat messages instead of text; not possible with "
            "style: plain"
        ),
    )
    success_at: float = Field(1.0, description="minimum score at which a response counts as correct")
    gold: str | None = Field(
        None,
        description=(
            "template of a correct response, with which `outrider validate` tests the function; {field} stands for a "
            "field of the problem's table row; null: no test"
        ),
    )

    @field_validator("gold")
    @classmethod
    def _names_fields(cls, gold: str | None) -> str | None:
        if any(not name.isidentifier() for name in _names_in(gold)):
            raise ValueError("write {{ and }} for braces that name no field")
        return gold

    @model_validator(mode="after")
    def _plain_has_text(self) -> Function:
        if self.messages and self.style == "plain":
            raise ValueError("messages: a plain function gets the problem and the text of the response")
        return self

    def __reduce__(self) -> tuple[Callable[[Any], Function], tuple[dict[str, Any]]]:
        return type(self).model_validate, (self.model_dump(),)  # loaded functions may not pickle; prepare reloads them

    def prepare(self) -> None:
        _ = self._parts

    def sources(self) -> dict[str, str]:
        return {self.function: text_without_import(self.function)}

    def reference(self, fields: Mapping[str, Any], answer: str) -> dict[str, Any]:
        kept = {"answer": fields.get(answer), "fields": dict(fields)}
        offered = self._offered(Problem("", "", kept), "")
        for part in self._parts:  # loads the functions, so that a missing file is reported before a missing field
            if self.style != "plain" and (missing := [n for n in part.needed if n not in {**offered, **part.given}]):
                hint = nearest(missing[0], offered)
                raise ValueError(f"no field {missing[0]!r} ({hint}), which {self.function} asks for")
        try:
            json.dumps(fields)
        except TypeError as error:
            raise ValueError(f"a field is no plain data: {error}") from error
        for name in _names_in(self.gold):
            text_of(fields, name)
        return kept

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        whole = self.style != "plain" if self.completion is None else self.completion == "whole"
        return self.verify_answer(problem, text, finished) if whole else super().verify(problem, text, finished)

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        if self.style == "plain":
            return self._verdict(_awaited(self._parts[0].function(problem, text)))
        offered = self._offered(problem, text)
        if self.style == "trl":
            return self._verdict(self._only(_awaited(self._parts[0].call(offered))))
        return self._verdict(sum(part.weight * self._number(_awaited(part.call(offered))) for part in self._parts))

    def right(self, problem: Problem) -> str | None:
        return None if self.gold is None else self.gold.format_map(problem.answer["fields"])

    def _offered(self, problem: Problem, text: str) -> dict[str, Any]:
        """Return the arguments that a function can receive by name."""
        answer, fields = problem.answer["answer"], problem.answer["fields"]
        prompt: Any = problem.prompt
        completion: Any = text
        if self.messages:
            prompt = [*(problem.messages_before or ()), *_message("user", prompt)]
            completion = _message("assistant", completion)
        if self.style == "trl":
            columns = {name: [value] for name, value in fields.items() if name not in ("prompt", "completion")}
            return {**columns, "prompts": [prompt], "completions": [completion]}
        named = {"info": {}, **fields, "prompt": prompt, "completion": completion}
        named |= {} if answer is None else {"answer": answer}
        return {**named, "state": named}

    @cached_property
    def _parts(self) -> list[RewardFunction]:
        """The user's function, or the functions of a rubric."""
        loaded = load_object(self.function)
        if self.style == "verifiers" and hasattr(loaded, "funcs"):
            given = getattr(loaded, "class_objects", {})
            pairs = zip(loaded.funcs, loaded.weights, strict=True)
            return [RewardFunction(function, self.function, weight, given) for function, weight in pairs if weight]
        part = RewardFunction(loaded, self.function)
        if self.style == "plain":
            part.check_plain()
        return [part]

    def _only(self, scores: Any) -> Any:
        if not isinstance(scores, list | tuple) or len(scores) != 1:
            raise TypeError(f"{self.function} returned {_shown(scores)}, not a list with the score of one completion")
        return scores[0]

    def _number(self, score: Any) -> float:
        if score is None:
            raise NoRewardError(f"{self.function} returned None, not a number")
        if not isinstance(score, SupportsFloat):
            raise TypeError(f"{self.function} returned {_shown(score)}, not a number")
        if not math.isfinite(score):
            raise ValueError(f"{self.function} returned {float(score)}, not a finite number")
        return float(score)

    def _verdict(self, result: Any) -> Verdict:
        if not isinstance(result, Verdict):
            score = self._number(result)
            return Verdict(Outcome.CORRECT if score >= self.success_at else Outcome.INCORRECT, score)
        if result.outcome not in (Outcome.TIMEOUT, Outcome.ERROR):
            self._number(result.score)
        return result


class RewardFunction:
    """A reward function, with its parameters, the arguments that a rubric adds, and its weight in the rubric's sum."""

    def __init__(
        self, function: Any, where: str, weight: float = 1.0, given: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.function, self.where, self.weight, self.given = function, where, weight, given
        if not callable(function):
            raise UserError(f"function {where!r}: is {_shown(function)}, which cannot be called")
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise UserError(f"function {where!r}: its parameters cannot be inspected ({error})") from error
        parameters = self.signature.parameters.values()
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.needed = [
            p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ]

    def check_plain(self) -> None:
        """Raise an error if the function does not accept a problem and a completion, or has parameters of another
        style."""
        names = self.signature.parameters
        other = next((OTHER_STYLES[name] for name in names if name in OTHER_STYLES), None)
        try:
            self.signature.bind(None, None)
            fits = other is None
        except TypeError:
            fits = False
        if not fits:
            hint = f"; style: {other} calls by such names" if other else ""
            raise UserError(f"function {self.where!r}: takes {self.signature}, not (problem, completion){hint}")

    def call(self, offered: Mapping[str, Any]) -> Any:
        """Call the function with the offered arguments that the function accepts by name."""
        arguments = {**offered, **self.given}
        return self.function(**{k: v for k, v in arguments.items() if self.takes_all or k in self.signature.parameters})


def _awaited(result: Any) -> Any:
    """Return the result, after awaiting it if it is a coroutine."""

    async def wait() -> Any:
        return await result

    if not inspect.isawaitable(result):
        return result
    import asyncio  # imported here, since the import is slow
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as thread:  # this thread already runs an event loop, as in a notebook
        return thread.submit(asyncio.run, wait()).result()


def _message(role: str, text: Any) -> Any:
    return [{"role": role, "content": text}]


def _names_in(template: str | None) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(template or "") if name is not None]


def _shown(value: Any) -> str:
    return "None" if value is None else f"{value!r:.40} of type {type(value).__name__}"
