"""Handing the learner's weights to the sampler, and checking each time that they have arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UserError
from outrider.learn.learner import Learner
from outrider.record import Ids, Problem, SampleRequest, SamplingParams
from outrider.record.row import TrainingRow, row_of
from outrider.sample.sampler import Sampler
from outrider.train.ranks import Ranks

_PARAMS = SamplingParams(max_tokens=8)  # each token after the first is drawn from keys and values that were kept


class ProbeBounds(NamedTuple):
    """What a probe refuses.

    Attributes:
        gap: the largest difference of a log-probability where both sides compute in float32, else the mean one.
        movement: of the learner's log-probabilities, beyond which those of the sampler cannot have stayed the same to
            the last bit. Not 0: float32 weights may move by less than the sampler's bfloat16 can show.
    """

    gap: float
    movement: float


_BOUNDS = {True: ProbeBounds(1e-3, 1e-6), False: ProbeBounds(0.3, 1e-2)}


class Probe(NamedTuple):
    """The tokens that the samplers of all ranks drew, and their log-probabilities by sampler and learner."""

    ids: list[Ids]
    sampled: NDArray[np.floating]
    learned: NDArray[np.floating]


class HandOver:
    """Gives the learner's weights to the sampler; after that, both must agree about what the sampler draws.

    A probe draws a few tokens behind fixed prompts, with fixed seeds, from every copy of the weights, and compares the
    log-probabilities that come with them with the learner's for the same tokens. The prompts stay the same, so that
    keys and values that an engine kept from the weights before show. Refused are a difference beyond a bound, and a
    sampler whose numbers stay the same to the last bit while those of the learner move.

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
        # a request of its own for every copy of the weights: samplers go round them in turn
        self._requests = [
            SampleRequest(problem, prompt_ids=ids, params=_PARAMS, stage="probe", group_id=f"probe:{problem.id}")
            for problem, ids in prompts
            for _ in range(sampler.engines)
        ]
        self._moved: Probe | None = None  # the last one in which the sampler's numbers were new

    def __call__(self, version: int) -> dict[str, float]:
        """Hand over, probe, and return gauges: ``probe_max`` and ``probe_mean`` are differences of log-probabilities.

        Raises:
            UserError: the sampler computes something else than the learner.
        """
        mine = self._sampler.take(version, partial(self._learner.export, adapter=self._sampler.takes_adapter))
        counts: Counter[str] = Counter()
        for of_rank in self._ranks.gather(lambda: [mine]):
            counts.update(of_rank)
        probe = self._probe()
        gaps = np.abs(probe.sampled - probe.learned)
        gauges = {"probe_max": float(gaps.max()), "probe_mean": float(gaps.mean())}
        if self._refuse:
            self._refuse_gap(gauges["probe_max" if self._exact else "probe_mean"], version)
            self._refuse_stale(probe, version)
        return gauges | {"engines": float(self._sampler.engines_used)} | {name: float(counts[name]) for name in mine}

    def _probe(self) -> Probe:
        rollouts = self._ranks.gather(lambda: self._sampler.sample(self._requests))
        rows: list[TrainingRow] = [row_of(r, np.zeros(len(r.token_ids)), r.prompt_ids) for r in rollouts]
        learned = self._learner.logprobs(rows)
        sampled = [row.old_logprobs_N for row in rows]
        return Probe([r.token_ids for r in rollouts], *(np.concatenate([*parts]) for parts in (sampled, learned)))

    def _refuse_gap(self, gap: float, version: int) -> None:
        if not gap <= self._bounds.gap:  # NaN too
            other = "other weights, or in bfloat16, which policy.dtype does not say" if self._exact else "other weights"
            raise UserError(
                f"after weights {version} were handed over, the sampler's log-probabilities are {gap:.2g} from the "
                f"learner's, and at most {self._bounds.gap:g} is allowed: it computes with {other}"
            )

    def _refuse_stale(self, probe: Probe, version: int) -> None:
        if self._moved is None or not _equal(probe, self._moved):
            self._moved = probe
            return
        movement = float(np.abs(probe.learned - self._moved.learned).max())
        if movement > self._bounds.movement:
            raise UserError(
                f"after weights {version} were handed over, the sampler's log-probabilities are the same as before to "
                f"the last bit, while the learner's moved by {movement:.2g}: the weights did not arrive"
            )


def _equal(one: Probe, other: Probe) -> bool:
    """Whether the samplers gave the same tokens and log-probabilities, to the last bit."""
    return all(map(np.array_equal, [*one.ids, one.sampled], [*other.ids, other.sampled]))
