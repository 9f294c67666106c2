"""Reward without success: the reward rises, but success does not."""

from __future__ import annotations

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import MIN_STEPS, FirstAndLast, Lacking, change, level, percent
from outrider.report.findings.view import SCORABLE, SUCCESS, by_step, main_split

NEEDS = f"rewards and verdicts, successes and failures, of at least {MIN_STEPS} training steps"
FEWEST = 20  # verified responses without a success, of which some earn more than others

RISE = 0.1  # of what a success earns more than a failure: less moves the policy little
FAILURES = 0.5  # share of the positive reward: from here on, most of what is paid is paid for failing


def find(run: RunData) -> Finding | None:
    r"""How much of a rise in reward is not one of success, and how much of the reward failures earn.

    The mean reward of a step is what its success rate earns at the run's mean rewards of a success and of a failure,
    :math:`\bar r_- + s\,(\bar r_+ - \bar r_-)`, and a rest: what successes, or failures, earn more than over the whole
    run. A rise of the rest is one that success does not explain. Both parts are compared step by step, last quarter
    against first, so the noise of success cancels. Over scorable rollouts of the first stage.

    Where no response at all succeeds and rewards differ, this is reported at once, also of an evaluation: a shaped
    score that never reaches the threshold of success looks like a task that is too hard.

    Raises:
        Lacking: see ``NEEDS``.
    """
    if (result := _unreached(run)) is not None:
        return result
    rows = by_step(run)
    n, c = rows["paid"], rows["paid_successes"]
    if not (n.all() and 0 < c.sum() < n.sum()):
        raise Lacking(NEEDS)
    good, bad = rows["reward_succeeded"].sum() / c.sum(), rows["reward_failed"].sum() / (n - c).sum()
    gap = good - bad
    explained = bad + (c / n) * gap
    rest = (rows["reward_succeeded"] + rows["reward_failed"]) / n - explained
    rise, surplus, reward, success = (change(v) for v in (rest, rest - explained, rest + explained, c / n))
    alone = rise.low > RISE * abs(gap) and surplus.low > 0 and reward.low > 0
    positive = rows["earned_succeeded"] + rows["earned_failed"]
    some = positive > 0
    paid = level(rows["earned_failed"][some] / positive[some] if some.sum() >= MIN_STEPS else [])
    inverted = gap <= 0
    if not (alone or inverted or paid.low > FAILURES):
        return None
    return Finding(
        name="reward without success",
        severity="act" if alone or inverted else "watch",
        sentence=_sentence(
            reward,
            success,
            rise if alone else None,
            paid.value if paid.low > FAILURES else None,
            (good, bad) if inverted else None,
        ),
        numbers={
            "reward_before": reward.before,
            "reward_after": reward.after,
            "success_before": success.before,
            "success_after": success.after,
            "unexplained_rise": rise.value,
            "unexplained_low": rise.low,
            "unexplained_high": rise.high,
            "reward_of_success": good,
            "reward_of_failure": bad,
            "paid_to_failures": paid.value,
        },
        threshold="More than half of the rise in reward from the first to the last quarter of the steps is none in "
        f"success, and by more than {percent(RISE)} of what a success earns more than a failure, intervals included; "
        f"or late in the run more than {percent(FAILURES)} of the positive reward goes to failures; or a success earns "
        "no more than a failure. Graded tasks may mean it so.",
        advice=[
            "Read failures of high reward: what they share is what is being learnt.",
            "Pay for the verdict alone for a while: reward.correct=1, reward.incorrect=0, no shapers on the reward.",
            "Make what a response can earn without success smaller than what it earns with it, or pay it only on "
            "success.",
            "If the verdict is what is wrong, see verifier suspicion.",
        ],
    )


def _unreached(run: RunData) -> Finding | None:
    """Rewards that differ, over responses none of which is a success."""
    rows = run.query(
        f"SELECT count(*) AS n, count(*) FILTER ({SUCCESS}) AS c, min(reward) AS low, max(reward) AS high, "
        "avg(reward) AS mean, count(DISTINCT step) AS steps "
        f"FROM {run.numbers} "
        f"WHERE {main_split(run).first_stage_rollouts} AND {SCORABLE} AND reward IS NOT NULL AND isfinite(reward)"
    )
    n, c, low, high, mean, steps = (float(column[0]) for column in rows.values())
    if c or n < FEWEST or not high > max(low, 0.0):
        return None
    return Finding(
        name="reward without success",
        severity="act",
        sentence=f"Not one of {n:.0f} responses succeeded, while rewards go from {low:.3g} to {high:.3g} (mean "
        f"{mean:.3g}): no reward reaches what counts as a success.",
        numbers={"responses": n, "reward_min": low, "reward_max": high, "reward_mean": mean, "steps": steps},
        threshold=f"No success among at least {FEWEST} verified responses whose rewards differ and are partly above 0, "
        "from the first step on. A task that is too hard, with points for trying, looks the same.",
        advice=[
            "Look at the score from which a response is correct: success_at of a function, or the rule, such as "
            "success: 'reward >= 1'; it may be out of reach.",
            "Read the response with the highest reward: if it is right, the rule is wrong.",
            "Points for form and effort belong into the reward, not into the verdict.",
        ],
    )


def _sentence(
    reward: FirstAndLast,
    success: FirstAndLast,
    rise: FirstAndLast | None,
    paid: float | None,
    earned: tuple[float, float] | None,
) -> str:
    """The sentence of the finding, with the signs that are not None."""
    text = (
        f"Reward went from {reward.before:.3g} to {reward.after:.3g} and success from {percent(success.before)} to "
        f"{percent(success.after)}"
    )
    if rise is not None:
        text += f"; {rise.value:.3g} [{rise.low:.3g}, {rise.high:.3g}] of the rise is not success"
    if paid is not None:
        text += f"; {percent(paid)} of the positive reward goes to failures"
    if earned is not None:
        text += f"; a success earns {earned[0]:.3g}, a failure {earned[1]:.3g}"
    return text + "."
