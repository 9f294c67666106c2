"""Any table of problems as a task: JSON lines, Parquet or a Hugging Face dataset."""

from __future__ import annotations

import hashlib
import json
import string
import time
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import NamedTuple

from pydantic import Field, model_validator

from outrider.errors import UserError, nearest
from outrider.record import Problem, Verdict, identity_seed
from outrider.tasks.epochs import permutation
from outrider.tasks.rows import Row, read_rows
from outrider.tasks.task import Task
from outrider.verify.answers import Match, extract, judge, normalise, number


class _Sides(NamedTuple):
    train: list[Problem]
    heldout: list[Problem]
    left_out: int


class Table(Task):
    r"""Problems from two tables: one to train on, one held out. See :mod:`outrider.tasks.rows` for the formats.

    Training runs through seeded permutations of its table, epoch after epoch. A training problem whose prompt is held
    out as well (compared without case, spacing and Unicode variants) is left out and counted in ``counts``.
    Held-out problems come from each level in turn, in an order that does not depend on that of the file.

    A right answer that contains ``\boxed{…}`` or ``####`` is read like a response, so worked solutions will do.
    Nothing is read before the first problem is asked for.

    Raises:
        UserError: names the file, line and field of what is missing, broken, empty or there twice.
    """

    train_data: str = Field(min_length=1, description="a .jsonl, .jsonl.gz or .parquet file, or hf:name@config:split")
    heldout_data: str = Field(min_length=1, description="the same, for evaluation")
    prompt: str = Field("{problem}\n", description="text with fields of the table as {field}; {{ and }} for braces")
    answer: str = Field("answer", min_length=1, description="field of the right answer")
    id: str | None = Field(None, description="field of the id; null: a hash of the prompt")
    level: str | None = Field(None, description="field of the level, needed where held out; null: no levels")
    match: Match = Field("number", description="exact: the same text; number: the same number")
    seed: int = Field(0, ge=0, description="of the order of training")

    @model_validator(mode="after")
    def _prompt_names_fields(self) -> Table:
        try:
            parts = [part for part in string.Formatter().parse(self.prompt) if part[1] is not None]
        except ValueError as error:
            raise ValueError(f"prompt: write {{{{ and }}}} for braces that name no field ({error})") from error
        for _, name, spec, conversion in parts:
            if not str(name).isidentifier() or spec or conversion:
                raise ValueError(f"prompt: {{{name}}} is not a field; write {{{{ and }}}} for braces")
            if name == self.answer:
                raise ValueError(f"prompt: {{{name}}} would show the right answer")
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
        return {"train": len(sides.train), "heldout": len(sides.heldout), "left_out": sides.left_out}

    def train(self, index: int) -> Problem:
        problems = self._sides.train
        epoch, position = divmod(index, len(problems))
        return problems[int(permutation(self.seed, epoch, len(problems))[position])]

    def heldout(self, n: int) -> list[Problem]:
        """The first ``n`` held-out problems, each level in turn; all of them where there are fewer."""
        return self._sides.heldout[:n]

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Compare the final answers, see :mod:`outrider.verify.answers`. Bounded by the text; no process is needed."""
        start = time.perf_counter()
        verdict = judge(problem.answer, text, finished, self.match)
        return replace(verdict, seconds=time.perf_counter() - start)

    @cached_property
    def _sides(self) -> _Sides:
        heldout = self._problems(self.heldout_data, heldout=True)
        table = self._problems(self.train_data, heldout=False)
        seen = {_normalised(p.prompt) for p in heldout}
        train = [p for p in table if _normalised(p.prompt) not in seen]
        left_out = len(table) - len(train)
        if not train:
            raise UserError(f"{self.train_data}: every problem is also held out in {self.heldout_data}")
        return _Sides(train, _levels_in_turn(heldout), left_out)

    def _problems(self, source: str, heldout: bool) -> list[Problem]:
        problems: list[Problem] = []
        places: dict[str, str] = {}
        for row in read_rows(source, split="test" if heldout else "train"):
            problem = self._problem(row, heldout)
            if (first := places.setdefault(problem.id, row.place)) != row.place:
                same = "prompt" if self.id is None else f"{self.id} {problem.id!r}"
                raise UserError(f"{row.place}: the same {same} as {first}")
            problems.append(problem)
        if not problems:
            raise UserError(f"{source}: holds no problems")
        return problems

    def _problem(self, row: Row, heldout: bool) -> Problem:
        names = [name for _, name, _, _ in string.Formatter().parse(self.prompt) if name is not None]
        fields = {name: _text(row, name) for name in names}
        prompt = self.prompt.format_map(fields)
        answer = _text(row, self.answer).strip()
        if "####" in answer or "\\boxed" in answer:
            answer = extract(answer) or ""
        if not normalise(answer):
            raise UserError(f"{row.place}: the field {self.answer!r} holds no answer")
        if self.match == "number" and number(answer) is None:
            raise UserError(f"{row.place}: the answer {answer[:80]!r} is not a number; match: exact compares text")
        return Problem(
            id=_hash(prompt) if self.id is None else _text(row, self.id),
            prompt=prompt,
            answer=answer,
            level=self._level(row, heldout),
            metadata={"question": fields[names[0]]} if len(fields) == 1 else {},  # where examples are put in
        )

    def _level(self, row: Row, heldout: bool) -> str:
        """Held-out rows need the field, training tables often lack it; null is no level on either side."""
        if self.level is None or (self.level not in row.fields and not heldout):
            return ""
        return "" if row.fields.get(self.level, "") is None else _text(row, self.level)


def _text(row: Row, name: str) -> str:
    """A field as text. Numbers are written as JSON writes them."""
    if name not in row.fields:
        raise UserError(f"{row.place}: no field {name!r} ({nearest(name, row.fields)})")
    value = row.fields[name]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise UserError(
            f"{row.place}: the field {name!r} holds {json.dumps(value, default=str)[:40]}, not a text or number"
        )
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{row.place}: the field {name!r} holds half a surrogate pair, which is no text") from error
    return text


def _hash(prompt: str) -> str:
    return hashlib.blake2b(prompt.encode(), digest_size=8).hexdigest()


def _normalised(prompt: str) -> str:
    """What two writings of the same prompt share."""
    return "".join(unicodedata.normalize("NFKC", prompt).casefold().split())


def _levels_in_turn(problems: Iterable[Problem]) -> list[Problem]:
    """One problem of each level, then the next of each, …; within a level by a hash of the id."""
    levels: dict[str, list[Problem]] = {}
    for problem in sorted(problems, key=lambda p: (identity_seed("heldout", p.id), p.id)):
        levels.setdefault(problem.level, []).append(problem)
    rounds = zip_longest(*(levels[level] for level in sorted(levels)))
    return [p for p in chain.from_iterable(rounds) if p is not None]
