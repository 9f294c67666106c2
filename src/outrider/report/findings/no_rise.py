"""No rise: the success rate never rises in training, although many responses still fail."""

from __future__ import annotations

from outrider.measure import Interval, bootstrap_difference
from outrider.measure.compare import paired
from outrider.measure.evaluation import pass_values
from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.digits import points
from outrider.report.findings.base import MIN_STEPS, FirstAndLast, Lacking, change, numbers, percent
from outrider.report.findings.view import by_step, success_by_step

NEEDS = f"verdicts of at least {MIN_STEPS} training steps"

RISE, LITTLE = 0.15, 0.05  # rises to rule out for `watch` and `act`; 40 steps of 128 rollouts measure success to ±0.1
SOLVED = 0.9  # above this success rate there is little room for a rise


def find(run: RunData) -> Finding | None:
    """Check that the success rate rises from the first to the last quarter of the steps. Only rollouts from the first
    entry of the recipe's sampling plan (``explore``) are used, not rollouts that later entries add.

    The finding is reported if the rise is not significant and a rise of 15 points is ruled out. A rise is ruled out if
    the interval of the change in training success, or in held-out pass@1, lies below 15 points. The finding is not
    reported if success reaches ``SOLVED`` in the last quarter. Nor is it reported if held-out pass@1 rises: the
    training problems may have become harder. If the reward rises, nothing is reported here, since the check *reward
    without success* covers this case.

    Raises:
        Lacking: see ``NEEDS``.
    """
    success = change(success_by_step(run)["success"])
    held_out = _held_out(run)
    at_most = success.high if held_out is None else min(success.high, held_out.high)
    flat = success.low <= 0 and at_most < RISE and success.after < SOLVED
    if not flat or (held_out is not None and held_out.low > 0) or _reward_rises(run):
        return None
    fell = success.high < 0
    evaluated = (
        ""
        if held_out is None
        else f"; pass@1 on held-out problems changed by {points(held_out.value)} (95 % CI {_ends(held_out)})"
    )
    return Finding(
        name="no rise",
        severity="act" if at_most < LITTLE else "watch",
        sentence=f"Success {'fell' if fell else 'never rose'}: {percent(success.before)} in the first quarter of the "
        f"steps, {percent(success.after)} in the last, a change of {points(success.value)} (3-SE interval "
        f"{_ends(success)}){evaluated}.",
        numbers={
            "success_before": success.before,
            "success_after": success.after,
            **numbers("rise", success),
            **({} if held_out is None else {"held_out_rise": held_out.value}),
        },
        threshold="Success does not rise significantly from the first to the last quarter of the steps (3-SE "
        f"interval). A rise of {100 * RISE:.0f} points (act: {100 * LITTLE:.0f}) in success, or in held-out pass@1, is "
        f"ruled out, while success is below {percent(SOLVED)}. The rule does not fire where held-out pass@1 or "
        "the reward rises. Success is that of training problems: a curriculum of harder problems has the same "
        "effect.",
        advice=[
            "Check that gradients are non-zero: the share of dead prompts, the share of rollouts trained on, and "
            "learn.lr.",
            "Read successes and failures of one group: the verdict may not measure what improves.",
            "Use easier problems, or more rollouts of each: only mixed groups have a signal. Recipe dapo or dars-hw.",
            "Train on a task with known improvement, such as the shipped demo.",
        ],
    )


def _held_out(run: RunData) -> Interval | None:
    """Return pass@1 of the last evaluation minus pass@1 of the first evaluation, on their common problems."""
    if len(run.evaluations) < 2:
        return None
    pairs = paired(run.evaluations[min(run.evaluations)], run.evaluations[max(run.evaluations)])
    before, after = (pass_values([pair[i] for pair in pairs], 1) for i in (0, 1))
    result = bootstrap_difference(before, after)
    return result if result.problems > 1 else None


def _reward_rises(run: RunData) -> bool:
    try:
        rows = by_step(run)
    except Lacking:
        return False
    paid = rows["paid"] > 0
    rewards = (rows["reward_succeeded"] + rows["reward_failed"])[paid] / rows["paid"][paid]
    return change(rewards).low > 0


def _ends(result: FirstAndLast | Interval) -> str:
    return f"{100 * result.low:+.1f} to {100 * result.high:+.1f}"
