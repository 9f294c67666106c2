"""The tokens that an intervention replaces, and the table of the results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from outrider.analyse.arguments import Intervene
from outrider.analyse.forward import TokenValues
from outrider.record import Ids, Rollout, identity_seed

KEPT, REPLACED = "kept", "replaced"


class Site(NamedTuple):
    """The position in a response at which an intervention replaces the token.

    A rollout may be a branch, which continues a prefix of another rollout's response.

    Attributes:
        at: index of the token in ``rollout.token_ids``, which do not include the prefix of a branch.
        values: statistics of ``rollout.token_ids``, such as entropies.
    """

    rollout: Rollout
    at: int
    values: TokenValues

    @property
    def position(self) -> int:
        """Index of the token in the whole response, including the prefix if the rollout continues another rollout."""
        return self.rollout.branch_at + self.at

    @property
    def length(self) -> int:
        """Number of tokens in the whole response, including the prefix if the rollout continues another rollout."""
        return self.rollout.branch_at + len(self.rollout.token_ids)

    @property
    def tokens(self) -> dict[str, int]:
        """Ids of the original token at this position (key ``kept``) and of its replacement (key ``replaced``)."""
        return {KEPT: int(self.rollout.token_ids[self.at]), REPLACED: int(self.values.alternatives[self.at])}

    def path(self, branch: str) -> Ids:
        """Return the response's tokens before this position, followed by the token ``self.tokens[branch]``."""
        before = self.rollout.response_ids[: self.position]
        return np.append(before, self.tokens[branch]).astype(np.int32)

    @property
    def perplexity(self) -> float:
        """Perplexity of the rollout's sampled tokens under the analysed policy."""
        logprobs_T, sampled_T = self.values.logprobs, self.rollout.trainable_T
        return float(np.exp(-(logprobs_T if sampled_T is None else logprobs_T[sampled_T]).mean(dtype=np.float64)))


class ContinuationCounts(NamedTuple):
    """The results of the continuations at one position, after the original token or after the token that replaces it.

    Attributes:
        successes: number of continuations that the verifier accepted as correct.
        unscorable: number of continuations for which the verifier failed or timed out.
        tokens: number of tokens that were generated.
    """

    successes: int
    unscorable: int
    tokens: int


def chosen_positions(rollout: Rollout, entropies_T: NDArray[np.floating], options: Intervene) -> list[int]:
    """Choose one sampled token in each of ``options.positions`` equal sections of a rollout, and return their indices.

    The options decide whether the chosen token is the one with the highest entropy (the first in a tie) or a random
    token. The random choice depends only on ``options.seed``, the rollout's id and the section. Observed tokens are
    ignored. If a rollout has fewer sampled tokens than sections, all its sampled tokens are chosen.

    >>> from outrider.tasks import Countdown
    >>> ids = np.arange(5, dtype=np.int32)
    >>> rollout = Rollout("p", "g", 0, ids[:1], ids, np.zeros(5, np.float32), ids[:0])
    >>> chosen_positions(rollout, np.array([0.1, 0.9, 0.2, 0.3, 0.3]), Intervene(positions=2, task=Countdown()))
    [1, 3]
    """
    sampled = np.arange(len(rollout.token_ids)) if rollout.trainable_T is None else np.flatnonzero(rollout.trainable_T)
    bounds = [i * len(sampled) // options.positions for i in range(options.positions + 1)]
    chosen = []
    for number, (start, stop) in enumerate(pairwise(bounds)):
        stretch = sampled[start:stop]
        if not len(stretch):
            continue
        if options.choose == "entropy":
            chosen.append(int(stretch[np.argmax(entropies_T[stretch])]))
        else:
            # seeded by the rollout's identity, so that the choice does not depend on which rollouts are selected
            chosen.append(int(stretch[identity_seed(options.seed, "position", rollout.id, number) % len(stretch)]))
    return chosen


def site_table(
    split: str,
    step: int,
    sites: Sequence[Site],
    kept: Sequence[ContinuationCounts],
    replaced: Sequence[ContinuationCounts],
    k: int,
) -> pa.Table:
    """Return one row per replaced token. The row has statistics of the original token, such as its log-probability. It
    also has the results of the continuations after the original token (``kept``) and after its replacement
    (``replaced``).

    ``success`` is True if the original response was correct. ``relative_position`` is :math:`t / L` in [0, 1), where
    the position :math:`t` counts from 0, as in the position shaper. If the verifier failed on a continuation, the
    number of successes is null, since it is unknown. ``unscorable`` counts such continuations.
    """
    rollouts = [s.rollout for s in sites]
    positions, lengths = (np.array([getattr(s, name) for s in sites], np.int32) for name in ("position", "length"))
    spent = [a.tokens + b.tokens for a, b in zip(kept, replaced, strict=True)]
    lost = [a.unscorable + b.unscorable for a, b in zip(kept, replaced, strict=True)]
    columns = {
        "split": pa.repeat(split, len(sites)),
        "step": pa.repeat(pa.scalar(step, pa.int64()), len(sites)),
        "problem_id": pa.array([r.problem_id for r in rollouts], pa.string()),
        "group_id": pa.array([r.group_id for r in rollouts], pa.string()),
        "member": pa.array([r.member for r in rollouts], pa.int32()),
        "success": pa.array([r.success for r in rollouts], pa.bool_()),
        "position": positions,
        "length": lengths,
        "relative_position": (positions / np.maximum(lengths, 1)).astype(np.float32),
        "token_id": np.array([s.tokens[KEPT] for s in sites], np.int32),
        "alternative_id": np.array([s.tokens[REPLACED] for s in sites], np.int32),
        "logprob": np.array([s.values.logprobs[s.at] for s in sites], np.float32),
        "alternative_logprob": np.array([s.values.alternative_logprobs[s.at] for s in sites], np.float32),
        "entropy": np.array([s.values.entropies[s.at] for s in sites], np.float32),
        "ppl": np.array([s.perplexity for s in sites], np.float32),
        "kept_successes": pa.array([None if f.unscorable else f.successes for f in kept], pa.int32()),
        "replaced_successes": pa.array([None if f.unscorable else f.successes for f in replaced], pa.int32()),
        "k": np.full(len(sites), k, np.int32),
        "unscorable": np.array(lost, np.int32),
        "generated_tokens": np.array(spent, np.int32),
    }
    return pa.table(columns)
