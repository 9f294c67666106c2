"""Repeated problems: a problem has several groups in one step, although other problems would be more useful."""

from __future__ import annotations

import numpy as np

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import Lacking, numbers, percent, share
from outrider.report.findings.view import splits

NEEDS = "groups of a training step"

SOME, MANY = 0.01, 0.1  # shares of the groups; if 128 of 5,000 problems are drawn with replacement, 1.3 % are repeats
FEWEST = 3  # minimum number of repeated groups


def find(run: RunData) -> Finding | None:
    """Check the share of groups whose problem already has a group in the same step.

    Two problems count as the same if they have the same id or the same prompt. All steps are checked. An Outrider run
    has one group per problem and step, and does not store prompts as text. So the check finds repetitions only in
    rollout files of other frameworks.

    Raises:
        Lacking: see ``NEEDS``.
    """
    if "train" not in splits(run):
        raise Lacking(NEEDS)
    rows = run.query(
        """
        WITH groups AS (
            SELECT step, group_id, min(problem_id) AS problem_id, coalesce(min(prompt), min(problem_id)) AS problem
            FROM rollouts WHERE split = 'train' GROUP BY step, group_id
        )
        SELECT problem, step, count(*) AS groups, count(DISTINCT problem_id) AS ids FROM groups GROUP BY problem, step
        """
    )
    groups = np.asarray(rows["groups"], dtype=np.float64)
    seen = share(groups - 1, groups, rows["problem"])
    if not (seen.low > SOME and seen.hits >= FEWEST):
        return None
    steps, all_steps = len(np.unique(rows["step"][groups > 1])), len(np.unique(rows["step"]))
    other_ids = int((rows["ids"] > 1).sum())
    ids = f", in {other_ids} cases under several ids" if other_ids else ""
    return Finding(
        name="repeated problems",
        severity="act" if seen.value > MANY else "watch",
        sentence=f"{percent(seen.value)} of the groups repeat a problem of their own step ({seen.hits} groups, in "
        f"{steps} of {all_steps} steps{ids}).",
        numbers={
            **numbers("repeated", seen),
            "repeated_groups": seen.hits,
            "steps": steps,
            "several_ids": other_ids,
        },
        threshold=f"In more than {percent(SOME)} of the groups, the problem already has a group in the same step, "
        f"significantly (3-SE interval over problems; act: {percent(MANY)}), and in at least {FEWEST} groups. "
        "Sampling with replacement gives a few repeats by chance.",
        advice=[
            "Remove repeated rows from the training data: outrider validate lists them.",
            "Draw problems without replacement, in a new order each epoch.",
            "Give each draw its own id (verl's uid); otherwise group statistics pool several draws.",
        ],
    )
