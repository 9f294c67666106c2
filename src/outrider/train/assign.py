"""Credit for a step's groups: rollouts become training rows, and those that teach nothing say why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from outrider.credit import Baseline, Members, Shaper, advantages, members_by_stream
from outrider.objective.row import Row, row_of
from outrider.record import Group, Ids, Problem, Rollout


class Assigned(NamedTuple):
    """Training rows, and the groups with each rollout's advantage and reason filled in."""

    rows: list[Row]
    groups: list[Group]


def assign(
    groups: Sequence[Group],
    chains: Mapping[str, Sequence[Baseline | Shaper]],
    step: int,
    always_trained: bool,
    encode: Callable[[Problem], Ids],
) -> Assigned:
    """Run each stream's credit chain over each group.

    All rollouts with trainable tokens become rows, in order: a row without advantage still counts in denominators.
    ``always_trained`` says that such a row is trained on all the same (a KL pulls on it); otherwise its rollout is
    marked with the reason for being unused: ``unscorable``, ``no tokens`` or ``no advantage``. A rollout that is
    marked already (a stage has dropped its group), or whose context says so, becomes no row at all: it counts in
    baselines and in no denominator. ``encode`` gives the plain prompt of a rollout that is to be trained after it.

    Raises:
        ValueError: a rollout belongs to a stream without a chain.
    """
    rows: list[Row] = []
    finished = []
    for group in groups:
        told: dict[str, Rollout] = {}
        for stream, rollouts in members_by_stream(group).items():
            if stream not in chains:
                raise ValueError(f"rollouts of stream {stream!r} have no credit chain ({sorted(chains)})")
            shares = advantages(chains[stream], Members.of(rollouts), step)
            for rollout, share_N in zip(rollouts, shares, strict=True):
                advantage = None
                if rollout.context.trained == "excluded":
                    rollout = rollout.left_out("excluded context")
                if rollout.trainable_tokens and not rollout.unused:
                    after = encode(group.problem) if rollout.context.trained == "original" else rollout.prompt_ids
                    rows.append(row_of(rollout, share_N, after))
                if rollout.trainable_tokens:
                    advantage = float(share_N.mean())
                told[rollout.id] = rollout.credited(advantage, _unused(rollout, bool(share_N.any()), always_trained))
        finished.append(replace(group, rollouts=tuple(told[r.id] for r in group.rollouts)))
    return Assigned(rows, finished)


def _unused(rollout: Rollout, signal: bool, always_trained: bool) -> str:
    if not rollout.trainable_tokens:
        return "no tokens"
    if signal or always_trained:
        return ""
    unscorable = rollout.reward is None or math.isnan(rollout.reward)
    return "unscorable" if unscorable else "no advantage"
