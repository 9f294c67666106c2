"""Truncation: responses are cut at the limit on their length before they can answer."""

from __future__ import annotations

import numpy as np

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import Lacking, Proportion, numbers, percent, share
from outrider.report.findings.view import for_training, late_groups, main_split

NEEDS = "stop reasons, or token counts"

# Of 8 rollouts, a group has none that was cut in 66 % of cases at 5 %, and in 17 % at 20 %: then nearly every baseline
# holds a failure of the limit instead of the policy.
SOME, MANY = 0.05, 0.20


def find(run: RunData) -> Finding | None:
    """The share of responses that end at the length limit in the last quarter of the steps, and their success.

    Rollouts of one problem are alike, so the interval is taken over problems. A dump without stop reasons takes the
    greatest length that occurs for the limit.

    Raises:
        Lacking: see ``NEEDS``.
    """
    groups = late_groups(run)
    truncated = share(groups["cut"], groups["stops"], groups["problem"])
    if not truncated.of:
        raise Lacking(NEEDS)
    if not truncated.low > SOME:
        return None
    problems, whole = groups["problem"], groups["scorable"] - groups["cut_scorable"]
    of_cut = share(groups["cut_successes"], groups["cut_scorable"], problems)
    of_whole = share(groups["successes"] - groups["cut_successes"], whole, problems)
    spent = np.nansum(groups["tokens"])
    tokens = float(groups["cut_tokens"].sum() / spent) if spent else np.nan
    inferred = main_split(run).inferred
    return Finding(
        name="truncation",
        severity="act" if truncated.low > MANY else "watch",
        sentence=f"{percent(truncated.value)} of the responses end at the length limit ({percent(truncated.low)} to "
        f"{percent(truncated.high)}), with {percent(tokens)} of the tokens{_fate(of_cut, of_whole)}.",
        numbers={
            **numbers("truncated", truncated),
            "tokens": tokens,
            "success_truncated": of_cut.value,
            "success_ended": of_whole.value,
        },
        threshold=f"More than {percent(SOME)} of the responses in the last quarter of the steps, interval over "
        f"problems included; act: {percent(MANY)}."
        + (" Without stop reasons, the greatest length that occurs is taken for the limit." if inferred else ""),
        advice=[
            "Raise sample.max_tokens, if the truncated ones are on their way: read some.",
            *for_training(
                run,
                "Say in the reward what length costs before the limit does: credit overlong, as in recipe dapo.",
                "If they repeat themselves, aggregate by constant (recipe dr-grpo): a mean over each response lets "
                "long failures off lightly.",
            ),
            "Until then report success of ended and truncated responses apart.",
        ],
    )


def _fate(cut: Proportion, whole: Proportion) -> str:
    if not (cut.of and whole.of):
        return ""
    differ = "" if cut.high < whole.low or cut.low > whole.high else ", no certain difference"
    return f"; {percent(cut.value)} of them succeed, of the others {percent(whole.value)}{differ}"
