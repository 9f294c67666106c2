"""A task that evaluates several test sets together, with results for each set and for all sets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml
from pydantic import Field, PrivateAttr, ValidationError

from outrider.errors import UserError, nearest
from outrider.options import Options
from outrider.record import Problem, Verdict
from outrider.tasks.fields import Fields
from outrider.tasks.rows import TableRow, read_rows
from outrider.tasks.table import Table, in_turn
from outrider.tasks.task import Task

if TYPE_CHECKING:
    from outrider.verify.pool import Item

_OLD_KEYS = {f"table.{key}": now for key, now in Table.old_keys.items()}  # for a suite's table options, which are dicts
_SHIPPED = resources.files("outrider") / "tasks" / "suites"


class TestSet(Options):
    """A test set of a suite: the file with its problems, and options that override those in ``table`` of the suite
    file."""

    old_keys: ClassVar[Mapping[str, str]] = _OLD_KEYS

    data: str = Field(
        min_length=1,
        description=(
            "path of the file with this test set's problems, relative to the folder that contains all test sets of the "
            "suite"
        ),
    )
    hub: str | None = Field(
        None,
        description=(
            "Hugging Face Hub dataset with this test set, such as hf:openai/gsm8k@main:test, which is used if the user "
            "gives no folder with test sets; null: not on the Hub"
        ),
    )
    hub_fields: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "new names for columns of the Hugging Face Hub dataset, as a mapping from new name to column, such as "
            "{problem: question}"
        ),
    )
    table: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "options of the task named table for this test set's file, such as the prompt template, the verifier and "
            "the names of fields"
        ),
    )


class SuiteFile(Options):
    """The content of a suite file: options of the task ``table`` that all test sets share, and the test sets by
    name."""

    old_keys: ClassVar[Mapping[str, str]] = _OLD_KEYS

    table: dict[str, Any] = Field(default_factory=dict)
    sets: dict[str, TestSet] = Field(min_length=1)


class Suite(Task):
    """The problems of several test sets. All problems are held out, since a suite is only for evaluation.

    Each problem contains the name of its test set. The table of an evaluation therefore has one row per set, and one
    row for all problems together, in which every problem has the same weight. Problems have the difficulty levels that
    their test set gives them. If ``data`` names a folder, all sets are read from this folder. Otherwise, they are read
    from the Hub.

    Raises:
        UserError: the suite or a set does not exist, the file of a set is missing or broken, or a set has duplicate
            problems.
    """

    old_keys: ClassVar[Mapping[str, str]] = _OLD_KEYS

    suite: str = Field(
        "math",
        min_length=1,
        description="name of a shipped suite of test sets, or path of a YAML file that defines a suite",
    )
    data: str | None = Field(
        None,
        description=(
            "folder that contains the files of the test sets; null: download the test sets from the Hugging Face Hub"
        ),
    )
    sets: list[str] = Field([], description="names of the suite's test sets to evaluate on; []: all test sets")
    table: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "options of the task named table for the files of all test sets, such as the prompt template, the "
            "verifier and the names of fields; they override the options in the suite file"
        ),
    )

    _skipped: int = PrivateAttr(0)

    @property
    def name(self) -> str:
        return f"suite/{Path(self.suite).stem}"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the problems, their answers and their test sets."""
        digest = hashlib.blake2b(digest_size=12)
        for problem in self._problems:
            messages = () if problem.messages_before is None else (problem.messages_before,)
            identity = (problem.id, problem.prompt, problem.answer, *messages)
            digest.update(repr(identity).encode("utf-8", "surrogatepass"))
        return f"{self.name}/{digest.hexdigest()}"

    @property
    def counts(self) -> dict[str, int]:
        """Number of problems in each test set. If empty rows were skipped, ``rows_skipped`` is the number of these
        rows."""
        counts = dict.fromkeys(self._file.sets, 0)
        for problem in self._problems:
            counts[problem.test_set] += 1
        return counts | ({"rows_skipped": self._skipped} if self._skipped else {})

    @property
    def size(self) -> int:
        """Number of problems in all test sets."""
        return len(self._problems)

    def train(self, index: int) -> Problem:
        raise UserError(f"{self.name} is for evaluation, so there is nothing to train on")

    def heldout(self, n: int) -> list[Problem]:
        """Return the first ``n`` problems, alternating between test sets."""
        return self._problems[:n]

    def right(self, problem: Problem) -> str | None:
        return self._tables[problem.test_set].right(problem)

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return self._tables[problem.test_set].verify(problem, text, finished)

    def verify_all(self, items: Sequence[Item]) -> list[Verdict]:
        """Verify items, and return verdicts in order. Test sets with equal verifiers share a pool of processes."""
        verdicts: dict[int, Verdict] = {}
        shares: dict[int, tuple[Table, list[int]]] = {}
        for i, (problem, _, _) in enumerate(items):
            # grouped by table object: sets with equal verifiers share one table, whose pool verifies their responses
            # together
            table = self._tables[problem.test_set]
            shares.setdefault(id(table), (table, []))[1].append(i)
        for table, mine in shares.values():
            verdicts |= zip(mine, table.verify_all([items[i] for i in mine]), strict=True)
        return [verdicts[i] for i in range(len(items))]

    def close(self) -> None:
        for table in self.__dict__.get("_tables", {}).values():
            table.close()

    @cached_property
    def _file(self) -> SuiteFile:
        read = _read(self.suite)
        for name in self.sets:
            if name not in read.sets:
                raise UserError(f"suite {self.suite!r} has no set {name!r} ({nearest(name, read.sets)})")
        chosen = {name: entry for name, entry in read.sets.items() if not self.sets or name in self.sets}
        return read.model_copy(update={"sets": chosen})

    @cached_property
    def _own(self) -> dict[str, Table]:
        """The ``table`` task of each test set, which reads the set's rows."""
        return {name: self._table(name) for name in self._file.sets}

    @cached_property
    def _tables(self) -> dict[str, Table]:
        """The ``table`` task that verifies the responses of each test set.

        Test sets with equal verifiers share one task, and so its worker processes.
        """
        first: list[Table] = []
        for table in self._own.values():
            if all(known.verifier != table.verifier for known in first):
                first.append(table)
        return {name: next(t for t in first if t.verifier == own.verifier) for name, own in self._own.items()}

    def _table(self, name: str) -> Table:
        entry = self._file.sets[name]
        options = {**self._file.table, **entry.table, **self.table}
        try:
            return Table(heldout_data=self._source(name), **options)
        except (ValidationError, TypeError) as error:
            reason = _mistake(error, Table) if isinstance(error, ValidationError) else str(error)
            raise UserError(f"suite {self.suite!r}, set {name!r}: {reason}") from error

    def _source(self, name: str) -> str:
        entry = self._file.sets[name]
        if self.data is not None:
            return str(Path(self.data).expanduser() / entry.data)
        if entry.hub is None:
            raise UserError(f"suite {self.suite!r}: set {name!r} is not on the hub; name the folder of its file (data)")
        return entry.hub

    @cached_property
    def _problems(self) -> list[Problem]:
        problems = (problem for name in self._file.sets for problem in self._of_set(name))
        return in_turn(problems, lambda problem: problem.test_set)

    def _of_set(self, name: str) -> list[Problem]:
        table, source, entry = self._own[name], self._source(name), self._file.sets[name]
        theirs = {} if self.data is not None else entry.hub_fields
        problems: dict[str, Problem] = {}
        for place, fields in read_rows(source, split="test"):
            renamed = {mine: fields[field] for mine, field in theirs.items() if field in fields}
            row = TableRow(place, Fields({**fields, **renamed}))
            if table.skipped(row):
                self._skipped += 1
                continue
            problem = table.problem(row, heldout=True)
            if problem.id in problems:
                raise UserError(f"{row.place}: the same problem stands before it in {source}")
            problems[problem.id] = replace(problem, id=f"{name}/{problem.id}", test_set=name)
        if not problems:
            raise UserError(
                f"{source}: holds no problems" + (", but for rows that are skipped" if self._skipped else "")
            )
        return list(problems.values())


