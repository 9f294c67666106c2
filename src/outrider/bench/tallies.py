"""Writes and reads a CSV file of success counts per problem and evaluation, which is small enough for Git. A bench's
numbers are computed from these counts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from outrider.bench.results import Measurements
from outrider.errors import UserError
from outrider.measure.evaluation import Evaluation
from outrider.measure.tally import Tally

COMPARED, FINAL_TEST = "compared", "untouched"  # names in the file since its first version


class TallyColumn(NamedTuple):
    """A column of the file: one evaluation of a run.

    Attributes:
        arm: name of the recipe. The policy before training is evaluated twice, with different samples: ``before`` and
            ``before again``.
        seed: seed of the run.
        share: share of the run's training budget that had been spent at the evaluation.
    """

    arm: str
    seed: int
    share: float

    def __str__(self) -> str:
        return f"{self.arm}/{self.seed}@{self.share:g}"

    @classmethod
    def parse(cls, text: str) -> TallyColumn:
        """Parse the output of ``str``.

        >>> TallyColumn.parse("grpo/10@0.25")
        TallyColumn(arm='grpo', seed=10, share=0.25)
        """
        run, _, share = text.rpartition("@")
        arm, _, seed = run.rpartition("/")
        return cls(arm, int(seed), float(share))


class Count(NamedTuple):
    """A problem's number of successes and of verified samples: c and n of the pass@k estimator."""

    successes: int
    samples: int


Tallies = dict[str, dict[TallyColumn, dict[str, Count]]]
"""Counts by set of problems (problems of the comparison, final test set), then by evaluation, then by problem."""


def write_tallies(sets: Mapping[str, Measurements]) -> str:
    """Return the counts of all sets of problems as CSV, with one row per problem and one column per evaluation.

    A cell is ``successes``, or ``successes/verified`` if the number of verified samples is below the number in the
    column ``samples``.
    """
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
    """Parse the output of :func:`write_tallies`.

    Raises:
        UserError: the text is not a valid table of counts.
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
    """Yield the first and second evaluation of the policy before training, then all evaluations of each recipe's
    runs."""
    before, again, arms = measured
    for name, arm in (("before", before), ("before again", again), *((arm.name, arm) for arm in arms)):
        for point in arm.points:
            for seed, evaluation in zip(arm.seeds, point.evaluations, strict=True):
                yield TallyColumn(name, seed, point.share), evaluation


def _cell(tally: Tally, samples: int) -> str:
    return str(tally.successes) if tally.scorable == samples else f"{tally.successes}/{tally.scorable}"
