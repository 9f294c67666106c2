"""Samples and verifies rollouts, with the requests split over ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.credit.reward import RewardOptions
from outrider.errors import UserError
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Rollout, SampleRequest
from outrider.record.row import WeightedRow, row_of
from outrider.sample.sampler import Arriving, Sampler
from outrider.tasks.task import Task, verify_all

Entropies = Callable[[Sequence[WeightedRow]], Sequence[NDArray[np.floating]]]
"""Function that returns the entropy of every own token in rows. It is called on every rank."""


class Collector:
    """Divides sampling and verification of rollouts among the ranks. Afterwards, every rank has the rollouts of all
    ranks, in the order of the requests.

    Requests are divided so that all ranks generate about the same expected number of tokens. For each request, this
    number is ``n`` times the mean length of all earlier responses to problems of the same difficulty level.

    Args:
        entropies: the learner's function for token entropies; None if the sampler records entropies or if no component
            reads them.
        prompt_end: text that the chat template appends to every prompt, possibly with a tag that opens a reasoning
            block; None if there is no chat template.
    """

    def __init__(
        self,
        sampler: Sampler,
        task: Task,
        reward: RewardOptions,
        ranks: Ranks,
        clock: Clock,
        entropies: Entropies | None = None,
        prompt_end: str | None = None,
    ) -> None:
        self.sampler, self.task, self.reward, self.ranks, self.clock = sampler, task, reward, ranks, clock
        self._entropies, self._prompt_end = entropies, prompt_end
        self._lengths: dict[str, list[float]] = {}  # by level: [tokens, rollouts]

    def __call__(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        drawn = iter(self._sampled([request for request in requests if request.replay is None]))
        return [
            rollout
            for request in requests
            for rollout in ([self._again(request)] if request.replay else islice(drawn, request.n))
        ]

    def _again(self, request: SampleRequest) -> Rollout:
        """Return the rollout that a request replays, with its old verdict and a newly computed reward."""
        rollout = request.replayed()
        assert rollout.verdict is not None
        return rollout.verified(rollout.verdict, self.reward.of(rollout.verdict))

    def _sampled(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        if not requests:
            return []
        mine = self.split(requests)[self.ranks.rank]
        with self.clock.phase("gather"):
            # every rank gets all rollouts, so that planning and credit assignment are equal on all ranks
            parts = dict(self.ranks.gather(lambda: self._drawn(requests, mine)))
        rollouts = [rollout for i in range(len(requests)) for rollout in parts[i]]
        for i, request in enumerate(requests):
            seen = self._lengths.setdefault(request.problem.level, [0.0, 0.0])
            seen[0] += sum(len(r.token_ids) for r in parts[i])
            seen[1] += len(parts[i])
        return rollouts if self._entropies is None else with_entropies(rollouts, self._entropies)

    def renewed(self) -> Collector:
        """Return a collector with the same parts, but without the statistics of earlier batches."""
        parts = self.sampler, self.task, self.reward, self.ranks, self.clock
        return Collector(*parts, prompt_end=self._prompt_end)

    def beside(self, clock: Clock) -> Collector:
        """Return a copy of this collector for another thread. The copy has its own clock, but shares the sampler, the
        task and all other attributes."""
        other = copy(self)
        other.clock = clock
        return other

    def notices(self) -> list[str]:
        """Return the new notices of all ranks' samplers to every rank, without duplicates."""
        here = self.sampler.notices
        gathered = self.ranks.gather(lambda: here)
        here.clear()
        return list(dict.fromkeys(gathered))

    @property
    def last_notices(self) -> list[str]:
        """Return pending notices of this rank's sampler. This works after an interruption, since it does not need the
        other ranks."""
        return [*self.sampler.notices]

    def close(self) -> None:
        """Close the sampler."""
        self.sampler.close()

    def split(self, requests: Sequence[SampleRequest]) -> list[list[int]]:
        """Assign each request to the least loaded rank, most expensive requests first. Return indices by rank."""
        totals = sum(tokens for tokens, _ in self._lengths.values()), sum(n for _, n in self._lengths.values())
        overall = totals[0] / totals[1] if totals[1] else 1.0

        def cost(i: int) -> float:
            tokens, rollouts = self._lengths.get(requests[i].problem.level, (0.0, 0.0))
            return requests[i].n * (tokens / rollouts if rollouts else overall)

        loads = [0.0] * self.ranks.size
        parts: list[list[int]] = [[] for _ in loads]
        for i in sorted(range(len(requests)), key=lambda i: (-cost(i), i)):
            rank = loads.index(min(loads))
            parts[rank].append(i)
            loads[rank] += cost(i)
        # every rank computes the same assignment, and a rank's requests keep their order
        return [sorted(part) for part in parts]

    def state_dict(self) -> dict[str, Any]:
        # The lengths determine the assignment to ranks, which changes the last bits of floating-point sums. The state
        # includes the lengths, so that these bits are equal after a resume.
        return {"lengths": self._lengths}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._lengths = {level: list(seen) for level, seen in state["lengths"].items()}

    def _drawn(self, requests: Sequence[SampleRequest], mine: Sequence[int]) -> list[tuple[int, list[Rollout]]]:
        """Sample and verify this rank's requests. Return each request's index with its rollouts."""
        chosen = [requests[i] for i in mine]
        if isinstance(self.sampler, Arriving):
            return self._verified_as_they_come(self.sampler, mine, chosen)
        with self.clock.phase("sample"):
            drawn = self.sampler.sample(chosen)
        with self.clock.phase("verify"):
            verified = self._verify(chosen, drawn)
        return _by_request(mine, requests, verified)

    def _verified_as_they_come(
        self, sampler: Arriving, mine: Sequence[int], chosen: Sequence[SampleRequest]
    ) -> list[tuple[int, list[Rollout]]]:
        """Verify rollouts as they arrive. While a verification runs, the time counts as verification, even if sampling
        continues."""
        verified = []
        with self.clock.phase("sample"):
            for i, request, drawn in zip(mine, chosen, sampler.arriving(chosen), strict=True):
                with self.clock.phase("verify"):
                    verified.append((i, self._verify([request], drawn)))
        return verified

    def _verify(self, requests: Sequence[SampleRequest], rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return the rollouts with verdicts and rewards. Verdicts from environments are kept."""
        _refuse_diverged(rollouts)
        end = self._prompt_end
        asked = [r.problem if end is None else r.problem.prompted(end) for r in requests]
        problems = [problem for problem, request in zip(asked, requests, strict=True) for _ in range(request.n)]
        both = list(zip(problems, rollouts, strict=True))
        items = [(p, r.response_text, not r.truncated) for p, r in both if r.verdict is None]
        verified = iter(verify_all(self.task, items))
        verdicts = [next(verified) if r.verdict is None else r.verdict for r in rollouts]
        return [r.verified(v, self.reward.of(v)) for r, v in zip(rollouts, verdicts, strict=True)]


def _by_request(
    mine: Sequence[int], requests: Sequence[SampleRequest], rollouts: Sequence[Rollout]
) -> list[tuple[int, list[Rollout]]]:
    ends = np.cumsum([requests[i].n for i in mine])
    return [(i, list(rollouts[end - requests[i].n : end])) for i, end in zip(mine, ends, strict=True)]


def with_entropies(rollouts: Sequence[Rollout], entropies: Entropies) -> list[Rollout]:
    """Return the rollouts with the entropy of each sampled token. Tokens from an environment get NaN."""
    filled = list(rollouts)
    for mode in dict.fromkeys(rollout.mode for rollout in rollouts):  # greedy rollouts have another mode
        places = [i for i, rollout in enumerate(rollouts) if rollout.mode == mode]
        rows = [row_of(r, np.zeros(r.trainable_tokens), r.prompt_ids) for r in (rollouts[i] for i in places)]
        for i, entropies_T in zip(places, entropies(rows), strict=True):
            sampled_T = rollouts[i].trainable_T
            known_T = entropies_T if sampled_T is None else np.where(sampled_T, entropies_T, np.nan)
            filled[i] = replace(rollouts[i], entropies_T=known_T.astype(np.float32))
    return filled


def _refuse_diverged(rollouts: Sequence[Rollout]) -> None:
    """Raise UserError unless every sampled token has a finite log-probability."""
    for rollout in rollouts:
        sampled_T = rollout.logprobs_T if rollout.trainable_T is None else rollout.logprobs_T[rollout.trainable_T]
        if not np.isfinite(sampled_T).all():
            raise UserError(
                f"the policy has diverged: with the weights of step {rollout.policy_version} log-probabilities of "
                "sampled tokens are not finite (lower learn.lr)"
            )
