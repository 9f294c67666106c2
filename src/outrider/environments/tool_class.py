"""Classes whose methods are tools, as in TRL's ``environment_factory``."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from outrider.environments.environment import Environment, Reply
from outrider.environments.tool_calls import ToolCall, answered, read_turn
from outrider.errors import UserError
from outrider.importing import load_object
from outrider.record import Outcome, Problem, Verdict, identity_seed
from outrider.verify.function import RewardFunction

_NO_TOOLS = ("reset", "get_reward")
_UNKNOWN = ("completion_ids", "trainer_state", "log_extra", "log_metric")  # arguments that only TRL's trainer provides


class ToolClass(NamedTuple):
    """A loaded tool class: a function that creates an instance, the names of the tools, and the reward functions."""

    make: Callable[[], Any]
    tools: list[str]
    rewards: list[RewardFunction]


def load_tool_class(factory: str, rewards: Sequence[str]) -> ToolClass:
    """Load an environment class, or a function that creates an environment, by its import path.

    An import path is ``module:name`` or ``path/to/file.py:name``. As in TRL, all public methods except ``reset`` and
    ``get_reward`` are tools.

    Raises:
        UserError: the class does not exist, is not callable, or lacks ``reset``, tools or rewards. Also raised if a
            reward function needs an argument that only TRL's trainer provides.
    """
    make = load_object(factory)
    if not callable(make):
        raise UserError(f"{factory} is {type(make).__name__}, not a class or function that creates an environment")
    try:
        kind = type(make())
    except Exception as error:
        raise UserError(f"{factory} failed to create an environment: {type(error).__name__}: {error}") from error
    methods = [name for name, _ in inspect.getmembers(kind, inspect.isfunction)]
    if "reset" not in methods:
        raise UserError(f"{factory}: {kind.__name__} has no method reset, which begins a rollout")
    tools = [name for name in methods if name not in _NO_TOOLS and not name.startswith("_")]
    if not tools:
        raise UserError(f"{factory}: {kind.__name__} has no public method beside reset, so the policy has no tool")
    functions = [RewardFunction(load_object(where), where) for where in rewards]
    for function in functions:
        if asked := [name for name in function.needed if name in _UNKNOWN]:
            raise UserError(f"function {function.where!r}: asks for {asked[0]}, which is not known where it is called")
    if not functions and "get_reward" not in methods:
        raise UserError(
            f"{factory}: {kind.__name__} has no method get_reward, and no function rewards it either (reward_funcs)"
        )
    return ToolClass(make, tools, functions)


def tool_schemas(factory: str, loaded: ToolClass) -> tuple[dict[str, Any], ...]:
    """Create the JSON schemas of the tools for the chat template, from type hints and docstrings.

    Raises:
        UserError: a method lacks a docstring, or an argument lacks a type or description.
    """
    from transformers.utils.chat_template_utils import get_json_schema  # imported here, since the import is slow

    environment, schemas = loaded.make(), []
    for name in loaded.tools:
        try:
            schemas.append(get_json_schema(getattr(environment, name)))
        except Exception as error:
            raise UserError(f"{factory}: the tool {name} cannot be described: {error}") from error
    return tuple(schemas)


class MakeToolEnvironment:
    """Picklable function that creates a :class:`ToolEnvironment` from a class. When unpickled, it imports the class
    again."""

    def __init__(self, factory: str, rewards: Sequence[str], success_at: float, most_bytes: int) -> None:
        self._where = (factory, list(rewards), success_at, most_bytes)
        self.loaded = load_tool_class(factory, rewards)

    def __reduce__(self) -> tuple[type[MakeToolEnvironment], tuple[Any, ...]]:
        return MakeToolEnvironment, self._where

    def __call__(self) -> Environment:
        return ToolEnvironment(self.loaded, *self._where[2:])


class ToolEnvironment(Environment):
    """An environment whose tools are the methods of a class. ``Problem.answer`` holds the problem's row of the data
    set; the row's fields are the arguments of ``reset``.

    The text that ``reset`` returns is part of the prompt, so all environments of a problem must start in the same way.
    For this reason, the random generators of Python and NumPy get the same seed for all rollouts of a problem. A turn
    without a call ends the rollout. The rollout's reward is the sum of the values of all reward functions.
    """

    def __init__(self, loaded: ToolClass, success_at: float, most_bytes: int) -> None:
        import asyncio  # imported here, since the import is slow

        self._loaded, self._success_at, self._most_bytes = loaded, success_at, most_bytes
        self._environment = loaded.make()
        self._said: list[dict[str, Any]] = []
        self._waiting = asyncio.Runner()

    def begin(self, problem: Problem, seed: int) -> str:
        opening = self._reset(problem)
        written = problem.metadata.get("opening")
        if written is None:  # the caller needs only the opening text, for the prompt
            return opening
        if opening != written:
            raise ValueError(f"reset returned {opening[:60]!r}, but the prompt has {written[:60]!r}")
        self._problem = problem
        return ""

    def _reset(self, problem: Problem) -> str:
        seed = identity_seed("reset", problem.id)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - third-party classes use this generator
        said = self._environment.reset(**problem.answer)
        if said is not None and not isinstance(said, str):
            raise TypeError(f"reset said {type(said).__name__}, not a text or None")
        return said or ""

    def step(self, text: str) -> Reply:
        thinking, content, calls = read_turn(text, self._problem.prompt_end)
        message: dict[str, Any] = {"role": "assistant", "content": content}
        message |= {} if thinking is None else {"reasoning_content": thinking}
        if not calls:
            self._said.append(message)
            return Reply(done=True, verdict=self._verdict(content))
        self._said.append({**message, "tool_calls": [call.message for call in calls]})
        results = [self._called(call) for call in calls]
        for call, (result, _) in zip(calls, results, strict=True):
            self._said.append({"role": "tool", "name": call.name, "content": result})
        return answered([result for result, _ in results], any(wrong for _, wrong in results), self._most_bytes)

    def _called(self, call: ToolCall) -> tuple[str, bool]:
        """Call a tool. Return the tool's result as text, and whether the result is an error."""
        wrong = call.wrong or ("" if call.name in self._loaded.tools else f"Tool {call.name} not found.")
        if not wrong:
            try:
                return str(self._awaited(getattr(self._environment, call.name)(**call.arguments))), False
            except Exception as error:  # noqa: BLE001 - a tool's exception becomes the tool's result
                wrong = str(error) or type(error).__name__
        return str({"error": wrong}), True

    def _verdict(self, answer: str) -> Verdict:
        """Return a verdict with the outcome *correct* if the rewards sum to at least ``success_at``, and *incorrect*
        otherwise. Rewards of None are skipped."""
        prompt = [*(self._problem.messages_before or ()), {"role": "user", "content": self._problem.prompt}]
        columns = {name: [value] for name, value in self._problem.answer.items() if name not in _LISTS}
        given = {**columns, "prompts": [prompt], "completions": [self._said], "environments": [self._environment]}
        rewards = [_only(function, self._awaited(function.call(given))) for function in self._loaded.rewards]
        if hasattr(self._environment, "get_reward"):
            rewards.append(self._awaited(self._environment.get_reward()))
        numbers = [float(reward) for reward in rewards if reward is not None]
        if not numbers or not math.isfinite(score := sum(numbers)):
            raise ValueError(f"the rewards are {rewards}, which is no finite number")
        return Verdict(Outcome.CORRECT if score >= self._success_at else Outcome.INCORRECT, score, answer=answer[:200])

    def _awaited(self, result: Any) -> Any:
        if not inspect.isawaitable(result):
            return result

        async def wait() -> Any:
            return await result

        return self._waiting.run(wait())

    def close(self) -> None:
        self._waiting.close()


_LISTS = ("prompt", "completion", "completion_ids")  # columns that TRL drops or passes to rewards in another form


def _only(function: RewardFunction, scores: Any) -> Any:
    if not isinstance(scores, Sequence) or len(scores) != 1:
        raise TypeError(f"{function.where} returned {scores!r:.40}, not a list with the score of one completion")
    return scores[0]
