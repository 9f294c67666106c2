"""Selects the rollouts to analyse, and divides them into units of work (parts). Does not import PyTorch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from outrider.analyse.arguments import Intervene, RolloutSelection, step_ranges
from outrider.errors import UserError, nearest
from outrider.record import Rollout
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder

PART_TOKENS = 16_384
PART_CONTINUATIONS = 1024

T = TypeVar("T")


class Chosen(NamedTuple):
    """The chosen rollouts of one step. ``lengths`` has each rollout's number of sampled tokens."""

    step: int
    lengths: list[int]


class WorkUnit(NamedTuple):
    """A unit of work: consecutive chosen rollouts of a step. The results for a unit are written completely or not at
    all.

    Attributes:
        number: index of the unit within the step.
        start: index of the unit's first rollout in the step's list of chosen rollouts.
        stop: index of the unit's last rollout in this list, plus 1.
        cost: expected cost in tokens or continuations, depending on the analysis.
    """

    step: int
    number: int
    start: int
    stop: int
    cost: int


class AnalysisPlan(NamedTuple):
    """All rollouts to analyse.

    Attributes:
        split: which rollouts of the run were selected, such as ``train``.
        limit: maximum number of rollouts per step; None: no limit.
        steps: the chosen rollouts of each step.
        digest: hash of the rollouts' tokens. A resumed analysis must have the same hash.
        observed: number of tokens that come from the environment, such as tool output. The results contain no rows for
            these tokens.
    """

    split: str
    limit: int | None
    steps: list[Chosen]
    digest: str
    observed: int

    @property
    def rollouts(self) -> int:
        return sum(len(chosen.lengths) for chosen in self.steps)

    @property
    def tokens(self) -> int:
        return sum(sum(chosen.lengths) for chosen in self.steps)

    def cut(self, cost: Callable[[int], int], most: int) -> list[WorkUnit]:
        """Divide the rollouts into parts with a cost of at most ``most``. A rollout with a higher cost forms a part of
        its own.

        ``cost`` maps a rollout's number of sampled tokens to its cost. A resumed analysis gets the same parts.
        """
        return [part for chosen in self.steps for part in _parts(chosen, cost, most)]

    def read(self, run: Path, step: int) -> list[Rollout]:
        """Read the chosen rollouts of a step from disk."""
        return _spread(RunFolder(run).rollouts, step, self)


def select(run: Path, selection: RolloutSelection) -> AnalysisPlan:
    """Choose the rollouts to analyse in a run. The rollouts of only one step at a time are in memory.

    Raises:
        UserError: the run does not exist or has no such rollouts, or the chosen rollouts have no tokens.
    """
    store = RunFolder.existing(run).rollouts
    digest, observed = hashlib.blake2b(digest_size=12), 0
    steps = []
    for step in _steps(run, store, selection):
        rollouts = _spread(store, step, selection)
        for rollout in rollouts:
            digest.update(f"{step} {rollout.id} {len(rollout.prompt_ids)} {rollout.branch_at}".encode())
            digest.update(np.concatenate([rollout.prompt_ids, rollout.response_ids]).tobytes())
        observed += sum(len(r.token_ids) - r.trainable_tokens for r in rollouts)
        steps.append(Chosen(step, [r.trainable_tokens for r in rollouts]))
    plan = AnalysisPlan(selection.split, selection.limit, steps, digest.hexdigest(), observed)
    if not plan.tokens:
        raise UserError(f"no token is selected: the chosen {selection.split} rollouts of {run} are empty")
    return plan


def token_parts(plan: AnalysisPlan) -> list[WorkUnit]:
    """Divide an analysis of tokens into units of work. The cost of a unit is its number of tokens."""
    return plan.cut(lambda tokens: tokens, PART_TOKENS)


def intervention_parts(plan: AnalysisPlan, options: Intervene) -> list[WorkUnit]:
    """Divide the replacement of tokens (``outrider analyse intervene``) into units of work. The cost of a unit is the
    number of continuations to sample."""
    return plan.cut(lambda tokens: continuations(tokens, options), PART_CONTINUATIONS)


def continuations(tokens: int, options: Intervene) -> int:
    """Return the number of continuations that are sampled for a rollout with ``tokens`` sampled tokens."""
    return 2 * options.k * min(tokens, options.positions)


class Cost(NamedTuple):
    """The estimated cost of ``outrider analyse intervene``, which replaces tokens and samples continuations.

    Attributes:
        positions: number of tokens to replace.
        continuations: number of continuations to sample.
        tokens: estimated number of tokens to generate. The estimate assumes that a continuation has, on average, half
            the length of the response.
        most_tokens: tokens to generate if every continuation reaches the length limit.
    """

    positions: int
    continuations: int
    tokens: int
    most_tokens: int


def intervention_cost(plan: AnalysisPlan, options: Intervene) -> Cost:
    """Estimate the cost of ``outrider analyse intervene`` before anything is sampled."""
    lengths = [length for chosen in plan.steps for length in chosen.lengths]
    positions = sum(min(length, options.positions) for length in lengths)
    halves = sum(continuations(length, options) * length for length in lengths) // 2
    total = 2 * options.k * positions
    return Cost(positions, total, halves, max(halves, total * options.sample.max_tokens - halves))


def spread(items: Sequence[T], limit: int | None) -> list[T]:
    """Return at most ``limit`` evenly spaced items. None means all items.

    >>> spread("abcdefg", 3)
    ['a', 'c', 'e']
    """
    if limit is None or limit >= len(items):
        return list(items)
    return [items[i * len(items) // limit] for i in range(limit)]


def _spread(store: RolloutStore, step: int, chosen: RolloutSelection | AnalysisPlan) -> list[Rollout]:
    """Read the chosen rollouts of a step. Replayed rollouts are omitted, since an earlier policy sampled them."""
    return spread([r for r in store.read(step, chosen.split) if not r.replayed], chosen.limit)


def _steps(run: Path, store: RolloutStore, selection: RolloutSelection) -> list[int]:
    known = store.steps(selection.split)
    if not known:
        names = store.names()
        hint = nearest(selection.split, names) if names else "it has no rollouts"
        raise UserError(f"{run} has no {selection.split} rollouts ({hint})")
    if selection.steps in ("last", "all"):
        return known[-1:] if selection.steps == "last" else known
    ranges = step_ranges(selection.steps)
    for wanted in ranges:
        if not any(step in wanted for step in known):
            close = min(known, key=lambda step: abs(step - wanted.start))
            named = f"step {wanted.start}" if len(wanted) == 1 else f"steps {wanted.start}-{wanted.stop - 1}"
            raise UserError(f"{run} has no {selection.split} rollouts of {named}; the nearest step is {close}")
    return [step for step in known if any(step in wanted for wanted in ranges)]


def _parts(chosen: Chosen, cost: Callable[[int], int], most: int) -> Iterator[WorkUnit]:
    number = start = spent = 0
    for i, length in enumerate(chosen.lengths):
        price = cost(length)
        if i > start and spent + price > most:
            yield WorkUnit(chosen.step, number, start, i, spent)
            number, start, spent = number + 1, i, 0
        spent += price
    if chosen.lengths:
        yield WorkUnit(chosen.step, number, start, len(chosen.lengths), spent)