def _read(name: str) -> SuiteFile:
    if name.endswith((".yaml", ".yml")):
        try:
            text = Path(name).expanduser().read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"suite {name}: cannot be read ({error})") from error
    else:
        known = sorted(entry.name.removesuffix(".yaml") for entry in _SHIPPED.iterdir() if entry.name.endswith(".yaml"))
        if name not in known:
            raise UserError(f"there is no suite {name!r} ({nearest(name, known)}; or a .yaml file)")
        text = (_SHIPPED / f"{name}.yaml").read_text("utf-8")
    try:
        return SuiteFile.model_validate(yaml.safe_load(text))
    except UserError as error:  # the file uses an option name of an older version
        raise UserError(f"suite {name}: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"suite {name}: not YAML ({' '.join(str(error).split())})") from error
    except ValidationError as error:
        raise UserError(f"suite {name}: {_mistake(error, SuiteFile, TestSet)}") from error


def _mistake(error: ValidationError, *known: type[Options]) -> str:
    """Return the first validation error and its place. For an unknown key, the message also suggests the most similar
    known key."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        keys = {key for cls in known for key in cls.model_fields}
        return f"{place}: unknown key ({nearest(str(first['loc'][-1]), keys)})"
    return f"{place}: {first['msg']}" if place else str(first["msg"])
