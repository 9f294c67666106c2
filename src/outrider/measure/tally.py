"""Counts of outcomes per problem (tallies), from which all results of an evaluation are computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from outrider.measure.majority import majority_or_unknown
from outrider.record import Outcome, Problem, Rollout

SCORABLE = (Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE)


class TallyEntry(NamedTuple):
    """The data of one response, as needed for a tally.

    Attributes:
        outcome: the verifier's outcome, such as ``"correct"``; None if the response was never verified.
        answer: answer text from the verifier; ``""`` if the verifier returned no answer text.
        truncated: whether a limit truncated the response.
        tokens: number of tokens sampled by the policy; 0 if unknown.
        entropy_sum, entropy_tokens: sum of the entropies, in nats, over the tokens that the policy sampled, and the
            number of these tokens.
    """

    outcome: str | None
    answer: str
    truncated: bool
    tokens: int
    entropy_sum: float
    entropy_tokens: int

    @property
    def scorable(self) -> bool:
        return self.outcome in SCORABLE

    @property
    def settled(self) -> bool:
        """Whether the response was parsed and not truncated, so that it has an answer."""
        return self.outcome in (Outcome.CORRECT, Outcome.INCORRECT) and not self.truncated


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the sampled responses to one problem.

    Responses that could not be verified (timeout or error) count in ``samples``, but not in ``scorable``, which is the
    ``n`` of pass@k. Therefore, ``n`` may differ between problems. Unparseable and truncated responses count in ``n``.
    The verdict decides whether such a response succeeds; usually it fails.

    Attributes:
        problem, level: problem id and difficulty label.
        samples: number of sampled responses.
        scorable, successes: number of verified responses (n of pass@k), and number of correct responses (c of pass@k).
        votes: number of verified responses that were parsed, not truncated, and have an answer text.
        majority: success of the most frequent answer; NaN if unknown
            (:func:`outrider.measure.majority.majority_or_unknown`).
        greedy: success of the greedy response, which is 1 or 0; NaN if there is no greedy response, or if it could not
            be verified.
        truncated, unparseable: the number of truncated samples, and the number of unparseable samples.
        timeouts, errors: number of responses, including the greedy one, for which the verifier exceeded its time limit
            (timeouts) or failed (errors).
        tokens, greedy_tokens: number of tokens that the policy generated in the samples, and in the greedy response.
        entropy_sum, entropy_tokens: sum of the entropies, in nats, over trainable tokens with a recorded entropy, and
            the number of these tokens.
        test_set: name of the problem's test set; "" if the data have only one test set.
    """

    problem: str
    level: str
    samples: int
    scorable: int
    successes: int
    votes: int
    majority: float
    greedy: float
    truncated: int
    unparseable: int
    timeouts: int
    errors: int
    tokens: int
    greedy_tokens: int
    entropy_sum: float
    entropy_tokens: int
    test_set: str = ""

    @property
    def label(self) -> str:
        """The problem's difficulty level, such as ``5``, or "" if it has none. If the problem belongs to a test set,
        the name of the test set comes first: ``math/5``.
        """
        return f"{self.test_set}/{self.level}" if self.test_set and self.level else self.level

    @staticmethod
    def of(problem: Problem, sampled: Sequence[Rollout], greedy: Rollout | None = None) -> Tally:
        """Count the responses to one problem.

        Raises:
            ValueError: a rollout has no verdict yet.
        """
        entries = list(map(_entry, sampled)), [_entry(greedy)] if greedy else []
        return Tally.count(problem.id, problem.level, *entries, test_set=problem.test_set)

    @staticmethod
    def count(
        problem: str, level: str, sampled: Sequence[TallyEntry], greedy: Sequence[TallyEntry], test_set: str = ""
    ) -> Tally:
        """Count the responses to one problem, from a run or from saved generations; ``greedy`` has at most one
        entry."""
        scorable = [r for r in sampled if r.scorable]
        right = [r.outcome == Outcome.CORRECT for r in scorable]
        settled = [r.settled for r in scorable]
        answers = [r.answer if r.settled else "" for r in scorable]
        outcomes = [r.outcome for r in (*sampled, *greedy)]
        return Tally(
            problem=problem,
            level=level,
            samples=len(sampled),
            scorable=len(scorable),
            successes=sum(right),
            votes=sum(map(bool, answers)),
            majority=majority_or_unknown(answers, right, settled),
            greedy=float(greedy[0].outcome == Outcome.CORRECT) if greedy and greedy[0].scorable else math.nan,
            truncated=sum(r.truncated for r in sampled),
            unparseable=sum(r.outcome == Outcome.UNPARSEABLE for r in sampled),
            timeouts=outcomes.count(Outcome.TIMEOUT),
            errors=outcomes.count(Outcome.ERROR),
            tokens=sum(r.tokens for r in sampled),
            greedy_tokens=sum(r.tokens for r in greedy),
            entropy_sum=float(sum(r.entropy_sum for r in sampled)),
            entropy_tokens=sum(r.entropy_tokens for r in sampled),
            test_set=test_set,
        )


def _entry(rollout: Rollout) -> TallyEntry:
    verdict = rollout.verdict
    if verdict is None:
        raise ValueError(f"rollout {rollout.id} has no verdict")
    nats_T = np.zeros(0) if rollout.entropies_T is None else rollout.entropies_T
    if rollout.entropies_T is not None and rollout.trainable_T is not None:
        nats_T = nats_T[rollout.trainable_T]  # without observed tokens (tool output), which the policy did not sample
    entropy = float(nats_T.sum(dtype=np.float64))
    return TallyEntry(
        verdict.outcome, verdict.answer, rollout.truncated, rollout.trainable_tokens, entropy, len(nats_T)
    )
