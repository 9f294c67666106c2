"""Weight sync: the learner's weights go to the sampler, and a probe checks each time that they have arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UserError
from outrider.learn.learner import Learner
from outrider.processes.ranks import Ranks
from outrider.record import Ids, Problem, Rollout, SampleRequest, SamplingParams
from outrider.record.row import WeightedRow, row_of
from outrider.sample.sampler import Sampler, takes_adapter

_PARAMS = SamplingParams(max_tokens=8)  # each token after the first is sampled with the KV cache


class ProbeBounds(NamedTuple):
    """What a probe refuses.

    Attributes:
        gap: the largest difference of a log-probability where both sides compute in float32, else the mean one.
        movement: of the learner's log-probabilities, beyond which those of the sampler have to move too. Not 0: float32
            weights may move by less than the sampler's bfloat16 can show.
    """

    gap: float
    movement: float


_BOUNDS = {True: ProbeBounds(1e-3, 1e-6), False: ProbeBounds(0.3, 1e-2)}


class Copy(NamedTuple):
    """One copy of the weights: those that a rank draws from, in the order in which its requests go round them."""

    rank: int
    number: int


class Probe(NamedTuple):
    """The tokens that a copy drew, and their log-probabilities by sampler and learner."""

    ids: list[Ids]
    sampled: NDArray[np.floating]
    learned: NDArray[np.floating]

    @property
    def gaps(self) -> NDArray[np.floating]:
        return np.abs(self.sampled - self.learned)


class WeightSync:
    """Gives the learner's weights to the sampler; after that, both must agree about what the sampler draws.

    A probe draws a few tokens behind fixed prompts, with fixed seeds, from every copy of the weights, and compares the
    log-probabilities that come with them with the learner's for the same tokens. The prompts stay the same, so that
    a KV cache that an engine kept from the previous weights shows. Each copy is checked by itself, or one that is
    stale would hide in the mean of all. Refused are a difference beyond a bound, and a copy whose numbers stay to
    the last bit, or move by less than half as much, while those of the learner move: in the second case by more than
    four times what the two differed by before, since last bits may change on a GPU without new weights.

    Args:
        prompts: of the probe, with the problems that they are of.
        exact: whether both sides compute in float32.
        refuse: False measures and refuses nothing (``policy.check=false``).
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
        self._moved: dict[Copy, Probe] = {}  # of each, the last one in which its numbers had moved

    def __call__(self, version: int) -> dict[str, float]:
        """Sync, probe, and return gauges: ``probe_max`` and ``probe_mean`` are differences of log-probabilities.

        Raises:
            UserError: the learner's weights have diverged, the sampler computes something else than the learner, or it
                cannot take the weights on some rank.
        """
        self._refuse_diverged(version)
        export = partial(self._learner.export, adapter=takes_adapter(self._sampler))
        # gathered, so that an engine that fails on one rank alone ends all of them
        of_ranks = self._ranks.gather(lambda: [self._sampler.take(version, export)])
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

    def _refuse_diverged(self, version: int) -> None:
        """Before the sampler takes the weights: drawing from logits that are not finite has no meaning."""
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
        """Every prompt from every copy that this rank draws from."""
        while True:
            copies = self._sampler.engines
            rollouts = self._sampler.sample([request for request in self._requests for _ in range(copies)])
            if self._sampler.engines == copies:  # or one was lost, and others drew in its place
                return [(Copy(self._ranks.rank, i % copies), rollout) for i, rollout in enumerate(rollouts)]

    def _refuse_gap(self, probe: Probe, whose: str, version: int) -> None:
        gap = float(probe.gaps.max() if self._exact else probe.gaps.mean())
        if not gap <= self._bounds.gap:  # NaN too
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
            return  # too little to tell; it adds up over the next ones
        if change >= movement / 2:
            self._moved[copy] = probe
        else:
            stay = f"moved by no more than {change:.2g}" if change else "are the same as before to the last bit"
            raise UserError(
                f"after weight sync {version}, the sampler's log-probabilities{whose} {stay}, while the "
                f"learner's moved by {movement:.2g}: the weights did not arrive"
            )


def _second_half(prompt: Ids) -> WeightedRow:
    """A prompt as a row of which the policy says the second half."""
    begin = len(prompt) // 2
    own = prompt[begin:]
    zeros = np.zeros(len(own), np.float32)
    return WeightedRow(prompt[:begin], own, zeros, zeros.astype(np.float64), np.ones(len(own), np.bool_))
