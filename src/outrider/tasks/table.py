"""A task for any table of problems, from JSON, CSV or Parquet files or from a Hugging Face dataset."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from outrider.components import ComponentOf
from outrider.errors import UserError, nearest
from outrider.record import Problem, Verdict, identity_seed
from outrider.record.normalised import normalised
from outrider.tasks.epochs import permutation
from outrider.tasks.fields import Fields
from outrider.tasks.messages import is_chat, read_chat
from outrider.tasks.prompts import prompt_parts
from outrider.tasks.rows import TableRow, read_rows
from outrider.tasks.task import Task, verify_in_turn
from outrider.verify.short_answer import Number
from outrider.verify.verifier import PooledVerifier, Prepared, Verifier, text_of
from outrider.verify.verifiers import VERIFIERS

if TYPE_CHECKING:  # not imported at run time, since a recipe may name the task without using it
    from outrider.verify.pool import Item, VerifierPool

PROMPT = "{problem}\n"

Skipped = Literal["empty", "long"]


class TableSide(NamedTuple):
    """The problems of one file, each with its line in ``metadata["place"]``, and information about skipped rows."""

    problems: list[Problem]
    skipped: int
    first_skipped: str
    """Place and reason of the first skipped row; empty if no row was skipped."""


class _Sides(NamedTuple):
    train: list[Problem]
    heldout: list[Problem]
    excluded: int
    other_levels: int
    skipped: Counter[str]
    long: Counter[str]


class Table(Task):
    r"""Problems from a training table and a held-out table, in the formats of :mod:`outrider.tasks.rows`.

    Each epoch of training uses a new seeded permutation of the training table. Training problems are skipped if their
    level is not in ``levels``, or if their question is also held out (ignoring case, spacing and Unicode variants).
    ``counts`` has their number. Held-out problems alternate between levels, independently of the file's order.

    The ``prompt`` is a text with field names in braces, or the name of a template in :mod:`outrider.tasks.prompts`.
    Alternatively, the field named by ``messages`` has the prompt as a chat (:mod:`outrider.tasks.messages`). A dotted
    field name selects a nested value in objects or lists: ``reward_model.ground_truth``, ``messages.0.content``.

    With ``skip: empty``, rows without an answer or a question (missing, null, NaN, blank or an empty list) are skipped
    and counted. By default, a missing question is an error, and so is a missing answer if the verifier needs it. With
    ``skip: long``, rows are skipped and counted if the prompt plus ``sample.max_tokens`` tokens exceed the context. By
    default, a run starts only if each prompt leaves room for a response. ``skip: [empty, long]`` does both.

    Recipes that use worked solutions read them from the field ``solution`` of training rows. The solution of a row may
    be missing, null or empty, but at least one row must have a solution.

    The ``verifier`` reads gold answers and verifies responses (:mod:`outrider.verify.verifiers`). No file is read
    before the first problem is needed.

    Raises:
        UserError: a file, row or field is missing, broken, empty or duplicated. The message names the file, the line
            and the field.
    """

    old_keys: ClassVar[Mapping[str, str]] = {"judge": "verifier"}

    train_data: str | None = Field(
        None,
        min_length=1,
        description="training problems: file, folder or Hub dataset (hf:name@config:split); null: evaluation only",
    )
    heldout_data: str = Field(min_length=1, description="held-out problems, in the same formats as train_data")
    prompt: str = Field(
        PROMPT,
        description=(
            "prompt template with {field} placeholders, in which {{ and }} stand for literal braces; or the name of a "
            "shipped template"
        ),
    )
    question: str = Field("problem", description="table field that fills {question} in a shipped prompt template")
    messages: str | None = Field(
        None,
        min_length=1,
        description="table field with the prompt as a list of chat messages; null: create the prompt from the template",
    )
    answer: str = Field("answer", min_length=1, description="table field that holds the gold answer")
    skip: Skipped | list[Skipped] | None = Field(
        None,
        description=(
            "rows to skip: rows without an answer or question (empty), or rows whose prompt is too long for the "
            "model (long); null: raise an error if there are such rows"
        ),
    )
    solution: str | None = Field(
        None, min_length=1, description="field of the training table that holds a worked solution; null: no solutions"
    )
    id: str | None = Field(None, description="table field that holds the problem's id; null: use a hash of the prompt")
    level: str | None = Field(
        None,
        description="table field with each problem's difficulty level; only training rows may lack it; null: no levels",
    )
    levels: list[str] = Field([], description="difficulty levels whose problems are used for training; []: all levels")
    verifier: Annotated[Verifier, ComponentOf(VERIFIERS, "verifier", Verifier)] = Field(
        default_factory=Number, description="verifier, which compares responses with the gold answer"
    )
    seed: int = Field(0, ge=0, description="random seed for the order of training problems")

    @model_validator(mode="after")
    def _options_agree(self) -> Table:
        parts = prompt_parts(self.prompt, self.question)
        for hidden, what in ((self.answer, "gold answer"), (self.solution, "solution")):
            if hidden is not None and any(part.field == hidden for part in parts):
                raise ValueError(f"prompt: {{{hidden}}} would show the {what}")
        if self.levels and self.level is None:
            raise ValueError("levels: name the field with a problem's level (level)")
        if self.messages is not None and self.prompt != PROMPT:
            raise ValueError(
                f"messages: the field {self.messages!r} holds the whole prompt, so there is no other (prompt)"
            )
        return self

    @property
    def name(self) -> str:
        return "table"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the training and held-out problems, their order, and the seed."""
        digest = hashlib.blake2b(digest_size=12)
        for side in (self._sides.train, self._sides.heldout):
            # in the order of the file, since positions in the training stream are indices into it
            digest.update(json.dumps([self.seed, *map(_identity, side)]).encode())
        return f"table/{digest.hexdigest()}"

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of training problems (used and excluded), held-out problems, and rows that ``skip`` excludes."""
        sides = self._sides
        counts = {"train": len(sides.train), "heldout": len(sides.heldout), "excluded": sides.excluded}
        counts |= {"of_other_levels": sides.other_levels} if self.levels else {}
        skipped = {f"skipped_in_{side}": sides.skipped[side] for side in ("train", "heldout")}
        long = {f"too_long_in_{side}": sides.long[side] for side in ("train", "heldout")}
        return counts | (skipped if self._skips("empty") else {}) | (long if self.skips_long else {})

    @property
    def skips_long(self) -> bool:
        """Whether rows are skipped if their prompts are too long for the model."""
        return self._skips("long")

    def leave_out(self, places: Collection[tuple[str, str]]) -> None:
        """Exclude the given rows, because their prompts are too long for the model. ``places`` has each row's side
        (training or held-out) and its place in the file."""
        for made in ("_sides", "fingerprint"):
            self.__dict__.pop(made, None)
        self.__dict__["_long"] = frozenset(places)

    @cached_property
    def _long(self) -> frozenset[tuple[str, str]]:
        return frozenset()

    def _skips(self, what: Skipped) -> bool:
        return what == self.skip or (isinstance(self.skip, list) and what in self.skip)

    @property
    def conversational(self) -> bool:
        return self.messages is not None

    def train(self, index: int) -> Problem:
        problems = self._sides.train
        if not problems:
            raise UserError("task.table has no train_data, so there is nothing to train on")
        epoch, position = divmod(index, len(problems))
        return problems[int(permutation(self.seed, epoch, len(problems))[position])]

    def heldout(self, n: int) -> list[Problem]:
        """Return the first ``n`` held-out problems (all if there are fewer), alternating between levels."""
        return self._sides.heldout[:n]

    def right(self, problem: Problem) -> str | None:
        return self.verifier.right(problem)

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify a response. If the verifier may hang, it runs in a separate process, which can be killed."""
        if self.verifier.pooled:
            return self.verify_all([(problem, text, finished)])[0]
        start = time.perf_counter()
        verdict = self.verifier.verify(problem, text, finished)
        return replace(verdict, seconds=time.perf_counter() - start)

    def verify_all(self, items: Sequence[Item]) -> list[Verdict]:
        return self._pool.verify(items) if self.verifier.pooled else verify_in_turn(self, items)

    def close(self) -> None:
        """End the verifier's processes. The next verification starts new processes."""
        if pool := self.__dict__.pop("_pool", None):
            pool.close()

    @cached_property
    def _pool(self) -> VerifierPool:
        from outrider.verify.pool import VerifierPool

        verifier = self.verifier
        assert isinstance(verifier, PooledVerifier)
        return VerifierPool(Prepared(verifier), verifier.workers, verifier.seconds, verifier.memory_gb)

    @cached_property
    def _sides(self) -> _Sides:
        skipped: Counter[str] = Counter()
        long: Counter[str] = Counter()
        heldout, skipped["heldout"], _ = self.side(self.heldout_data, heldout=True)
        seen = {normalised(p.question) for p in heldout}
        heldout, long["heldout"] = self._without_long("heldout", self.heldout_data, heldout)
        if self.train_data is None:
            return _Sides([], levels_in_turn(heldout), 0, 0, skipped, long)
        table, skipped["train"], _ = self.side(self.train_data, heldout=False)
        table, long["train"] = self._without_long("train", self.train_data, table)
        chosen = [p for p in table if not self.levels or p.level in self.levels]
        if not chosen:
            known = sorted({p.level for p in table} - {""})
            raise UserError(
                f"{self.train_data}: no problem is of the levels {', '.join(self.levels)} "
                f"({nearest(self.levels[0], known) if known else 'none has a level'})"
            )
        train = [p for p in chosen if normalised(p.question) not in seen]
        if not train:
            raise UserError(f"{self.train_data}: every problem is also held out in {self.heldout_data}")
        return _Sides(train, levels_in_turn(heldout), len(chosen) - len(train), len(table) - len(chosen), skipped, long)

    def _without_long(self, side: str, source: str, problems: list[Problem]) -> tuple[list[Problem], int]:
        """Return the problems whose prompts are not too long, and the number of excluded problems."""
        kept = [problem for problem in problems if (side, problem.metadata["place"]) not in self._long]
        if not kept:
            raise UserError(f"{source}: every prompt is too long for the model, and excluded (skip: long)")
        return kept, len(problems) - len(kept)

    def side(self, source: str, *, heldout: bool, refuse: Callable[[UserError], None] | None = None) -> TableSide:
        """Read all problems of one file, in the order of the file.

        Args:
            refuse: function that is called with the error of each unusable row. If None, the first error is raised.

        Raises:
            UserError: the file cannot be read, no row is usable, or (if ``refuse`` is None) a row is unusable.
        """
        problems: list[Problem] = []
        places: dict[str, str] = {}
        skipped, first_skipped, refused = 0, "", ""
        for row in read_rows(source, split="test" if heldout else "train"):
            if reason := self.skipped(row):
                skipped, first_skipped = skipped + 1, first_skipped or f"{row.place}: {reason}"
                continue
            try:
                problem = self.problem(row, heldout)
                if (first := places.setdefault(problem.id, row.place)) != row.place:
                    same = "prompt" if self.id is None else f"{self.id} {problem.id!r}"
                    raise UserError(f"{row.place}: the same {same} as {first}")
            except UserError as error:
                if refuse is None:
                    raise
                refused = refused or str(error)
                refuse(error)
            else:
                problems.append(problem)
        if not problems:
            none = (
                f"{source}: every row is skipped ({first_skipped})" if first_skipped else f"{source}: holds no problems"
            )
            raise UserError(refused or none)
        if self.solution and not heldout and not any("solution" in p.metadata for p in problems):
            hint = row.fields.hint(self.solution)
            raise UserError(f"{source}: no row has a solution in the field {self.solution!r} ({hint})")
        return TableSide(problems, skipped, first_skipped)

    def skipped(self, row: TableRow) -> str:
        """Return the reason for skipping an empty row, or an empty string if the row is used."""
        if not self._skips("empty"):
            return ""
        parts = prompt_parts(self.prompt, self.question)
        asking = [part.field for part in parts if part.field] if self.messages is None else [self.messages]
        for names in ([self.answer], asking):
            if all(row.fields.empty(name) for name in names):
                there = names[0] in row.fields
                return (
                    f"the field {names[0]!r} is empty"
                    if there
                    else f"no field {names[0]!r} ({row.fields.hint(names[0])})"
                )
        return ""

    def problem(self, row: TableRow, heldout: bool) -> Problem:
        """Convert a row to a problem, which has the row's place in ``metadata["place"]``.

        Raises:
            UserError: the row is unusable; the error message names the file and the line.
        """
        try:
            found = self._problem(row.fields, heldout)
            return replace(found, metadata={**found.metadata, "place": row.place})
        except ValueError as error:
            hint = ""
            if not self._skips("empty") and self.answer in row.fields and row.fields.empty(self.answer):
                hint = "; skip: empty leaves such rows out and counts them"
            raise UserError(f"{row.place}: {error}{hint}") from error

    def _problem(self, row: Fields, heldout: bool) -> Problem:
        prompted = self._of_text(row) if self.messages is None else self._of_chat(row, self.messages)
        if self.answer not in row and "." in self.answer:
            raise ValueError(f"no field {self.answer!r} ({row.hint(self.answer)})")
        answer = self.verifier.reference(row, self.answer)
        key = prompted.id if self.id is None else _text(row, self.id)
        metadata = prompted.metadata if heldout else {**prompted.metadata, **self._solution(row)}
        return replace(prompted, id=key, answer=answer, level=self._level(row, heldout), metadata=metadata)

    def _of_text(self, row: Fields) -> Problem:
        """Create a problem from a row whose prompt is text."""
        parts = prompt_parts(self.prompt, self.question)
        fields = {part.field: _text(row, part.field) for part in parts if part.field is not None}
        first, *others = fields.values()
        if not any(text.strip() for text in fields.values()):
            raise ValueError(f"the field {next(iter(fields))!r} is empty, so the prompt holds no question")
        prompt = "".join(text + (fields[name] if name is not None else "") for text, name in parts)
        metadata = {} if others else {"question": first}  # without the template: for examples and to find duplicates
        return Problem(_hash(prompt), prompt, metadata=metadata)

    def _of_chat(self, row: Fields, messages: str) -> Problem:
        """Create a problem from a row whose prompt is a list of chat messages."""
        before, prompt = read_chat(row, messages)
        if not prompt.strip():
            raise ValueError(f"the last message of {messages!r} is empty, so the prompt holds no question")
        return Problem(_hash(json.dumps([*before, prompt])), prompt, messages_before=before)

    def _solution(self, row: Fields) -> dict[str, str]:
        if self.solution is None or row.empty(self.solution):
            return {}
        return {"solution": _text(row, self.solution)}

    def _level(self, row: Fields, heldout: bool) -> str:
        """Return a row's difficulty level (``""`` if null). Only training rows may lack the field for the level."""
        level = self.level
        if level is None or (level not in row and not heldout):
            return ""
        return "" if row.get(level, "") is None else _text(row, level)


