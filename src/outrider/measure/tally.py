"""What is counted for one problem; everything an evaluation reports is computed from these counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outrider.measure.majority import majority_or_unknown
from outrider.record import Outcome, Problem, Rollout, Verdict

UNSCORABLE = (Outcome.TIMEOUT, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one problem. All but the ``greedy`` fields, ``timeouts`` and ``errors`` are of the sampled responses.

    A timeout or error of the verifier says nothing about the response: it is left out of ``scorable``, the ``n`` of
    pass@k, which may therefore differ between problems, and counted. An unparseable or truncated response did fail
    to answer, unless its verdict says otherwise: it stays in ``n``, and success follows the verdict alone.

    Attributes:
        problem, level: id and difficulty label.
        samples: responses drawn.
        scorable, successes: the n and c of pass@k.
        votes: scorable, untruncated, parsed responses with an answer text.
        majority: see :func:`outrider.measure.majority.majority_or_unknown`; NaN without a scorable sample, and where
            full responses were judged without naming an answer, as nothing can be voted over then.
        greedy: 1 or 0; NaN if there was no greedy response or it is unscorable.
        truncated, unparseable: samples of that kind.
        timeouts, errors: responses that could not be judged, the greedy one included.
        tokens, greedy_tokens: own tokens of the samples, and of the greedy response.
        entropy_sum, entropy_tokens: nats summed over the trainable tokens whose entropy was recorded, and how many
            those are.
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

    @staticmethod
    def of(problem: Problem, sampled: Sequence[Rollout], greedy: Rollout | None = None) -> Tally:
        """Count the responses to one problem.

        Raises:
            ValueError: a rollout has no verdict yet, so it can be neither a success nor a failure.
        """
        outcomes = [_verdict(r).outcome for r in sampled]
        greedy_outcome = [_verdict(greedy).outcome] if greedy else []
        scorable = [r for r, outcome in zip(sampled, outcomes, strict=True) if outcome not in UNSCORABLE]
        answers = [_vote(r) for r in scorable]
        entropies = [e for r in sampled if (e := _entropies(r)) is not None]
        return Tally(
            problem=problem.id,
            level=problem.level,
            samples=len(sampled),
            scorable=len(scorable),
            successes=sum(r.success for r in scorable),
            votes=sum(map(bool, answers)),
            majority=majority_or_unknown(answers, [r.success for r in scorable], list(map(_settled, scorable))),
            greedy=float(greedy.success) if greedy and greedy_outcome[0] not in UNSCORABLE else np.nan,
            truncated=sum(r.truncated for r in sampled),
            unparseable=outcomes.count(Outcome.UNPARSEABLE),
            timeouts=[*outcomes, *greedy_outcome].count(Outcome.TIMEOUT),
            errors=[*outcomes, *greedy_outcome].count(Outcome.ERROR),
            tokens=sum(len(r.token_ids) for r in sampled),
            greedy_tokens=len(greedy.token_ids) if greedy else 0,
            entropy_sum=float(sum(e.sum(dtype=np.float64) for e in entropies)),
            entropy_tokens=sum(map(len, entropies)),
        )


def _verdict(rollout: Rollout) -> Verdict:
    if rollout.verdict is None:
        raise ValueError(f"rollout {rollout.id} has no verdict")
    return rollout.verdict


def _vote(rollout: Rollout) -> str:
    """The answer that a response settled on; ``""`` if it settled on none, or nobody has named it."""
    return _verdict(rollout).answer if _settled(rollout) else ""


def _settled(rollout: Rollout) -> bool:
    """Whether a response was read to its end, so that it has an answer."""
    return _verdict(rollout).outcome in (Outcome.CORRECT, Outcome.INCORRECT) and not rollout.truncated


def _entropies(rollout: Rollout) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None:
    """Entropies of the tokens that the policy chose: observed tokens (tool output) are not its own."""
    if rollout.entropies_T is None or rollout.trainable_T is None:
        return rollout.entropies_T
    return rollout.entropies_T[rollout.trainable_T]
