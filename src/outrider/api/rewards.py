"""Makes verifiers from the reward functions that a caller passes to :func:`outrider.train`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from pydantic import PrivateAttr, ValidationError

from outrider.config.sentences import mistakes
from outrider.errors import UserError
from outrider.importing import load_object, place_of_module
from outrider.record import Outcome, Problem, Verdict
from outrider.verify.function import OTHER_STYLES, Function, NoRewardError, RewardFunction, Style
from outrider.verify.weighted_sum import WeightedSum


def verifier_of(reward: Any, weights: Sequence[float] | None = None, success_at: float | None = None) -> Any:
    """Return the verifier that the argument ``reward`` of :func:`outrider.train` describes.

    A verifier instance, a verifier's name, or a mapping such as ``{"math": {"boxes": "all"}}`` is returned unchanged.
    An importable function is called in separate processes, so that a hanging call can be killed. Any other function is
    called in the run's own process. A list of rewards becomes a weighted sum.

    Args:
        success_at: minimum score of a correct response, for a reward function or a weighted sum.

    Raises:
        UserError: ``reward`` is a function with unsupported parameters; ``weights`` is given, but ``reward`` is not a
            list; or ``success_at`` is given, but ``reward`` is a verifier and not a function or a list.
    """
    if success_at is not None and not isinstance(success_at, int | float):
        raise UserError(f"success_at is {success_at!r:.40}, not a number")
    at = {} if success_at is None else {"success_at": float(success_at)}
    if isinstance(reward, list | tuple):
        if any(isinstance(part, list | tuple) for part in reward):
            raise UserError("reward is a list with a list inside: give one list of rewards")
        return _weighted_sum([verifier_of(part) for part in reward], weights, at)
    if weights is not None:
        raise UserError("reward_weights is given, but reward is not a list of several")
    if not callable(reward) or hasattr(reward, "model_fields"):
        if at:
            raise UserError("success_at is of reward functions and of several rewards; a verifier decides by itself")
        return reward
    style, name = style_of(reward), getattr(reward, "__qualname__", type(reward).__name__)
    where = f"{place_of_module(reward)}:{name}"
    if _can_be_imported(where, reward):
        return {"function": {"function": where, "style": style, **at}}
    verifier = InProcess(function=f"{reward.__module__}:{name.rpartition('.')[2].strip('<>')}", style=style, **at)
    verifier._callable = reward
    verifier.prepare()
    return verifier


def given_again(task: Mapping[str, Any], reward: Any) -> dict[str, Any]:
    """Return the change to a run's configuration that makes the run's verifier call the given reward functions.

    Functions from a notebook cannot be imported, so the caller passes them again to resume or evaluate the run. Weights
    and ``success_at`` stay as in the run.

    Args:
        task: the task in the run's configuration.
        reward: the function, or a list of functions.

    Raises:
        UserError: ``reward`` is not needed, since the run's reward functions can be imported; or the run has several
            rewards, and ``reward`` is not a list of all of them.
    """
    recorded = (task.get("table") or {}).get("verifier")
    [(name, options)] = recorded.items() if isinstance(recorded, Mapping) else [("", {})]
    return {"task.table.verifier": _given_again(name, options, reward)}


def _given_again(name: str, options: Mapping[str, Any], reward: Any) -> Any:
    if name.endswith(f":{InProcess.__name__}"):
        return verifier_of(reward, success_at=options["success_at"])
    if not name.endswith(f":{SumInProcess.__name__}"):
        raise UserError("reward is given, but the run's verifier needs none: other processes find it too")
    parts = options["verifiers"]
    if not isinstance(reward, list | tuple) or len(reward) != len(parts):
        raise UserError(f"reward: the run has {len(parts)} rewards; give a list of all of them, in order")
    made = [
        verifier_of(one) if next(iter(part)).endswith(f":{InProcess.__name__}") else part
        for part, one in zip(parts, reward, strict=True)
    ]
    return _weighted_sum(made, options["weights"], {"success_at": options["success_at"]})


def style_of(function: Callable[..., Any]) -> Style:
    """Return the calling convention of a reward function, which is inferred from the names of its parameters.

    >>> style_of(lambda completions, **columns: [0.0]), style_of(lambda problem, completion: 1.0)
    ('trl', 'plain')
    """
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise UserError(f"reward {function!r:.40}: its parameters cannot be inspected ({error})") from None
    found = [OTHER_STYLES[name] for name in names if name in OTHER_STYLES]
    return "trl" if "trl" in found else "verifiers" if found else "plain"


def _weighted_sum(parts: list[Any], weights: Any, at: Mapping[str, Any]) -> Any:
    if weights is not None and not isinstance(weights, list | tuple):
        raise UserError(f"reward_weights is {type(weights).__name__}: give a list, one number for each reward")
    given = {"verifiers": parts, "weights": None if weights is None else [*weights], **at}
    if not any(isinstance(part, InProcess) for part in parts):
        return {"weighted_sum": given}
    try:
        found = SumInProcess.model_validate(given)
    except ValidationError as error:
        raise UserError(f"reward: {mistakes(error, SumInProcess)[0][1]}") from None
    for part in found.verifiers:
        if isinstance(part, InProcess):
            part._in_sum = True
    return found


class SumInProcess(WeightedSum):
    """A weighted sum of rewards, with at least one reward function that exists only in this process (for example in a
    notebook). All rewards are computed in this process, without a time limit."""

    pooled: ClassVar[bool] = False


class InProcess(Function):
    """A reward function that exists only in this process, for example in a notebook. The function is called in this
    process, without a time limit.

    If the function raises an exception or returns None or NaN, the verdict is ``ERROR``, as for a function in a
    separate process. If a call of the function never ends, the run hangs.
    """

    pooled: ClassVar[bool] = False
    _callable: Callable[..., Any] | None = PrivateAttr(None)
    _in_sum: bool = PrivateAttr(False)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> InProcess:
        copied = type(self)(**self.model_dump())
        copied._in_sum = self._in_sum
        copied._callable = self._callable  # shared, since it may belong to a model or an object with state
        return copied

    @cached_property
    def _parts(self) -> list[RewardFunction]:
        if self._callable is None:
            raise UserError(f"the reward function {self.function} was given in Python: give it again (reward=…)")
        part = RewardFunction(self._callable, self.function)
        if self.style == "plain":
            part.check_plain()
        return [part]

    def sources(self) -> dict[str, str]:
        try:
            return {self.function: inspect.getsource(inspect.unwrap(self._callable))}  # type: ignore[arg-type]
        except (TypeError, OSError):  # a run from disk, an object without source, or interactive code
            return {self.function: ""}

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        try:
            return super().verify_answer(problem, text, finished)
        except NoRewardError as error:
            if self._in_sum:  # the sum skips this reward
                raise
            return Verdict(Outcome.ERROR, math.nan, detail=str(error))
        except Exception as error:  # noqa: BLE001  # as in separate processes, a bug in the function does not end the run
            return Verdict(Outcome.ERROR, math.nan, detail=f"{type(error).__name__}: {error}")


def _can_be_imported(where: str, reward: Callable[..., Any]) -> bool:
    """Return whether a function can be imported. Nested functions cannot be imported. Functions in ``__main__`` count
    as not importable, since an import would run the caller's script again."""
    if where.startswith("__main__:") or not where.rpartition(":")[2].isidentifier():
        return False
    try:
        return load_object(where) is reward
    except UserError:
        return False
