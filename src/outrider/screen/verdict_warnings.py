"""Warns if too many responses in a step have no answer or no verdict, or if the scores of a step suggest that no
response can succeed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.record import Group, Outcome, Verdict

UNVERIFIED = 0.05  # threshold for the share of timeouts or errors; at 5 %, a third of all groups of 8 lose a rollout
FEWEST = 16  # minimum scored failures in a step before a warning that success may be out of reach
UNPARSEABLE = 0.5  # threshold for untruncated responses; high, since a base model must first learn the format

_ADVICE = {
    Outcome.TIMEOUT: "the verifier's limit may be too short for this machine",
    Outcome.ERROR: "the verifier fails",
    Outcome.UNPARSEABLE: "the prompt may ask for another answer format than the verifier expects",
}


class VerdictWatch:
    """Warns about the verdicts of a run, step by step.

    A warning is issued if too large a share of a step's verified rollouts is unparseable, a timeout or an error. The
    share of unparseable responses is computed over untruncated responses only, since a truncated response has no
    answer. The next warning about the same outcome is issued only when the outcome's share has more than doubled since
    the last warning.

    A further warning says that the verifier's score threshold for success may be too high. It is issued once, if the
    responses of a step have different scores, but no response of the run has been a success yet. The step must have at
    least 16 scores, and the highest score must be positive.
    """

    def __init__(self) -> None:
        self._warned: dict[Outcome, float] = {}
        self._reached = False

    def warnings(self, groups: Sequence[Group]) -> list[str]:
        """Return the new warnings: one for each outcome that is too frequent, and one if the score threshold for
        success may be too high. A warning about an outcome includes the ``detail`` of a verdict with this outcome."""
        verified = [(r, r.verdict) for group in groups for r in group.drawn.rollouts if r.verdict is not None]
        sentences = []
        for outcome, advice in _ADVICE.items():
            of = verified if outcome is not Outcome.UNPARSEABLE else [(r, v) for r, v in verified if not r.truncated]
            bad = [verdict for _, verdict in of if verdict.outcome is outcome]
            threshold = UNPARSEABLE if outcome is Outcome.UNPARSEABLE else UNVERIFIED
            share = len(bad) / len(of) if of else 0.0
            if share > max(threshold, 2 * self._warned.get(outcome, 0.0)):
                self._warned[outcome] = share
                ended = " that ended" if outcome is Outcome.UNPARSEABLE else ""
                reason = f" ({bad[0].detail})" if bad[0].detail else ""
                sentences.append(f"{outcome.value}: {len(bad)} of {len(of)} responses{ended}{reason}; {advice}")
        return sentences + self._unreached([verdict for _, verdict in verified])

    def _unreached(self, verdicts: Sequence[Verdict]) -> list[str]:
        scores = [verdict.score for verdict in verdicts if math.isfinite(verdict.score)]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        if self._reached or any(verdict.success for verdict in verdicts):
            self._reached = True
            return []
        if len(scores) < FEWEST or not high > max(low, 0.0):
            return []
        self._reached = True  # so that the warning is issued only once
        return [
            f"no success in {len(scores)} responses, whose scores range from {low:.3g} to {high:.3g}; the threshold "
            "of success (success_at of a function) may be out of reach"
        ]
