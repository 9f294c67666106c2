"""The rollouts of the evaluations that are compared: the same problems, with equal numbers of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.data import Columns

# A timeout or an error says nothing about a response; neither does one that was never verified.
_SAMPLES = """
SELECT problem_id, level, member, answer, text, outcome = 'correct' AS success, row_number() OVER mine - 1 AS place
FROM rollouts WHERE split = ? AND step = ? AND outcome IN ('correct', 'incorrect', 'unparseable')
WINDOW mine AS (PARTITION BY problem_id ORDER BY member)
"""


def at_hand(compared: Sequence[ComparedRun]) -> list[ComparedRun]:
    """The runs whose evaluation has verified rollouts on disk."""
    return [one for one in compared if one.step is not None and _sizes(one).size]


def common_samples(compared: Sequence[ComparedRun]) -> int:
    """The number of samples that all runs have for at least nine tenths of their problems."""
    # not the minimum: a few problems may have fewer verified samples, where a verifier hung
    return min(int(np.quantile(_sizes(one), 0.1, method="lower")) for one in compared)


def query_samples(one: ComparedRun, sql: str, values: Sequence[object] = ()) -> Columns:
    """A query over ``samples``: problem_id, level, member, answer, text, success and place, which numbers the verified
    responses to a problem from 0, so that ``place < k`` selects the first k of them."""
    return one.run.query(f"WITH samples AS ({_SAMPLES}) {sql}", [one.split, one.step, *values])


def _sizes(one: ComparedRun) -> np.ndarray:
    return query_samples(one, "SELECT count(*) AS n FROM samples GROUP BY problem_id")["n"]
