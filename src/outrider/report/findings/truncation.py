"""Truncation: responses reach the length limit before they give an answer."""

from __future__ import annotations

import numpy as np

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import Lacking, Proportion, numbers, percent, share
from outrider.report.findings.view import for_training, late_groups, main_split

NEEDS = "stop reasons, or token counts"

# At a truncation rate of 5 %, 66 % of groups of 8 have no truncated rollout; at 20 %, only 17 %. At 20 %, nearly every
# baseline therefore includes a failure that the length limit has caused.
SOME, MANY = 0.05, 0.20


def find(run: RunData) -> Finding | None:
    """Check the share of responses truncated at the length limit in the last quarter of the steps, and their success
    rate.

    The interval is clustered by problem, since rollouts of one problem are correlated. If stop reasons were not
    recorded, the length of the longest response is used as the limit.

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
        sentence=f"{percent(truncated.value)} of the responses are truncated at the length limit (3-SE interval "
        f"{percent(truncated.low)} to {percent(truncated.high)}), with {percent(tokens)} of the "
        f"tokens{_fate(of_cut, of_whole)}.",
        numbers={
            **numbers("truncated", truncated),
            "tokens": tokens,
            "success_truncated": of_cut.value,
            "success_ended": of_whole.value,
        },
        threshold=f"More than {percent(SOME)} of the responses in the last quarter of the steps are truncated, "
        f"significantly (3-SE interval over problems); act: {percent(MANY)}."
        + (" Without stop reasons, the longest response is taken as the limit." if inferred else ""),
        advice=[
            "Raise sample.max_tokens if truncated responses were making progress: read some.",
            *for_training(
                run,
                "Penalise length before the limit: credit overlong, as in recipe dapo.",
                "If truncated responses repeat themselves, use a constant denominator (recipe dr-grpo): a mean over "
                "each response gives tokens of long failures less weight.",
            ),
            "Until then, report the success of ended and of truncated responses separately.",
        ],
    )


def _fate(cut: Proportion, whole: Proportion) -> str:
    if not (cut.of and whole.of):
        return ""
    differ = "" if cut.high < whole.low or cut.low > whole.high else " (not significantly different)"
    return (
        f"; {percent(cut.value)} of the truncated responses succeed, against {percent(whole.value)} of the "
        f"others{differ}"
    )
