"""Entropy-adaptive branching (ARPO): branches where the policy's entropy is higher than at the start of a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr

from outrider.errors import UserError
from outrider.explore.bounds import Bounds
from outrider.explore.branch import AnySegmenter, branch_request, mean, root_of
from outrider.explore.outcome import trainable
from outrider.explore.segment import SegmentedRollout, Turns
from outrider.explore.select import Pivot
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.needs import Needs
from outrider.record import Group, Rollout, SampleRequest, identity_seed, uniforms
from outrider.record.turns import sampled


class EntropyBranch(Stage):
    r"""Samples branches at segment boundaries, with a probability that rises with the entropy after the boundary
    (ARPO). A path is a response including any inherited prefix.

    .. math:: P_t = \mathrm{clip}(\alpha + \beta \, \Delta H_t, 0, 1), \qquad \Delta H_t = H_t - H_0

    Here H_t is the mean entropy, in nats, of the first ``tokens`` sampled tokens after boundary t (fewer at a path's
    end). H_0 is the same mean at the start of the path's root. The root of a branch is its ancestor that was sampled
    from the prompt; any other path is its own root. A path that branches gets ``branches`` continuations from the
    boundary. With ``threshold`` nothing is random: a path branches if ``alpha + beta ΔH`` exceeds the threshold.

    Boundaries are processed in order, until a problem has ``total`` rollouts. First comes the first boundary of every
    path, then the second boundary of every path (including new branches), and so on. When no path reaches the next
    boundary, the remaining rollouts start from the prompt. Every problem therefore ends with exactly ``total``
    rollouts, including rollouts of earlier stages. There are two exceptions: a problem that already has more rollouts
    keeps all of them, and a problem that an earlier stage excluded gets no new rollouts. If too few rollouts remain for
    all paths that branch at a boundary, a seeded random order decides which paths branch. For single-turn tasks,
    ``segment: {delimiter: …}`` gives boundaries between reasoning steps.

    Source: ARPO (arXiv 2507.19849) section 3.1. The released scripts use 8 initial rollouts, 16 rollouts in total, one
    continuation per branch point, 20 tokens for the mean entropy, alpha 0.5 and beta 0.2. Deviations:

    - Scale: the paper normalises ΔH by the vocabulary size. The released code sums the entropy of 20 tokens over the 10
      most likely ids and divides by ln V. Here each token's entropy, in nats, is that of the whole distribution, and
      the mean over tokens is used. The released code's beta of 0.2 corresponds to ``0.2 * 20 / ln(152 000) = 0.335`` on
      this scale (for a vocabulary of 152,000 tokens).
    - Start: in the released code, H_0 of a branch is measured at the branch point.
    - Place: the released code measures entropy in the turn before the tool's response, and branches after the response.
      Here entropy is measured after the tool's response, as in the paper, and paths also branch there.
    - Randomness: in the paper, a path branches if P exceeds a threshold. In the released code, and here by default, the
      path branches with probability P.
    - Rollouts from the prompt: while a problem has fewer than ``total`` rollouts, the released code adds one rollout
      per turn. Here, all missing rollouts are added after the last boundary.

    Degenerate cases: an empty group gets ``total`` new rollouts. An empty response has no boundary.

    Metrics: ``pivots`` counts branch points, ``branches`` counts branches, and ``from_prompt`` counts new rollouts from
    the prompt. ``rise`` is the mean ΔH at the branch points.

    Raises:
        UserError: the sampler records no entropies.

    >>> EntropyBranch(total=16).branches
    1
    """

    segment: AnySegmenter = Field(
        default_factory=Turns,
        description=(
            "segmenter, which splits a response into segments; rollouts may branch at the boundaries between segments"
        ),
    )
    tokens: int = Field(
        20,
        ge=1,
        description=(
            "number of tokens over which entropy is averaged, both after a boundary and at the start of the response"
        ),
    )
    alpha: float = Field(
        0.5,
        ge=-10,
        le=10,
        description=(
            "probability of branching at a boundary if the entropy after the boundary equals the entropy at the start "
            "of the response"
        ),
    )
    beta: float = Field(
        0.335,
        ge=0,
        le=1000,
        description=(
            "slope of the branching probability, per nat of difference between the entropy after a boundary and the "
            "entropy at the start of the response"
        ),
    )
    threshold: float | None = Field(
        None,
        ge=-10,
        le=10,
        description=(
            "threshold that replaces the random draw: a rollout branches if its branching probability exceeds the "
            "threshold; null: a rollout branches at random, with this probability"
        ),
    )
    branches: int = Field(1, ge=1, description="number of continuations to sample each time a rollout branches")
    total: int = Field(
        16,
        ge=2,
        description="number of rollouts per problem in a training step, counting those already sampled in this step",
    )
    stream: str = Field(
        "main",
        min_length=1,
        description="name of the loss stream (a separately weighted part of the loss) that contains the new rollouts",
    )
    _level: int = PrivateAttr(0)
    _chains: dict[str, SegmentedRollout] = PrivateAttr(default_factory=dict)
    _tally: Counter[str] = PrivateAttr(default_factory=Counter)
    _rises: list[float] = PrivateAttr(default_factory=list)

    @property
    def requires(self) -> Needs:
        return frozenset({"entropies"})

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        after = before.more((self.total - before.first[0]) * problems)
        return after if before.most is None else after._replace(fewest=max(before.fewest, self.total * problems))

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("entropy_branch continues existing rollouts and cannot be the first stage")
        drawn, _ = around.bounds.first
        if drawn >= self.total:
            raise ValueError(
                f"entropy_branch.total is {self.total} rollouts of a problem, but the stages before it draw {drawn}, "
                "so nothing is left to branch"
            )
        self.segment.check(around)
        around.refuse_stream(self.stream)

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round == 0:
            self._level = 0
            for memory in (self._chains, self._tally, self._rises):
                memory.clear()
        while short := [group for group in view.groups if group.size < self.total and not group.dropped]:
            requests = [request for group in short for request in self._divide(group, view)]
            self._level += 1
            if requests:
                return requests
        return []

    def _divide(self, group: Group, view: View) -> list[SampleRequest]:
        by_id = {rollout.id: rollout for rollout in group.rollouts}
        paths = [self._chain(rollout, by_id, view) for rollout in group.rollouts if trainable(rollout)]
        room = self.total - group.size
        if all(len(path.bounds) <= self._level for path in paths):
            self._tally["from_prompt"] += room
            return [SampleRequest(group.problem, n=room, stream=self.stream)]
        requests = []
        for path in sorted(paths, key=lambda path: identity_seed(view.seed, "entropy_branch", path.rollout.id)):
            place = self._place(path, by_id, view.seed)
            n = min(self.branches, room)
            if place is not None and n:
                room -= n
                self._tally.update(pivots=1, branches=n)
                self._rises.append(place.rise)
                requests.append(branch_request(group.problem, place.pivot, n, self.stream))
        return requests

    def _chain(self, rollout: Rollout, by_id: Mapping[str, Rollout], view: View) -> SegmentedRollout:
        if rollout.id not in self._chains:
            self._chains[rollout.id] = self.segment.chain(rollout, by_id, view.engine)
        return self._chains[rollout.id]

    def _place(self, path: SegmentedRollout, by_id: Mapping[str, Rollout], seed: int) -> _Place | None:
        """Return where a path branches at the current boundary, or None if the path does not branch."""
        if len(path.bounds) <= self._level or path.bounds[self._level] not in path.candidates:
            return None
        at = path.bounds[self._level]
        rise = self._entropy(path.rollout, at, by_id) - self._entropy(root_of(path.rollout, by_id), 0, by_id)
        chance = self.alpha + self.beta * rise
        bar = self.threshold
        if bar is None:
            drawn = uniforms(np.array([identity_seed(seed, "divide", path.rollout.id)]), np.array([at]))
            bar = float(drawn[0, 0])
        return _Place(Pivot(path.rollout, at), rise) if chance > bar else None

    def _entropy(self, rollout: Rollout, at: int, by_id: Mapping[str, Rollout]) -> float:
        """Return the mean entropy of the first ``tokens`` sampled tokens from position ``at`` on."""
        if rollout.entropies_T is None:
            raise UserError("entropy_branch needs the entropy of every token, but this sampler records none")
        own = at - rollout.branch_at
        entropies = rollout.entropies_T[own:][sampled(rollout, by_id)[at:]][: self.tokens]
        return float(entropies.mean(dtype=np.float64))

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        counts = {key: float(self._tally[key]) for key in ("pivots", "branches", "from_prompt")}
        return counts | {"rise": mean(self._rises)}


class _Place(NamedTuple):
    pivot: Pivot
    rise: float
