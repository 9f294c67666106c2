"""Branching: sample continuations of existing rollouts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

from outrider.components import ComponentOf
from outrider.explore.bounds import Bounds
from outrider.explore.outcome import scorable, trainable
from outrider.explore.segment import SEGMENTERS, Chunk, SegmentedRollout, Segmenter
from outrider.explore.select import SELECTORS, Pivot, PivotOutcome, Selector, Source
from outrider.explore.select.base import FillingSelector
from outrider.explore.select.utility import Utility
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.needs import Needs
from outrider.record import Group, Prefix, Problem, Rollout, SampleRequest, identity_seed

AnySegmenter = Annotated[Segmenter, ComponentOf(SEGMENTERS, "segmenter", Segmenter)]


class Branch(Stage):
    """Cuts rollouts into segments, picks branch points (pivots) among the cuts, and samples ``branches`` continuations
    of each pivot.

    - ``which`` selects the rollouts that may be branched. ``failed``: rollouts without success, including truncated
      rollouts. ``all``: every rollout. ``by_accuracy``: some of the problem's ``n`` roots (rollouts from the prompt),
      with all branches of these roots. The number of chosen roots is ``ceil(n e^-acc)``, where ``acc`` is the fraction
      of the roots that succeeded. If fewer roots succeeded than failed, all successes and random failures are chosen;
      otherwise, all failures and random successes.
    - In each of ``rounds`` rounds, ``segment`` defines the cuts (:mod:`outrider.explore.segment`). Then ``select``
      picks up to ``pivots`` cuts per rollout, tree or problem, depending on the selector. Later rounds may also branch
      the branches of earlier rounds.
    - ``cap`` is the maximum number of branches per step. Excess pivots are dropped, with all their branches, in a
      seeded random order (metric ``capped``).
    - ``stream`` is the loss stream (a separately weighted part of the loss) of branches. In the stream ``branch``,
      branches get their own advantages and loss (DEEP-GRPO). Tree methods use the stream ``main`` for all rollouts.

    A branch has its parent's context and prompt, and its prefix is the beginning of ``parent.response_ids``. A branch
    from a pivot at the prompt is a new root. The verifier's verdict decides success; a rollout that the verifier could
    not score is neither a failure nor a success. Rollouts that an earlier stage excluded are not branched. Rollouts
    that are never trained on, such as greedy rollouts, are not branched either: their branches would not be trained on.

    Metrics of a step: ``pivots`` is the number of branch points, and ``branches`` is the number of sampled branches.
    ``no_candidate`` counts rollouts, trees or problems (depending on the selector) in which no branch can start.
    ``excluded`` counts rollouts that were not branched because they are never trained on. ``capped`` counts branches
    removed by the cap. Some selectors branch until every problem has ``width`` rollouts; ``short`` counts the rollouts
    that are missing at the end. ``ratio`` is the mean position of the pivots, as a fraction of the response's length.
    Among the pivots in failed rollouts, ``recovered`` is the share with a successful branch. The selector adds its own
    metrics. A mean without values is NaN.

    Degenerate cases: the stage requests nothing for an empty group, for a response of at most one token or, with
    ``which: failed``, for a group without failures. If there are fewer cuts than ``pivots``, there are fewer branches.

    Sources: DEEP-GRPO (arXiv 2602.14169) section 4.3 and algorithm 1, with one pivot (P = 1) and eight branches (B =
    8). Our choices: a branch starts after at least one response token of its parent, unless the selector may branch at
    the prompt. (The released code also branches at the prompt.) Whether a rollout failed depends on its verdict, never
    on its shaped reward. ``by_accuracy`` follows AttnRL (arXiv 2509.26628). AttnRL drops solved problems whose
    responses have low attention scores. This filter is not implemented, so solved problems are branched like any other.
    The selectors' docstrings describe TreeRL, Tree-GRPO and TreePO.

    >>> Branch(segment={"chunk": {"tokens": 8}}, select="surprisal", branches=2).model_dump()["select"]
    {'surprisal': {}}
    """

    which: Literal["failed", "all", "by_accuracy"] = Field(
        "failed",
        description=(
            "rollouts that may be branched: only failures (failed), all rollouts (all), or a subset of each problem's "
            "rollouts, which is smaller if the pass rate is higher (by_accuracy)"
        ),
    )
    segment: AnySegmenter = Field(
        default_factory=Chunk,
        description=(
            "segmenter, which splits a response into segments; branches may start where one segment ends and the next "
            "begins"
        ),
    )
    select: Annotated[Selector, ComponentOf(SELECTORS, "selector", Selector)] = Field(
        default_factory=Utility, description="selector, which picks branch points among the boundaries between segments"
    )
    pivots: int = Field(
        1,
        ge=1,
        description=(
            "maximum number of branch points in one branching round, per rollout, per tree of rollouts or per problem "
            "(depending on `select`)"
        ),
    )
    branches: int = Field(8, ge=1, description="number of continuations to sample from each branch point")
    rounds: int = Field(
        1,
        ge=1,
        description=(
            "number of branching rounds per training step; in later rounds, new branches may also start from the "
            "branches of earlier rounds"
        ),
    )
    cap: int | None = Field(
        None,
        ge=1,
        description=(
            "maximum number of branches per training step; if there are more, randomly chosen branch points are "
            "dropped with all their branches; null: no limit"
        ),
    )
    stream: str = Field(
        "branch",
        min_length=1,
        description="name of the loss stream (a separately weighted part of the loss) that contains the branches",
    )
    _tally: Counter[str] = PrivateAttr(default_factory=Counter)

    @model_validator(mode="after")
    def _cap_holds_a_pivot(self) -> Branch:
        if self.cap is not None and self.cap < self.branches:
            raise ValueError(
                f"cap ({self.cap}) is below branches ({self.branches}), so no pivot would ever be branched"
            )
        return self

    @property
    def requires(self) -> Needs:
        return self.select.requires

    @property
    def _width(self) -> int | None:
        """Number of rollouts per problem at which the selector stops branching; None if the selector has no such
        limit."""
        return self.select.fills if isinstance(self.select, FillingSelector) else None

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        if before.most is None:
            return before
        sources, new = {"rollout": before.most, "tree": before.most, "problem": problems}, 0
        for _ in range(self.rounds):
            drawn = sources[self.select.over] * self.pivots * self.branches
            sources["rollout"] += drawn
            sources["tree"] += drawn * self.select.plants
            new += drawn
        if self._width is not None:
            new = min(new, problems * (self._width - before.first[0]))
        return before.more(new if self.cap is None else min(new, self.cap))

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("branch continues existing rollouts and cannot be the first stage: put uniform before it")
        width, (drawn, _) = self._width, around.bounds.first
        if width is not None and drawn >= width:
            raise ValueError(
                f"branch fills problems up to {width} rollouts (width), but the stages before it draw {drawn} for "
                "each, so none is left to branch"
            )
        self.segment.check(around)
        around.refuse_stream(self.stream)

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round == 0:
            self._tally.clear()
        if (width := self._width) is not None:
            self._tally["short"] = sum(max(0, width - g.size) for g in view.groups if g.size and not g.dropped)
        if view.round >= self.rounds:
            return []
        self._tally["excluded"] = sum(not (r.unused or trainable(r)) for g in view.groups for r in g.rollouts)
        asks = [ask for group in view.groups for ask in self._asks(group, view)]
        kept = self._within_cap(asks, view)
        self._tally["pivots"] += len(kept)
        self._tally["branches"] += sum(ask.n for ask in kept)
        return [branch_request(ask.problem, ask.pivot, ask.n, self.stream) for ask in kept]

    def _asks(self, group: Group, view: View) -> list[_Ask]:
        asks = []
        for name, chains in self._sources(group, view).items():
            seed = identity_seed(view.seed, "branch", name, view.round)
            source = Source(chains, group.size, view.round, self.branches, seed, view.engine)
            picks = Counter(self.select.select(source, self.pivots))
            if not picks and not any(chain.candidates for chain in chains):
                self._tally["no_candidate"] += 1
            asks += [_Ask(group.problem, pivot, self.branches * times) for pivot, times in picks.items()]
        return asks

    def _sources(self, group: Group, view: View) -> dict[str, list[SegmentedRollout]]:
        """Return the rollouts that may be branched, grouped by the selector's ``over``: rollout, tree or problem."""
        by_id = {rollout.id: rollout for rollout in group.rollouts}
        taken: dict[str, set[int]] = {}
        for rollout in group.rollouts:
            taken.setdefault(rollout.parent or "", set()).add(rollout.branch_at)
        sources: dict[str, list[SegmentedRollout]] = {}
        for rollout in self._admitted(group, by_id, view.seed):
            chain = self.segment.chain(rollout, by_id, view.engine, taken.get(rollout.id, ()))
            names = {"rollout": rollout.id, "tree": root_of(rollout, by_id).id, "problem": group.id}
            sources.setdefault(names[self.select.over], []).append(chain)
        return sources

    def _admitted(self, group: Group, by_id: Mapping[str, Rollout], seed: int) -> list[Rollout]:
        members = [r for r in group.rollouts if trainable(r)]
        if self.which == "failed":
            return [r for r in scorable(members) if not r.success]
        if self.which == "all":
            return members
        chosen = {r.id for r in by_accuracy(scorable(r for r in members if r.parent is None), seed)}
        return [r for r in members if root_of(r, by_id).id in chosen]

    def _within_cap(self, asks: Sequence[_Ask], view: View) -> list[_Ask]:
        """Keep as many pivots as the cap on branches allows, in a seeded random order. A pivot is kept with all of its
        branches or not at all."""
        if self.cap is None:
            return list(asks)
        room = self.cap - self._tally["branches"]
        kept = set()
        for ask in sorted(asks, key=lambda a: identity_seed(view.seed, "cap", a.pivot.rollout.id, a.pivot.at)):
            if ask.n <= room:
                room -= ask.n
                kept.add(ask.pivot)
        self._tally["capped"] += sum(ask.n for ask in asks if ask.pivot not in kept)
        return [ask for ask in asks if ask.pivot in kept]

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        seen = outcomes(groups)
        counts = {key: float(self._tally[key]) for key in _COUNTS}
        ratio, recovered = [o.ratio for o in seen], [o.success for o in seen if o.failed]
        return counts | {"ratio": mean(ratio), "recovered": mean(recovered)} | self.select.observe(seen)

    def state_dict(self) -> dict[str, Any]:
        return self.select.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.select.load_state_dict(state)


