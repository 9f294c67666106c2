"""Verifier suspicion: the verifier may be wrong, too slow, or exploited by the policy."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from outrider.arrays import Floats
from outrider.report.content import Finding
from outrider.report.data import SAMPLED, RunData
from outrider.report.findings.base import Lacking, numbers, percent, share
from outrider.report.findings.view import (
    SCORABLE,
    SUCCESS,
    by_group,
    for_training,
    late_groups,
    main_split,
    success_by_step,
)

NEEDS = "verdicts"

# Shares of timeouts and errors: at 5 %, a third of all groups of 8 lose a rollout (miles#2800); at 1 %, one in
# thirteen.
UNVERIFIED, UNVERIFIED_ACT = 0.01, 0.05
UNPARSEABLE = 0.2  # share of ended responses late in the run, after the policy has had time to learn the format
# The same answer to a problem is either correct or wrong; 1 % allows for verdicts that depend on more than the answer.
DISAGREE = 0.01
# The same text should always get the same verdict; 0.1 % allows for rollout files that store truncated texts.
UNSTABLE = 0.001
EMPTY = 0.01  # share of successes without an answer, provided that answers are extracted
# A rise of the success rate by 20 points from one step to the next. Policies improve over many updates, while a
# verifier breaks or is exploited from one step to the next (verl#7603). A jump must exceed four standard errors, since
# every step is tested.
JUMP, JUMP_Z, JUMP_WINDOW = 0.2, 4.0, 8

Sign = tuple[str, bool, dict[str, float]]  # clause for the sentence, whether to act at once, numbers


def find(run: RunData) -> Finding | None:
    """Check for six independent signs of a faulty verifier. A sign is skipped if the data for it are missing.

    The signs are:

    - many verifier errors and timeouts
    - many unparseable responses that were not truncated
    - the same answer accepted in some responses and rejected in others
    - the same text accepted in some responses and rejected in others
    - successes without an answer
    - a sudden jump in the success rate

    Raises:
        Lacking: see ``NEEDS``.
    """
    if not main_split(run).verified:
        raise Lacking(NEEDS)
    looks = (_unverified, _unparseable, _disagreement, _unstable, _empty, _jump)
    signs = [sign for look in looks if (sign := look(run)) is not None]
    if not signs:
        return None
    sentence = "; ".join(text for text, _, _ in signs)
    return Finding(
        name="verifier suspicion",
        severity="act" if any(act for _, act, _ in signs) else "watch",
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        numbers={name: value for _, _, values in signs for name, value in values.items()},
        threshold=f"Any of these, significantly (3-SE intervals): more than {percent(UNVERIFIED)} timeouts and errors "
        f"(act: {percent(UNVERIFIED_ACT)}); late in the run, more than {percent(UNPARSEABLE)} unparseable "
        f"responses that were not truncated; more than {percent(DISAGREE)} of repeated answers to a problem, or "
        f"{percent(UNSTABLE)} of repeated texts, with both verdicts; more than {percent(EMPTY)} of successes "
        f"without an answer, where others have one; success {100 * JUMP:.0f} points higher from one step to the next. "
        "None of them finds a problem with a wrong gold answer.",
        advice=[
            "Read rollouts of each kind named here, successes and failures side by side, in the examples of this "
            "report.",
            "Verify the gold answers: each must come out correct.",
            *for_training(
                run,
                "Exclude unverified responses from every baseline: reward.timeout=null and reward.error=null, not 0.",
                "After a jump, compare the successes of one problem before and after it: a new answer format can be "
                "a false accept.",
            ),
        ],
    )


def _unverified(run: RunData) -> Sign | None:
    groups = by_group(run)
    result = share(groups["timeouts"] + groups["errors"], groups["verified"], groups["problem"])
    if not result.low > UNVERIFIED:
        return None
    timeouts, errors = int(groups["timeouts"].sum()), int(groups["errors"].sum())
    text = f"{percent(result.value)} of the responses could not be verified ({timeouts} timeouts, {errors} errors)"
    return text, result.low > UNVERIFIED_ACT, {**numbers("unjudged", result), "timeouts": timeouts, "errors": errors}


def _unparseable(run: RunData) -> Sign | None:
    groups = late_groups(run)
    result = share(groups["ended_unparseable"], groups["ended"], groups["problem"])
    if not result.low > UNPARSEABLE:
        return None
    which = "responses" if main_split(run).cut is None else "responses that were not truncated"
    text = f"{percent(result.value)} of the late {which} have no answer that can be parsed"
    return text, False, numbers("unparseable", result)


def _disagreement(run: RunData) -> Sign | None:
    """Check for answers to the same problem that were accepted in one response and rejected in another."""
    return _both_ways(
        run,
        f"split = '{main_split(run).name}' AND answer <> '' AND outcome IN ('correct', 'incorrect')",
        "problem_id, answer",
        DISAGREE,
        "repeated answers to the same problem",
        "disagreement",
    )


def _unstable(run: RunData) -> Sign | None:
    """Check for whole responses that occur several times with different verdicts. Rollouts that continue a prefix of
    another rollout are excluded, since their text is only a part of a response."""
    return _both_ways(
        run,
        f"split = '{main_split(run).name}' AND parent IS NULL AND text <> '' AND {SCORABLE}",
        "problem_id, stop, text",
        UNSTABLE,
        "repeated texts for the same problem",
        "unstable",
    )


def _both_ways(run: RunData, where: str, key: str, most: float, what: str, name: str) -> Sign | None:
    # hashes, since grouping a million texts by the texts themselves would take half a gigabyte
    rows = run.query(
        "SELECT count(*) AS repeated, count(*) FILTER (low < high) AS both FROM ("
        f"SELECT min(hash(problem_id)) AS problem, min({SUCCESS}) AS low, max({SUCCESS}) AS high "
        f"FROM rollouts WHERE {where} GROUP BY hash({key}) "
        "HAVING count(*) > 1) GROUP BY problem ORDER BY problem"
    )
    result = share(rows["both"], rows["repeated"])
    if not result.low > most:
        return None
    text = f"{result.hits} of {result.of} {what} were both accepted and rejected"
    return text, True, {name: result.value, f"{name}_cases": result.hits, f"{name}_repeated": result.of}


def _empty(run: RunData) -> Sign | None:
    rows = run.query(
        f"SELECT count(answer) AS answering, count(*) FILTER (answer = '') AS silent FROM rollouts "
        f"WHERE split = '{main_split(run).name}' AND {SAMPLED} AND {SUCCESS} GROUP BY problem_id ORDER BY problem_id"
    )
    result = share(rows["silent"], rows["answering"])
    if not (result.low > EMPTY and result.value < 0.5):  # from 0.5 on, the verifier probably extracts no answers
        return None
    text = f"{percent(result.value)} of the successes have no extracted answer, while the others have one"
    return text, True, numbers("empty", result)


def _jump(run: RunData) -> Sign | None:
    try:
        rows = success_by_step(run)
    except Lacking:
        return None
    jumps, error = _jumps(rows["success"])
    best = int(jumps.argmax())
    if not (jumps[best] > JUMP and jumps[best] > JUMP_Z * error):
        return None
    step = int(rows["step"][best + JUMP_WINDOW])
    text = f"success jumps by {100 * float(jumps[best]):.0f} points at step {step}"
    return text, False, {"jump": float(jumps[best]), "jump_error": error, "jump_step": step}


def _jumps(values_S: Floats) -> tuple[Floats, float]:
    r"""Return, for each step, an estimate of the jump from the step before, and the standard error that all estimates
    share. The first and the last steps have no estimate, since an estimate needs ``w = JUMP_WINDOW`` steps on either
    side of the jump.

    In each window of ``2w`` steps, a line with a jump in the middle is fitted by least squares, :math:`x_s = a + b s +
    J [s \ge w]`, so that a steep rise gives a slope and no jump. The standard error uses the median residual variance
    of all windows. In a few windows, a jump is not in the middle, and the line fits badly. Unlike the mean, the median
    is hardly affected by these windows.
    """
    w = JUMP_WINDOW
    at = np.arange(2 * w)
    design = np.stack([np.ones(2 * w), at - at.mean(), at >= w], axis=1)
    solve = np.linalg.pinv(design)
    windows = sliding_window_view(values_S, 2 * w)
    fits = windows @ solve.T
    variance = ((windows - fits @ design.T) ** 2).sum(axis=1) / (2 * w - 3)
    return fits[:, 2], float(np.sqrt(np.median(variance) * (solve[2] ** 2).sum()))
