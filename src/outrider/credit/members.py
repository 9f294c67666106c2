"""The input of credit components: the rollouts of one group (its members) as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Flags, Floats, Ints
from outrider.record import Group, Ids, Rollout

TokenTexts = Callable[[Ids], list[str]]
"""Maps token ids to the text of each token."""


@dataclass(frozen=True, slots=True)
class Members:
    """The rollouts of one group as arrays with one entry for each of its ``G`` members; members may differ in length.

    Token arrays cover only trainable tokens: tokens that the member sampled itself. Tool output is excluded, and so is
    the prefix that a branch copies from another rollout. By default every member is a root: it starts at the plain
    prompt.

    Attributes:
        rewards_G: float64; NaN means *unscorable* (the verifier failed).
        success_G: bool; whether the response is correct by the verifier's verdict, whatever its reward.
        tokens_G: int64; number of trainable tokens of each member, possibly 0.
        logprobs_GT, entropies_GT: float64 per trainable token of each member; empty arrays if not recorded.
        token_texts_GT: the text of each trainable token; empty if no credit component reads texts.
        parents_G: int64; index of the member that each member continues; -1 for a root, and for a branch whose parent
            is not among the members.
        starts_G: int64; number of trainable tokens in the prefix that a branch copies; 0 for a root. If a part of the
            prefix comes from a rollout outside the group, all tokens of this part count as trainable.
        families_G: int64; an arbitrary label, shared by members that continue the same rollout from the same position.
            The continued rollout need not be among the members. All roots share one label.
        seeded_G: bool; whether the prompt contained solved examples or a hint.
        greedy_G: bool; whether the member is a greedy response (temperature 0) instead of a sample.

    Raises:
        ValueError: the length of an array differs from that of ``rewards_G``.
    """

    rewards_G: Floats
    success_G: Flags
    tokens_G: Ints
    logprobs_GT: Sequence[Floats] = field(default_factory=tuple)
    entropies_GT: Sequence[Floats] = field(default_factory=tuple)
    token_texts_GT: Sequence[NDArray[np.str_]] = field(default_factory=tuple)
    parents_G: Ints = field(default_factory=lambda: _NONE)
    starts_G: Ints = field(default_factory=lambda: _NONE)
    families_G: Ints = field(default_factory=lambda: _NONE)
    seeded_G: Flags = field(default_factory=lambda: _NONE.astype(np.bool_))
    greedy_G: Flags = field(default_factory=lambda: _NONE.astype(np.bool_))

    def __post_init__(self) -> None:
        for name, fill in _FILL.items():
            given = getattr(self, name)
            if not len(given):
                object.__setattr__(self, name, np.full(self.size, fill, given.dtype))  # the dataclass is frozen
            elif len(given) != self.size:
                raise ValueError(f"{name} has {len(given)} entries for {self.size} members")

    @property
    def size(self) -> int:
        return len(self.rewards_G)

    @property
    def valid_G(self) -> Flags:
        """Whether each member counts in baselines. A member counts if it has a finite reward and at least one trainable
        token.

        Other members are excluded from all statistics, get advantage 0 and do not affect the rest of the group.
        """
        return np.isfinite(self.rewards_G) & (self.tokens_G > 0)

    @staticmethod
    def of(
        rollouts: Sequence[Rollout], group: Sequence[Rollout] = (), token_texts: TokenTexts | None = None
    ) -> Members:
        """Build the members from ``rollouts`` of one group.

        ``group`` may contain further rollouts of the group, such as parents of ``rollouts``. ``token_texts`` returns
        the text of each token; this function is needed only if a credit component reads texts.
        """
        return Members(
            rewards_G=np.array([np.nan if r.reward is None else r.reward for r in rollouts], dtype=np.float64),
            success_G=np.array([r.success for r in rollouts], dtype=np.bool_),
            tokens_G=np.array([r.trainable_tokens for r in rollouts], dtype=np.int64),
            logprobs_GT=[_trainable(r, r.logprobs_T) for r in rollouts],
            entropies_GT=[_trainable(r, r.entropies_T) for r in rollouts],
            token_texts_GT=() if token_texts is None else [_token_texts(r, token_texts) for r in rollouts],
            parents_G=_parents(rollouts),
            starts_G=_starts(rollouts, {r.id: r for r in (*group, *rollouts)}),
            families_G=families(rollouts),
            seeded_G=np.array([r.context.kind == "seeded" for r in rollouts], dtype=np.bool_),
            greedy_G=np.array([r.stage.endswith("-greedy") for r in rollouts], dtype=np.bool_),
        )


def members_by_stream(group: Group) -> dict[str, list[Rollout]]:
    """Split the rollouts of a group by loss stream (a separately weighted part of the loss), and keep their order."""
    streams: dict[str, list[Rollout]] = {}
    for rollout in group.rollouts:
        streams.setdefault(rollout.stream, []).append(rollout)
    return streams


def families(rollouts: Sequence[Rollout]) -> Ints:
    """Return a label per rollout, shared by rollouts that continue the same parent from the same position."""
    numbers: dict[tuple[str | None, int], int] = {}
    return np.array([numbers.setdefault((r.parent, r.branch_at), len(numbers)) for r in rollouts], dtype=np.int64)


_NONE: Ints = np.zeros(0, np.int64)
_FILL = {
    "parents_G": -1,
    "starts_G": 0,
    "families_G": 0,
    "seeded_G": False,
    "greedy_G": False,
}  # defaults


def _parents(rollouts: Sequence[Rollout]) -> Ints:
    if all(r.parent is None for r in rollouts):
        return np.full(len(rollouts), -1, np.int64)
    index = {r.id: i for i, r in enumerate(rollouts)}
    return np.array([-1 if r.parent is None else index.get(r.parent, -1) for r in rollouts], dtype=np.int64)


def _starts(rollouts: Sequence[Rollout], by_id: Mapping[str, Rollout]) -> Ints:
    starts = [r.branch_at for r in rollouts]
    if all(r.trainable_T is None for r in by_id.values()):
        return np.array(starts, dtype=np.int64)
    for i, rollout in enumerate(rollouts):
        left, starts[i] = rollout.branch_at, 0
        owner = by_id.get(rollout.parent or "")
        while owner is not None and left:  # up the path: trainable tokens that each ancestor sampled
            own = left - owner.branch_at
            if own > 0:
                starts[i] += own if owner.trainable_T is None else int(owner.trainable_T[:own].sum())
            left = min(left, owner.branch_at)
            owner = by_id.get(owner.parent or "")
        starts[i] += left
    return np.array(starts, dtype=np.int64)


def _trainable(rollout: Rollout, values_T: NDArray[np.float32] | None) -> Floats:
    if values_T is None:
        return _NONE.astype(np.float64)
    chosen = values_T if rollout.trainable_T is None else values_T[rollout.trainable_T]
    return chosen.astype(np.float64)


def _token_texts(rollout: Rollout, token_texts: TokenTexts) -> NDArray[np.str_]:
    ids = rollout.token_ids if rollout.trainable_T is None else rollout.token_ids[rollout.trainable_T]
    return np.array(token_texts(ids), np.str_)