_COUNTS = ("pivots", "branches", "no_candidate", "excluded", "capped", "short")


class _Ask(NamedTuple):
    problem: Problem
    pivot: Pivot
    n: int


def branch_request(problem: Problem, pivot: Pivot, n: int, stream: str) -> SampleRequest:
    """Return a request for ``n`` branches at a pivot (branch point), with the prompt and context of the pivot's
    rollout."""
    parent, at = pivot
    prefix = Prefix(parent.id, parent.response_ids[:at]) if at else None
    return SampleRequest(
        problem, n=n, prefix=prefix, context=parent.context, stream=stream, prompt_ids=parent.prompt_ids
    )


def root_of(rollout: Rollout, by_id: Mapping[str, Rollout]) -> Rollout:
    """Return the root of a rollout's tree: the ancestor whose parent is not in ``by_id``."""
    while parent := by_id.get(rollout.parent or ""):
        rollout = parent
    return rollout


def by_accuracy(roots: Sequence[Rollout], seed: int) -> list[Rollout]:
    """Select ``ceil(n e^-acc)`` of n roots: all roots of the smaller class (failures or successes), and a random draw
    from the larger class.

    ``acc`` is the share of successes, so fewer roots are selected for easier problems. The smaller class is never
    larger than the selection: ``acc <= e^-acc`` if ``acc`` is below one half, and ``1 - acc <= e^-acc`` otherwise.
    """
    solved, failed = [r for r in roots if r.success], [r for r in roots if not r.success]
    few, many = (solved, failed) if len(solved) < len(failed) else (failed, solved)
    wanted = math.ceil(len(roots) * math.exp(-len(solved) / len(roots))) if roots else 0
    drawn = sorted(many, key=lambda r: identity_seed(seed, "by_accuracy", r.id))
    return [*few, *drawn[: wanted - len(few)]]


def outcomes(groups: Sequence[Group]) -> list[PivotOutcome]:
    """Return the outcome of every pivot (branch point) with at least one branch that the verifier could score. The
    result does not depend on batch order."""
    found = []
    for group in sorted(groups, key=lambda g: g.id):
        by_id = {rollout.id: rollout for rollout in group.rollouts}
        branches: dict[tuple[int, int], list[Rollout]] = {}
        for rollout in group.rollouts:
            if rollout.parent in by_id and scorable([rollout]):
                branches.setdefault((by_id[rollout.parent].member, rollout.branch_at), []).append(rollout)
        for (_, at), siblings in sorted(branches.items(), key=lambda item: item[0]):
            parent = by_id[str(siblings[0].parent)]
            length = parent.branch_at + len(parent.token_ids)
            failed = bool(scorable([parent])) and not parent.success
            found.append(PivotOutcome(at / length, any(r.success for r in siblings), failed))
    return found


def mean(values: Sequence[float]) -> float:
    """Return the mean, or NaN if there are no values."""
    return math.fsum(values) / len(values) if values else math.nan
