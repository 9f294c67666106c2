"""A task made from an environment for TRL and from rows in TRL's format. The environment is a class whose methods are
tools."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import Field, PrivateAttr

from outrider.environments.environment import Environment
from outrider.environments.environments import Environments, Failed, Make
from outrider.environments.tool_class import MakeToolEnvironment, tool_schemas
from outrider.errors import UserError
from outrider.importing import Where, source_of
from outrider.record import Problem
from outrider.tasks.epochs import permutation
from outrider.tasks.messages import read_chat
from outrider.tasks.rows import TableRow, read_rows
from outrider.tasks.turn_task import TurnTask


class _Rows(NamedTuple):
    train: list[Problem]
    heldout: list[Problem]
    excluded: int


class Trl(TurnTask):
    """A task made from a class that was written for TRL's ``environment_factory``. The class can be used unchanged. The
    public methods of the class are tools.

    ``reset(**row)`` starts an episode. The chat template shows the tools to the model, which calls them as
    ``<tool_call>{…}</tool_call>``. A turn without a call ends the rollout. The rollout's score is the sum of the
    rewards from ``get_reward`` and the ``reward_funcs``. The text that ``reset`` returns is appended to the last
    message of the prompt. It must be the same for all rollouts of a problem, so it may depend only on the row and on
    the random generators of Python and NumPy, which are seeded per problem.

    Each row is a problem, even if it equals another row. The ``prompt`` of a row is a chat or a text. A training row
    that is also held out is skipped; ``counts["excluded"]`` is the number of skipped rows.

    Deviations from TRL: the reply to a malformed call is an error, whereas TRL ends the rollout. A truncated rollout is
    incorrect and gets no reward. All rollouts of a problem have environments with the same seed.

    Raises:
        UserError: the class or a function does not exist or cannot be used, a row has no prompt, or ``reset`` fails.
    """

    environment_factory: Where = Field(
        description="environment class for TRL, written as module:Class or as path/to/file.py:Class"
    )
    reward_funcs: list[Where] = Field(
        default_factory=list,
        description=(
            "reward functions with TRL's signature, whose rewards are added up; []: use the environment's method "
            "get_reward"
        ),
    )
    success_at: float = Field(1.0, description="minimum total reward at which a rollout counts as correct")
    train_data: str = Field(
        min_length=1,
        description=(
            "training problems: a file (see outrider.tasks.rows) or a Hugging Face Hub dataset (hf:name@config:split)"
        ),
    )
    heldout_data: str = Field(min_length=1, description="held-out problems, in the same formats as train_data")
    seed: int = Field(0, ge=0, description="random seed for the order of training problems")

    _prompted: dict[str, Problem] = PrivateAttr(default_factory=dict)

    @property
    def name(self) -> str:
        return f"trl/{self.environment_factory.rpartition(':')[2]}"

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the data, which changes with the rows and their order, the source files, and ``success_at``."""
        _ = self._maker  # loads the class, so that its errors are reported first
        sources = [[where, source_of(where)] for where in (self.environment_factory, *self.reward_funcs)]
        digest = hashlib.blake2b(json.dumps([self.success_at, sources]).encode(), digest_size=12)
        for side in self._rows[:2]:
            digest.update(json.dumps([self.seed, *(problem.id for problem in side)]).encode())
        return f"{self.name}/{digest.hexdigest()}"

    @property
    def counts(self) -> Mapping[str, int]:
        rows = self._rows
        return {"train": len(rows.train), "heldout": len(rows.heldout), "excluded": rows.excluded}

    @property
    def conversational(self) -> bool:
        return True

    def train(self, index: int) -> Problem:
        rows = self._rows.train
        epoch, position = divmod(index, len(rows))
        return self._with_opening(rows[int(permutation(self.seed, epoch, len(rows))[position])])

    def heldout(self, n: int) -> list[Problem]:
        return [self._with_opening(problem) for problem in self._rows.heldout[:n]]

    def make_environment(self) -> Environment:
        return self._maker()

    def makes(self) -> Make:
        return self._maker

    @cached_property
    def _maker(self) -> MakeToolEnvironment:
        return MakeToolEnvironment(self.environment_factory, self.reward_funcs, self.success_at, self.limits.bytes)

    @cached_property
    def _schemas(self) -> tuple[dict[str, Any], ...]:
        return tool_schemas(self.environment_factory, self._maker.loaded)

    @cached_property
    def _openings(self) -> Environments:
        return self.environments()

    def close(self) -> None:
        """End the process that calls ``reset`` to get the text for prompts. The next prompt starts a new process."""
        if openings := self.__dict__.pop("_openings", None):
            openings.end()

    def _with_opening(self, problem: Problem) -> Problem:
        """Return the problem with a longer prompt: the text that the environment's ``reset`` returns is appended."""
        if problem.id not in self._prompted:
            key = (0, 0)
            self._openings.begin(key, problem, 0)
            [(_, said)] = self._openings.answers()
            self._openings.close([key])
            if isinstance(said, Failed):
                raise UserError(f"problem {problem.id!r}: its environment cannot begin ({said.why})")
            if said.cut:
                raise UserError(
                    f"problem {problem.id!r}: reset returns more than {self.limits.bytes} bytes (limits.bytes)"
                )
            opening = said.observation
            self._prompted[problem.id] = replace(
                problem, prompt=problem.prompt + opening, metadata={"opening": opening}, tools=self._schemas
            )
            if len(self._prompted) == len(self._rows.train) + len(self._rows.heldout):
                self.close()
        return self._prompted[problem.id]

    @cached_property
    def _rows(self) -> _Rows:
        _ = self._maker  # loads the class, so that its errors are reported before any row is read
        heldout = self._problems(self.heldout_data, "test")
        known = {problem.id for problem in heldout}
        every = self._problems(self.train_data, "train")
        train = [problem for problem in every if problem.id not in known]
        if not train:
            raise UserError(f"{self.train_data}: every row is also held out in {self.heldout_data}")
        return _Rows(train, heldout, len(every) - len(train))

    def _problems(self, source: str, split: str) -> list[Problem]:
        seen: Counter[str] = Counter()
        problems = []
        for row in read_rows(source, split):
            try:
                text = json.dumps(row.fields, sort_keys=True)
            except TypeError as error:
                raise UserError(f"{row.place}: a field is no plain data: {error}") from error
            seen[text] += 1
            digest = hashlib.blake2b(f"{seen[text]} {text}".encode(), digest_size=8).hexdigest()
            problems.append(_problem(row, digest))
        if not problems:
            raise UserError(f"{source}: holds no rows")
        return problems


def _problem(row: TableRow, digest: str) -> Problem:
    """Return the problem of a row, without the text that ``reset`` returns."""
    if isinstance(prompt := row.fields.get("prompt"), str):
        return Problem(digest, prompt, dict(row.fields))
    try:
        before, prompt = read_chat(row.fields, "prompt")
    except ValueError as error:
        raise UserError(f"{row.place}: {error}") from error
    return Problem(digest, prompt, dict(row.fields), messages_before=before)
