"""The counts behind a bench's numbers: successes of every problem in every evaluation, small enough to be committed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from outrider.bench.results import Measurements
from outrider.errors import UserError
from outrider.measure.evaluation import Evaluation
from outrider.measure.tally import Tally

COMPARED, FINAL_TEST = "compared", "untouched"  # as the file names them since its first version


class TallyColumn(NamedTuple):
    """One evaluation: of an arm, its seed and the share of the budget."""

    arm: str
    seed: int
    share: float

    def __str__(self) -> str:
        return f"{self.arm}/{self.seed}@{self.share:g}"

    @classmethod
    def parse(cls, text: str) -> TallyColumn:
        """Read what ``str`` wrote.

        >>> TallyColumn.parse("grpo/10@0.25")
        TallyColumn(arm='grpo', seed=10, share=0.25)
        """
        run, _, share = text.rpartition("@")
        arm, _, seed = run.rpartition("/")
        return cls(arm, int(seed), float(share))


class Count(NamedTuple):
    """Successes among the samples that could be verified: c and n of pass@k."""

    successes: int
    samples: int


Tallies = dict[str, dict[TallyColumn, dict[str, Count]]]
"""By set of problems (compared, final test), evaluation and problem."""


def write_tallies(sets: Mapping[str, Measurements]) -> str:
    """CSV of each set of problems: a row for each problem, a column for each evaluation with ``successes``, or
    ``successes/samples`` where fewer than the column ``samples`` could be verified."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, measured in sets.items():
        columns = dict(_evaluations(measured))
        first = next(iter(columns.values())).tallies
        writer.writerow(["set", "problem", "level", "samples", *columns])
        for i, tally in enumerate(first):
            cells = [_cell(evaluation.tallies[i], tally.samples) for evaluation in columns.values()]
            writer.writerow([name, tally.problem, tally.level, tally.samples, *cells])
    return text.getvalue()


def read_tallies(text: str) -> Tallies:
    """What :func:`write_tallies` wrote.

    Raises:
        UserError: the text is no such table.
    """
    found: Tallies = {}
    columns: list[TallyColumn] = []
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        try:
            if row[0] == "set":
                columns = [TallyColumn.parse(name) for name in row[4:]]
                continue
            name, problem, _, samples, *cells = row
            counts = found.setdefault(name, {column: {} for column in columns})
            for column, cell in zip(columns, cells, strict=True):
                successes, _, verified = cell.partition("/")
                counts[column][problem] = Count(int(successes), int(verified or samples))
        except (ValueError, IndexError) as error:
            raise UserError(f"tallies, line {number}: {error}") from error
    return found


def _evaluations(measured: Measurements) -> Iterator[tuple[TallyColumn, Evaluation]]:
    """The policy before training, once more, and each seed of each recipe at each point."""
    before, again, arms = measured
    for name, arm in (("before", before), ("before again", again), *((arm.name, arm) for arm in arms)):
        for point in arm.points:
            for seed, evaluation in zip(arm.seeds, point.evaluations, strict=True):
                yield TallyColumn(name, seed, point.share), evaluation


def _cell(tally: Tally, samples: int) -> str:
    return str(tally.successes) if tally.scorable == samples else f"{tally.successes}/{tally.scorable}"
