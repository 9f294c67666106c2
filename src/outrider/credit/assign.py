"""Credit for a step's groups: rollouts become weighted rows, or are marked with the reason for being unused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from outrider.arrays import Flags, Floats
from outrider.credit import Link, Members, advantages_of, members_by_stream, split
from outrider.credit.members import TokenTexts
from outrider.credit.paths import CreditedRollout, Paths, PrefixPolicy
from outrider.record import Group, Ids, Problem, Rollout
from outrider.record.row import WeightedRow, row_of


class Assigned(NamedTuple):
    """Weighted rows, and the groups with each rollout's advantage and reason filled in."""

    rows: list[WeightedRow]
    groups: list[Group]


def assign(
    groups: Sequence[Group],
    chains: Mapping[str, Sequence[Link]],
    step: int,
    always_trained: bool,
    encode: Callable[[Problem], Ids],
    prefix: PrefixPolicy = "mask",
    token_texts: TokenTexts | None = None,
) -> Assigned:
    """Run each stream's credit chain over all of its groups.

    All rollouts with trainable tokens become rows, in order: a row without advantage still counts in denominators.
    ``always_trained`` says that such a row is trained on all the same (a KL pulls on it); otherwise its rollout is
    marked with the reason for being unused: ``unscorable``, ``no tokens`` or ``no advantage``. A rollout that is
    marked already (a stage has dropped its group), or whose context says so, becomes no row at all: it counts in
    baselines and in no denominator. ``encode`` gives the plain prompt of a rollout that is to be trained after it.
    ``prefix`` says what a branch trains, see :mod:`outrider.credit.paths`; ``token_texts`` gives the text of each token
    on its own, for a component that reads it.

    Raises:
        ValueError: a rollout belongs to a stream without a chain.
    """
    groups = [_without_excluded(group) for group in groups]
    rows: list[WeightedRow] = []
    finished = []
    for group, credited_of in zip(groups, _credited(groups, chains, step, prefix, token_texts), strict=True):
        members = []
        for rollout in group.rollouts:
            trained, share_N = credited_of[rollout.id]
            if len(share_N) and not rollout.unused:
                after = encode(group.problem) if rollout.context.trained == "original" else rollout.prompt_ids
                rows.append(row_of(trained, share_N, after))
            members.append(rollout.credited(share_N, _unused(rollout, share_N, always_trained)))
        finished.append(replace(group, rollouts=tuple(members)))
    return Assigned(rows, finished)


def _without_excluded(group: Group) -> Group:
    if all(r.context.trained != "excluded" for r in group.rollouts):
        return group
    marked = (r.excluded("excluded context") if r.context.trained == "excluded" else r for r in group.rollouts)
    return replace(group, rollouts=tuple(marked))


class _Part(NamedTuple):
    """The rollouts of one group in one stream; their paths where some of them continue others and it matters."""

    group: int
    rollouts: list[Rollout]
    paths: Paths | None


def _credited(
    groups: Sequence[Group],
    chains: Mapping[str, Sequence[Link]],
    step: int,
    prefix: PrefixPolicy,
    token_texts: TokenTexts | None,
) -> list[dict[str, CreditedRollout]]:
    """The credited rollouts of each group, by id. A chain sees all groups of its stream, for batch baselines."""
    streams: dict[str, list[_Part]] = {}
    for index, group in enumerate(groups):
        branched = prefix != "mask" and any(r.parent is not None for r in group.rollouts)
        paths = Paths(group.rollouts) if branched else None
        for stream, rollouts in members_by_stream(group).items():
            streams.setdefault(stream, []).append(_Part(index, rollouts, paths))
    credited: list[dict[str, CreditedRollout]] = [{} for _ in groups]
    for stream, parts in streams.items():
        if stream not in chains:
            raise ValueError(f"rollouts of stream {stream!r} have no credit chain ({sorted(chains)})")
        links = split(chains[stream])
        by_segment, read = links.baseline.by_segment, any("texts" in link.requires for link in links.after)
        texts = token_texts if read else None
        members = [
            Members.of(part.rollouts, groups[part.group].rollouts, texts)
            if part.paths is None or by_segment
            else part.paths.members(part.rollouts, texts)
            for part in parts
        ]
        advantages = advantages_of(chains[stream], members, step)
        for part, valid_G, shares_GN in zip(parts, (m.valid_G for m in members), advantages, strict=True):
            of_part = _by_prefix_policy(part, shares_GN, valid_G, by_segment, prefix)
            credited[part.group].update(zip((r.id for r in part.rollouts), of_part, strict=True))
    return credited


def _by_prefix_policy(
    part: _Part, shares_GN: Sequence[Floats], valid_G: Flags, by_segment: bool, prefix: PrefixPolicy
) -> list[CreditedRollout]:
    """The prefix policy. The shares are of own tokens if there are no paths or ``by_segment``, else of whole paths."""
    rollouts, paths = part.rollouts, part.paths
    if paths is None or (by_segment and prefix == "count_once"):
        return [CreditedRollout(r, share_N) for r, share_N in zip(rollouts, shares_GN, strict=True)]
    if by_segment:
        return paths.repeated(rollouts, shares_GN)
    if prefix == "count_once":
        return paths.counted_once(rollouts, shares_GN, valid_G)
    return [CreditedRollout(paths.whole(r), share_N) for r, share_N in zip(rollouts, shares_GN, strict=True)]


def _unused(rollout: Rollout, advantages_N: Floats, always_trained: bool) -> str:
    if not len(advantages_N):
        return "no tokens"
    if always_trained or advantages_N.any():
        return ""
    unscorable = rollout.reward is None or math.isnan(rollout.reward)
    return "unscorable" if unscorable else "no advantage"
