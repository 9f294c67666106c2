"""Selects rollouts of the compared evaluations, on the same problems and with equal sample counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.data import Columns

# A timeout, an error or a missing verdict gives no information about a response.
_SAMPLES = """
SELECT problem_id, level, member, answer, text, outcome = 'correct' AS success, row_number() OVER mine - 1 AS place
FROM rollouts WHERE split = ? AND step = ? AND outcome IN ('correct', 'incorrect', 'unparseable')
WINDOW mine AS (PARTITION BY problem_id ORDER BY member)
"""


def at_hand(compared: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Return the runs whose last evaluation has verified rollouts on disk."""
    return [one for one in compared if one.step is not None and _sizes(one).size]


def common_samples(compared: Sequence[ComparedRun]) -> int:
    """Return the largest number of samples that every run has for at least nine tenths of its problems."""
    # not the minimum: a few problems may have fewer verified samples because a verifier hung
    return min(int(np.quantile(_sizes(one), 0.1, method="lower")) for one in compared)


def query_samples(one: ComparedRun, sql: str, values: Sequence[object] = ()) -> Columns:
    """Query the relation ``samples``, whose columns are problem_id, level, member, answer, text, success and place.

    ``place`` numbers a problem's verified responses from 0, so that ``place < k`` selects the first k.
    """
    return one.run.query(f"WITH samples AS ({_SAMPLES}) {sql}", [one.split, one.step, *values])


def _sizes(one: ComparedRun) -> np.ndarray:
    return query_samples(one, "SELECT count(*) AS n FROM samples GROUP BY problem_id")["n"]
