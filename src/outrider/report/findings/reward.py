"""Reward without success: the reward rises, but success does not."""

from __future__ import annotations

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import MIN_STEPS, FirstAndLast, Lacking, change, level, percent
from outrider.report.findings.view import SCORABLE, SUCCESS, by_step, main_split

NEEDS = f"rewards and verdicts of at least {MIN_STEPS} training steps, with both successes and failures"
FEWEST = 20  # minimum number of verified responses if all fail with different rewards

RISE = 0.1  # share of the reward gap between success and failure; a smaller rise hardly changes the policy
FAILURES = 0.5  # failures' share of the positive reward; above this share, failures get most of the reward


def find(run: RunData) -> Finding | None:
    r"""Check for a rise in reward that success does not explain, and for failures that get a large share of the reward.

    A step's mean reward is split into a part that success explains and the rest. With the step's success rate :math:`s`
    and the run's mean rewards :math:`\bar r_-` of failures and :math:`\bar r_+` of successes, the explained part is
    :math:`\bar r_- + s\,(\bar r_+ - \bar r_-)`. If the rest rises, success cannot explain this rise. Each step's own
    success rate is used, so its noise does not change the rest. The mean of the rest in the last quarter of the steps
    is compared with its mean in the first quarter. Only verified rollouts from the first entry of the recipe's sampling
    plan (``explore``) are used, not rollouts that later entries add.

    The finding is also reported if no response succeeds, although some rewards are above 0 and not all rewards are
    equal. This applies to training and to evaluations. The threshold of success may then be out of reach. Success rates
    alone would suggest that the task is too hard.

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
        threshold="Success does not explain more than half of the rise in reward from the first to the last quarter "
        f"of the steps, and the unexplained part exceeds {percent(RISE)} of the reward gap between success and "
        f"failure (3-SE intervals); or failures receive more than {percent(FAILURES)} of the positive reward late "
        "in the run; or a success has no higher mean reward than a failure. In graded tasks this can be intended.",
        advice=[
            "Read failures with a high reward: training reinforces what they share.",
            "Reward only the verdict for a while: reward.correct=1, reward.incorrect=0, no reward shapers.",
            "Make the reward without success smaller than the reward of success, or give partial reward only on "
            "success.",
            "If verdicts are wrong, see the finding verifier suspicion.",
        ],
    )


def _unreached(run: RunData) -> Finding | None:
    """Return the finding if no response succeeds although rewards differ; otherwise None."""
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
        sentence=f"None of {n:.0f} responses succeeded, while rewards range from {low:.3g} to {high:.3g} (mean "
        f"{mean:.3g}): no reward reaches the threshold of success.",
        numbers={"responses": n, "reward_min": low, "reward_max": high, "reward_mean": mean, "steps": steps},
        threshold=f"At least {FEWEST} verified responses without a success, from the first step on, whose rewards "
        "differ and are partly above 0. A task that is too hard but gives partial reward looks the same.",
        advice=[
            "Check the threshold of success: success_at of a function, or a rule such as success: 'reward >= 1'. It "
            "may be out of reach.",
            "Read the response with the highest reward: if it is correct, the rule is wrong.",
            "Put points for format and effort into the reward, not into the verdict.",
        ],
    )


def _sentence(
    reward: FirstAndLast,
    success: FirstAndLast,
    rise: FirstAndLast | None,
    paid: float | None,
    earned: tuple[float, float] | None,
) -> str:
    """Return the sentence that describes the problem in the report. Evidence that is None is not mentioned."""
    text = (
        f"Reward went from {reward.before:.3g} to {reward.after:.3g}, and success from {percent(success.before)} to "
        f"{percent(success.after)}"
    )
    if rise is not None:
        text += (
            f"; success does not explain {rise.value:.3g} of the rise (3-SE interval {rise.low:.3g} to {rise.high:.3g})"
        )
    if paid is not None:
        text += f"; failures receive {percent(paid)} of the positive reward"
    if earned is not None:
        text += f"; the mean reward is {earned[0]:.3g} for a success and {earned[1]:.3g} for a failure"
    return text + "."
