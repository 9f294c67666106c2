"""Any table of problems as a task: JSON lines, Parquet or a Hugging Face dataset."""

from __future__ import annotations

import hashlib
import json
import string
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, model_validator

from outrider.errors import UserError, nearest
from outrider.pieces import PieceOf
from outrider.record import Problem, Verdict, identity_seed
from outrider.record.normalised import normalised
from outrider.tasks.epochs import permutation
from outrider.tasks.prompts import prompt_text
from outrider.tasks.rows import Row, read_rows
from outrider.tasks.task import Task
from outrider.verify.judge import Judge, PooledJudge, Prepared, text_of
from outrider.verify.judges import JUDGES
from outrider.verify.short_answer import Number

if TYPE_CHECKING:  # a recipe that only names the task should not wait for the machinery of processes
    from outrider.verify.pool import Item, VerifierPool

Read = TypeVar("Read")


class _Sides(NamedTuple):
    train: list[Problem]
    heldout: list[Problem]
    left_out: int
    other_levels: int = 0


class Table(Task):
    r"""Problems from two tables: one to train on, one held out. See :mod:`outrider.tasks.rows` for the formats.

    Training runs through seeded permutations of its table, epoch after epoch. A training problem whose prompt is held
    out as well (compared without case, spacing and Unicode variants) is left out and counted in ``counts``, and so is
    one of a level that is not among ``levels``.
    Held-out problems come from each level in turn, in an order that does not depend on that of the file.

    The ``prompt`` is a text with fields of the table, or the name of one of :mod:`outrider.tasks.prompts`.
    What a right answer is and how a response is judged is the ``judge``'s business (:mod:`outrider.verify.judges`).
    Nothing is read before the first problem is asked for.

    Raises:
        UserError: names the file, line and field of what is missing, broken, empty or there twice.
    """

    train_data: str | None = Field(
        None, min_length=1, description="a .jsonl, .jsonl.gz or .parquet file, or hf:name@config:split; null: none"
    )
    heldout_data: str = Field(min_length=1, description="the same, for evaluation")
    prompt: str = Field("{problem}\n", description="text with {field}s, {{ and }} for braces; or a template's name")
    question: str = Field("problem", description="field that a named template shows")
    answer: str = Field("answer", min_length=1, description="field of the right answer")
    id: str | None = Field(None, description="field of the id; null: a hash of the prompt")
    level: str | None = Field(None, description="field of the level, needed where held out; null: no levels")
    levels: list[str] = Field([], description="levels to train on; []: all")
    judge: Annotated[Judge, PieceOf(JUDGES, "judge")] = Field(default_factory=Number, description="of responses")
    seed: int = Field(0, ge=0, description="of the order of training")

    @model_validator(mode="after")
    def _prompt_names_fields(self) -> Table:
        text = prompt_text(self.prompt, self.question)
        try:
            parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
        except ValueError as error:
            raise ValueError(f"prompt: write {{{{ and }}}} for braces that name no field ({error})") from error
        for _, name, spec, conversion in parts:
            if not str(name).isidentifier() or spec or conversion:
                raise ValueError(f"prompt: {{{name}}} is not a field; write {{{{ and }}}} for braces")
            if name == self.answer:
                raise ValueError(f"prompt: {{{name}}} would show the right answer")
        if self.levels and self.level is None:
            raise ValueError("levels: name the field that says a problem's level (level)")
        if not parts:
            raise ValueError("prompt: without a {field} it is the same for every problem")
        return self

    @property
    def name(self) -> str:
        return "table"

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the problems of either side, with their order, and with the seed."""
        digest = hashlib.blake2b(digest_size=12)
        for side in (self._sides.train, self._sides.heldout):
            digest.update(json.dumps([self.seed, *([p.id, p.prompt, p.answer, p.level] for p in side)]).encode())
        return f"table/{digest.hexdigest()}"

    @property
    def counts(self) -> dict[str, int]:
        """Problems of each side, and how many of the training table were left out."""
        sides = self._sides
        counts = {"train": len(sides.train), "heldout": len(sides.heldout), "left_out": sides.left_out}
        return counts | ({"of_other_levels": sides.other_levels} if self.levels else {})

    def train(self, index: int) -> Problem:
        problems = self._sides.train
        if not problems:
            raise UserError("task.table has no train_data, so there is nothing to train on")
        epoch, position = divmod(index, len(problems))
        return problems[int(permutation(self.seed, epoch, len(problems))[position])]

    def heldout(self, n: int) -> list[Problem]:
        """The first ``n`` held-out problems, each level in turn; all of them where there are fewer."""
        return self._sides.heldout[:n]

    def right(self, problem: Problem) -> str | None:
        return self.judge.right(problem)

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """What the judge says; in a process that can be killed where it asks for one."""
        if self.judge.pooled:
            return self.verify_all([(problem, text, finished)])[0]
        start = time.perf_counter()
        verdict = self.judge.judge(problem, text, finished)
        return replace(verdict, seconds=time.perf_counter() - start)

    def verify_all(self, items: Sequence[Item]) -> list[Verdict]:
        return self._pool.verify(items) if self.judge.pooled else super().verify_all(items)

    def close(self) -> None:
        """End the processes that judge. The next verdict would start new ones."""
        if pool := self.__dict__.pop("_pool", None):
            pool.close()

    @cached_property
    def _pool(self) -> VerifierPool:
        from outrider.verify.pool import VerifierPool

        judge = self.judge
        assert isinstance(judge, PooledJudge)
        return VerifierPool(Prepared(judge), judge.workers, judge.seconds, judge.memory_gb)

    @cached_property
    def _sides(self) -> _Sides:
        heldout = self._problems(self.heldout_data, heldout=True)
        if self.train_data is None:
            return _Sides([], levels_in_turn(heldout), 0)
        table = self._problems(self.train_data, heldout=False)
        chosen = [p for p in table if not self.levels or p.level in self.levels]
        if not chosen:
            known = sorted({p.level for p in table} - {""})
            raise UserError(
                f"{self.train_data}: no problem is of the levels {', '.join(self.levels)} "
                f"({nearest(self.levels[0], known) if known else 'none has a level'})"
            )
        seen = {normalised(p.prompt) for p in heldout}
        train = [p for p in chosen if normalised(p.prompt) not in seen]
        if not train:
            raise UserError(f"{self.train_data}: every problem is also held out in {self.heldout_data}")
        return _Sides(train, levels_in_turn(heldout), len(chosen) - len(train), len(table) - len(chosen))

    def _problems(self, source: str, heldout: bool) -> list[Problem]:
        problems: list[Problem] = []
        places: dict[str, str] = {}
        for row in read_rows(source, split="test" if heldout else "train"):
            problem = self.problem(row, heldout)
            if (first := places.setdefault(problem.id, row.place)) != row.place:
                same = "prompt" if self.id is None else f"{self.id} {problem.id!r}"
                raise UserError(f"{row.place}: the same {same} as {first}")
            problems.append(problem)
        if not problems:
            raise UserError(f"{source}: holds no problems")
        return problems

    def problem(self, row: Row, heldout: bool) -> Problem:
        """The problem of one row, which is refused with its place and what is wrong with it."""
        text = prompt_text(self.prompt, self.question)
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        fields = {name: _told(row, text_of, name) for name in names}
        prompt = text.format_map(fields)
        return Problem(
            id=_hash(prompt) if self.id is None else _told(row, text_of, self.id),
            prompt=prompt,
            answer=_told(row, self.judge.reference, self.answer),
            level=self._level(row, heldout),
            metadata={"question": fields[names[0]]} if len(fields) == 1 else {},  # where examples are put in
        )

    def _level(self, row: Row, heldout: bool) -> str:
        """Held-out rows need the field, training tables often lack it; null is no level on either side."""
        level = self.level
        if level is None or (level not in row.fields and not heldout):
            return ""
        return "" if row.fields.get(level, "") is None else _told(row, text_of, level)


def _told(row: Row, read: Callable[[Mapping[str, Any], str], Read], name: str) -> Read:
    """What ``read`` makes of a field of the row; what is wrong with it is told with the row's place."""
    try:
        return read(row.fields, name)
    except ValueError as error:
        raise UserError(f"{row.place}: {error}") from error


def _hash(prompt: str) -> str:
    return hashlib.blake2b(prompt.encode(), digest_size=8).hexdigest()


def levels_in_turn(problems: Iterable[Problem]) -> list[Problem]:
    """One problem of each level, then the next of each, …; within a level by a hash of the id."""
    levels: dict[str, list[Problem]] = {}
    for problem in sorted(problems, key=lambda p: (identity_seed("heldout", p.id), p.id)):
        levels.setdefault(problem.level, []).append(problem)
    rounds = zip_longest(*(levels[level] for level in sorted(levels)))
    return [p for p in chain.from_iterable(rounds) if p is not None]