def _text(row: Fields, name: str) -> str:
    """Return a field as text.

    Raises:
        ValueError: the field does not exist or is not text. The message suggests a similar field name or, for a chat,
            the option ``messages``.
    """
    if name not in row:
        raise ValueError(f"no field {name!r} ({row.hint(name)})")
    if is_chat(row[name]):
        raise ValueError(f"the field {name!r} holds messages, not a text; write messages: {name} in place of prompt")
    return text_of(row, name)


def _identity(problem: Problem) -> list[Any]:
    """Return the parts of a problem that affect a run's results."""
    messages = [] if problem.messages_before is None else [problem.messages_before]
    solution = [problem.metadata["solution"]] if "solution" in problem.metadata else []
    return [problem.id, problem.prompt, problem.answer, problem.level, *messages, *solution]


def _hash(prompt: str) -> str:
    return hashlib.blake2b(prompt.encode(), digest_size=8).hexdigest()


def levels_in_turn(problems: Iterable[Problem]) -> list[Problem]:
    """Order problems so that levels alternate. Problems of one level are ordered by a hash of their ids."""
    return in_turn(problems, lambda problem: problem.level)


def in_turn(problems: Iterable[Problem], label: Callable[[Problem], str]) -> list[Problem]:
    """Order problems so that labels alternate. Problems with the same label are ordered by a hash of their ids."""
    labelled: dict[str, list[Problem]] = {}
    for problem in sorted(problems, key=lambda p: (identity_seed("heldout", p.id), p.id)):
        labelled.setdefault(label(problem), []).append(problem)
    rounds = zip_longest(*(labelled[name] for name in sorted(labelled)))
    return [p for p in chain.from_iterable(rounds) if p is not None]
