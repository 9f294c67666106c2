"""Syncs weights from the learner to the sampler. After each sync, a probe checks that the weights have arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UserError
from outrider.learn.learner import Learner, WeightsInMemory
from outrider.processes.ranks import Ranks
from outrider.record import Ids, Problem, Rollout, SampleRequest, SamplingParams
from outrider.record.row import WeightedRow, row_of
from outrider.sample.sampler import CopiesWeights, Sampler, Sleeps, takes_adapter

_PARAMS = SamplingParams(max_tokens=8)  # all tokens after the first are sampled with the KV cache


class ProbeBounds(NamedTuple):
    """The bounds of a probe.

    Attributes:
        gap: maximum difference between the log-probabilities of sampler and learner. If both compute in float32, the
            bound applies to the largest difference, otherwise to the mean difference.
        movement: change in the learner's log-probabilities above which the sampler's log-probabilities must change as
            well. Smaller changes may be lost when the learner's float32 weights are rounded to the sampler's bfloat16.
    """

    gap: float
    movement: float


_BOUNDS = {True: ProbeBounds(1e-3, 1e-6), False: ProbeBounds(0.3, 1e-2)}


class Copy(NamedTuple):
    """One copy of the weights, identified by its rank and by its index among the rank's copies."""

    rank: int
    number: int


class Probe(NamedTuple):
    """Tokens sampled from one copy of the weights, with their log-probabilities according to the sampler and the
    learner."""

    ids: list[Ids]
    sampled: NDArray[np.floating]
    learned: NDArray[np.floating]

    @property
    def gaps(self) -> NDArray[np.floating]:
        return np.abs(self.sampled - self.learned)


