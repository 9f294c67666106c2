"""Assigns the advantages of a training step: each rollout becomes a training row or is marked as unused, with a
reason."""

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
    """The rows to train on, and the step's groups. Each rollout in these groups has either its advantages or the reason
    why it is unused.
    """

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
    """Compute the advantages of a training step. Each loss stream (a separately weighted part of the loss) has its own
    credit chain (components that turn rewards into advantages).

    Every rollout with trainable tokens becomes a row, in the order of the groups and of the rollouts in each group. A
    row with zero advantage also counts in the loss denominators. With ``always_trained`` (for example because of a KL
    penalty), rows with zero advantage are also trained on. Without ``always_trained``, the rollouts of rows with zero
    advantage are marked as unused, with the reason ``unscorable`` (no reward) or ``no advantage``. A rollout without
    trainable tokens is marked ``no tokens``. A rollout does not become a row if it was already marked as unused, or if
    its kind of prompt is not trained on (``context.trained`` is ``excluded``). Such a rollout counts in baselines but
    not in loss denominators.

    ``encode`` tokenizes a problem's plain prompt (without examples or hints). If a rollout's ``context.trained`` is
    ``original``, its row has the plain prompt instead of the prompt that the rollout was sampled from. ``prefix``
    selects which tokens of a branch (a continuation of another rollout) are trained (:mod:`outrider.credit.paths`).
    ``token_texts`` returns the text of each token, for components that read texts.

    Raises:
        ValueError: ``chains`` has no credit chain for a rollout's loss stream.
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
    """The rollouts of one group in one loss stream (a separately weighted part of the loss). ``paths`` is None if the
    group has no branches, or if the prefixes of branches are not trained (prefix policy ``mask``)."""

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
    """Return each group's rollouts with their advantages, keyed by rollout id. Each credit chain gets all groups of the
    step at once, since batch baselines need them."""
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
    """Apply the prefix policy, which decides how the prefixes of branches are trained.

    ``shares_GN`` has one array of advantages per rollout. If ``part.paths`` is None or the baseline computes advantages
    per tree segment (``by_segment``), the array covers the tokens that the rollout itself sampled. Otherwise the array
    also covers a branch's prefix.
    """
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
