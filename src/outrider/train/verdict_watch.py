"""Says so when the verifier leaves too many responses of a step without an answer or a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.record import Group, Outcome

UNJUDGED = 0.05  # timeouts and errors: at 5 % a third of all groups of 8 lose a member
UNPARSEABLE = 0.5  # of those that were not cut off; a base model that learns the form begins high

_ADVICE = {
    Outcome.TIMEOUT: "the verifier's limit may be too short for this machine",
    Outcome.ERROR: "the verifier fails",
    Outcome.UNPARSEABLE: "prompt and verifier may not agree on how an answer is written",
}


class VerdictWatch:
    """Warnings about the verdicts of a run, step by step.

    The shares are of the judged rollouts of one step: of all for timeouts and for errors; of those that were not cut
    off for unparseable ones, as a response without an end has no answer to be read. A warning comes when a share
    passes its threshold, and again only when it has doubled since, so a run that stays bad is not a wall of warnings.
    """

    def __init__(self) -> None:
        self._told: dict[Outcome, float] = {}

    def warnings(self, groups: Sequence[Group]) -> list[str]:
        """One sentence for each outcome whose share has passed its threshold; with the first reason, for a look."""
        judged = [(r, r.verdict) for group in groups for r in group.rollouts if r.verdict is not None]
        found = []
        for outcome, advice in _ADVICE.items():
            of = judged if outcome is not Outcome.UNPARSEABLE else [(r, v) for r, v in judged if not r.truncated]
            bad = [verdict for _, verdict in of if verdict.outcome is outcome]
            threshold = UNPARSEABLE if outcome is Outcome.UNPARSEABLE else UNJUDGED
            share = len(bad) / len(of) if of else 0.0
            if share > max(threshold, 2 * self._told.get(outcome, 0.0)):
                self._told[outcome] = share
                ended = " that ended" if outcome is Outcome.UNPARSEABLE else ""
                reason = f" ({bad[0].detail})" if bad[0].detail else ""
                found.append(f"{outcome.value}: {len(bad)} of {len(of)} responses{ended}{reason}; {advice}")
        return found