class WeightSync:
    """Syncs the learner's weights to the sampler, and checks that both agree on sampled tokens.

    A probe samples a few tokens from every copy of the weights, with fixed prompts and seeds. It then compares the
    sampler's log-probabilities of these tokens with the learner's. The prompts never change, so that a KV cache
    computed with earlier weights is detected. Each copy is checked separately, since a mean could hide a stale copy. A
    check fails if the difference exceeds its bound.

    A check also fails if a copy seems stale: since an earlier probe with the same tokens, the copy's log-probabilities
    have changed less than half as much as the learner's. This second check ignores small changes of the learner's
    log-probabilities. Rounding errors on a GPU may change the last bits of the copy's log-probabilities even if its
    weights are the same. Therefore, if the copy's log-probabilities have changed at all, larger changes of the
    learner's log-probabilities are ignored as well. The limit is four times the largest difference between copy and
    learner in the earlier probe.

    Args:
        prompts: prompts of the probe, with their problems.
        exact: whether sampler and learner compute in float32.
        refuse: whether a failed check raises an error. If False (``policy.check=false``), the check only measures the
            differences.
    """

    def __init__(
        self,
        sampler: Sampler,
        learner: Learner,
        ranks: Ranks,
        prompts: Sequence[tuple[Problem, Ids]],
        exact: bool = True,
        refuse: bool = True,
    ) -> None:
        self._sampler, self._learner, self._ranks = sampler, learner, ranks
        self._exact, self._bounds, self._refuse = exact, _BOUNDS[exact], refuse
        self._requests = [
            SampleRequest(problem, prompt_ids=ids, params=_PARAMS, stage="probe", group_id=f"probe:{problem.id}")
            for problem, ids in prompts
        ]
        self._read = [_second_half(ids) for _, ids in prompts if len(ids) > 1]
        self._moved: dict[Copy, Probe] = {}  # for each copy, the last probe in which its log-probabilities changed

    def __call__(self, version: int) -> dict[str, float]:
        """Sync the weights, probe the sampler, and return metrics. ``probe_max`` and ``probe_mean`` are the largest and
        the mean difference between the sampler's and the learner's log-probabilities.

        Raises:
            UserError: the learner's weights have diverged, sampler and learner disagree, or a rank's sampler cannot
                take the weights.
        """
        self._refuse_diverged(version)
        # gather, so that a failure on one rank ends all ranks
        of_ranks = self._ranks.gather(lambda: [self._give(version)])
        probes = self._probe()
        gaps = np.concatenate([probe.gaps for probe in probes.values()])
        if self._refuse:
            for copy, probe in probes.items():
                whose = f" of rank {copy.rank}, copy {copy.number + 1} of its weights," if len(probes) > 1 else ""
                self._refuse_gap(probe, whose, version)
                self._refuse_stale(copy, probe, whose, version)
        counts: Counter[str] = Counter()
        for of_rank in of_ranks:
            counts.update(of_rank)
        engines = min(Counter(copy.rank for copy in probes).values())
        gauges = {"probe_max": float(gaps.max()), "probe_mean": float(gaps.mean()), "engines": float(engines)}
        return gauges | {name: float(count) for name, count in counts.items()}

    def sleep(self) -> None:
        """Free the sampler's device memory until the next sync, if the sampler supports this."""
        if isinstance(self._sampler, Sleeps):
            self._ranks.together(self._sampler.sleep)

    def _give(self, version: int) -> dict[str, int]:
        """Pass the weights to this rank's sampler, in memory if both sampler and learner support this."""
        sampler, learner, adapter = self._sampler, self._learner, takes_adapter(self._sampler)
        whole = learner.whole and not adapter
        if whole and isinstance(sampler, CopiesWeights) and isinstance(learner, WeightsInMemory):
            return sampler.copy_weights(version, learner.weights())
        return sampler.take(version, partial(learner.export, adapter=adapter))

    def _refuse_diverged(self, version: int) -> None:
        """Raise UserError if the learner's weights have diverged. This check precedes the sync, since no sampler can
        sample from non-finite logits."""
        if not all(np.isfinite(logprobs).all() for logprobs in self._learner.logprobs(self._read)):
            if version == 0:
                raise UserError("the model's log-probabilities of a prompt are not finite: its weights are damaged")
            raise UserError(
                f"step {version}: the policy has diverged, since its log-probabilities of a prompt are not finite "
                "after the update; the last checkpoint is from before (lower learn.lr, and resume with --force, "
                "in Python force=True)"
            )

    def _probe(self) -> dict[Copy, Probe]:
        drawn = self._ranks.gather(self._draw)
        rows: list[WeightedRow] = [row_of(r, np.zeros(len(r.token_ids)), r.prompt_ids) for _, r in drawn]
        learned = self._learner.logprobs(rows)
        probes = {}
        for copy in dict.fromkeys(copy for copy, _ in drawn):
            mine = [i for i, (by, _) in enumerate(drawn) if by == copy]
            sampled = np.concatenate([rows[i].old_logprobs_N for i in mine])
            ids = [drawn[i][1].token_ids for i in mine]
            probes[copy] = Probe(ids, sampled, np.concatenate([learned[i] for i in mine]))
        return probes

    def _draw(self) -> list[tuple[Copy, Rollout]]:
        """Sample a response to every prompt from every copy of the weights on this rank."""
        while True:
            copies = self._sampler.engines
            rollouts = self._sampler.sample([request for request in self._requests for _ in range(copies)])
            if self._sampler.engines == copies:  # else a copy was lost, and other copies replaced it
                return [(Copy(self._ranks.rank, i % copies), rollout) for i, rollout in enumerate(rollouts)]

    def _refuse_gap(self, probe: Probe, whose: str, version: int) -> None:
        gap = float(probe.gaps.max() if self._exact else probe.gaps.mean())
        if not gap <= self._bounds.gap:  # also true for NaN
            other = "other weights, or in less than float32 (bfloat16, TF32)" if self._exact else "other weights"
            raise UserError(
                f"after weight sync {version}, the sampler's log-probabilities{whose} are {gap:.2g} from "
                f"the learner's, and at most {self._bounds.gap:g} is allowed: it computes with {other}"
            )

    def _refuse_stale(self, copy: Copy, probe: Probe, whose: str, version: int) -> None:
        moved = self._moved.setdefault(copy, probe)
        if not all(map(np.array_equal, probe.ids, moved.ids)):
            self._moved[copy] = probe
            return
        change = float(np.abs(probe.sampled - moved.sampled).max())
        movement = float(np.abs(probe.learned - moved.learned).max())
        rounding = 4 * float(moved.gaps.max()) if change else 0.0
        if movement <= max(rounding, self._bounds.movement):
            return  # too small to decide, but the change accumulates over syncs
        if change >= movement / 2:
            self._moved[copy] = probe
        else:
            stay = f"moved by no more than {change:.2g}" if change else "are the same as before to the last bit"
            raise UserError(
                f"after weight sync {version}, the sampler's log-probabilities{whose} {stay}, while the "
                f"learner's moved by {movement:.2g}: the weights did not arrive"
            )


def _second_half(prompt: Ids) -> WeightedRow:
    """Return a row that treats the second half of a prompt as sampled tokens."""
    begin = len(prompt) // 2
    own = prompt[begin:]
    zeros = np.zeros(len(own), np.float32)
    return WeightedRow(prompt[:begin], own, zeros, zeros.astype(np.float64), np.ones(len(own), np.bool_))
