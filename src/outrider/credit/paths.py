r"""The prefix policy: which tokens of a branch (a continuation of another rollout) are trained. Uses only NumPy.

A token that several rollouts share was sampled once, by the rollout that is called the token's *owner*. A rollout's
*path* consists of its prefix and of its *own* tokens, which it sampled itself. Let :math:`a_i(t)` be the advantage of
rollout :math:`i` at token :math:`t`, and :math:`w` the token's weight in the loss. The negative gradient of the loss
(on-policy) under each prefix policy is:

* ``mask``: :math:`\sum_i \sum_{t \in \text{own}(i)} w\, a_i(t)\, \nabla \log \pi(t)`. A rollout is trained only on its
  own tokens, with its own advantages.
* ``count_once``: :math:`\sum_i \sum_{t \in \text{own}(i)} w\, \bar a(t)\, \nabla \log \pi(t)`, with :math:`\bar a(t)`
  the mean of :math:`a_j(t)` over the rollouts :math:`j` whose paths contain :math:`t`. A rollout is trained only on its
  own tokens.
* ``repeat``: :math:`\sum_i \sum_{t \in \text{path}(i)} w\, a_i(t)\, \nabla \log \pi(t)`. Every rollout is trained on
  its whole path. A token of several paths is trained once per path, and counts once per path in the denominator of the
  loss. Its old log-probability is the one recorded when its owner sampled it. Tokens from an environment are not
  trained.

Under ``count_once`` and ``repeat``, advantages are computed on whole paths: credit components see the positions and
log-probabilities of the whole response. A baseline that assigns values to tree segments (``by_segment``) already
accounts for all continuations of a token. Under every prefix policy, such a baseline therefore computes advantages only
for each rollout's own tokens. With such a baseline ``count_once`` equals ``mask``. Under ``repeat`` a shared token then
has the same advantage on every path.

Loss streams (separately weighted parts of the loss) are independent: each has its own rollouts and its own credit
components. If branches are in another stream than their parents, ``repeat`` trains the branches' prefixes as a part of
the branches' stream. Under ``count_once`` such branches do not change the advantages of their parents' tokens. A
baseline with ``by_segment`` computes a token's advantage only in the stream of the token's owner. Other streams do not
train the token.

A rollout is excluded from training if an exploration stage excludes it, or if its ``context.trained`` is ``"excluded"``
(greedy rollouts, for example). The mean :math:`\bar a(t)` of ``count_once`` leaves out excluded rollouts and rollouts
without a reward. An excluded rollout is not trained; under ``repeat``, its tokens are still trained as the prefix of a
branch that is not excluded. The prefix policy does not depend on whether a parent was truncated. A prefix whose owner
is not in the group is not trained.

Expected gradients: if the position of a branch does not depend on how its parent ends, every path is a sample of the
model's policy. Then ``repeat`` has the same expected gradient as the same number of independent rollouts, provided that
the loss is divided by a constant and the baseline does not depend on the group. The expected gradients of ``mask`` and
``count_once`` are equal, but differ from that of ``repeat``. Under ``mask`` and ``count_once``, a shared token counts
once instead of once per path, so tokens after a branch point have more weight. ``count_once`` has a lower variance than
``mask``, since it averages over all continuations of a token. If branches start only from failed rollouts, paths are
not samples of the model's policy, whatever the prefix policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from outrider.arrays import Flags, Floats, Ints
from outrider.credit import Members
from outrider.credit.members import TokenTexts, families
from outrider.record import Rollout

PrefixPolicy = Literal["mask", "count_once", "repeat"]
_NO_IDS = np.zeros(0, np.int32)


class CreditedRollout(NamedTuple):
    """A rollout to train on, with one advantage per trainable token. ``rollout`` is the sampled rollout or, if a
    branch's prefix is trained too, a copy of the branch with the prefix in ``token_ids``."""

    rollout: Rollout
    advantages_N: Floats


class Paths:
    """The paths of one group's rollouts. A rollout's path is its whole response. If the rollout is a branch, the path
    starts with the prefix that the branch copies from its parent. The tokens after the prefix are the rollout's own
    tokens.

    The own tokens of all rollouts are concatenated; a token's *place* is its index in the concatenation. Each rollout
    must come after its parent.

    Raises:
        ValueError: a branch and its parent differ in ``mode``, that is, in the temperature, ``top_p`` or ``top_k`` of
            the distribution to which their log-probabilities refer.
    """

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        ends = np.cumsum([len(r.token_ids) for r in rollouts])
        self._own = {r.id: np.arange(end - len(r.token_ids), end) for r, end in zip(rollouts, ends, strict=True)}
        self._path: dict[str, Ints] = {}
        self._whole: dict[str, Rollout] = {}
        by_id = {r.id: r for r in rollouts}
        for rollout in rollouts:
            parent = by_id.get(rollout.parent or "")
            if parent is not None and parent.mode != rollout.mode:
                raise ValueError(
                    f"rollout {rollout.id} and its parent {parent.id} have different log-probability modes"
                )
            unknown = np.full(rollout.branch_at, -1, np.int64)
            prefix = unknown if parent is None else self._path[parent.id][: rollout.branch_at]
            self._path[rollout.id] = np.concatenate([prefix, self._own[rollout.id]])
        self._sampled = np.concatenate([_sampled(r) for r in rollouts])
        self._logprobs = np.concatenate([r.logprobs_T for r in rollouts])
        self._entropies = np.concatenate(
            [np.full(len(r.token_ids), np.nan) if r.entropies_T is None else r.entropies_T for r in rollouts]
        ).astype(np.float32)

    def whole(self, rollout: Rollout) -> Rollout:
        """Return the rollout as if it had sampled its whole path itself, from the first token."""
        if not rollout.branch_at:
            return rollout
        if rollout.id not in self._whole:
            self._whole[rollout.id] = self._joined(rollout)
        return self._whole[rollout.id]

    def members(self, rollouts: Sequence[Rollout], token_texts: TokenTexts | None = None) -> Members:
        """Return the rollouts as :class:`Members` in which the token arrays also cover the prefixes of branches.
        ``parents_G`` and ``families_G`` still show which rollout each branch continues."""
        return replace(
            Members.of([self.whole(r) for r in rollouts], token_texts=token_texts), families_G=families(rollouts)
        )

    def counted_once(
        self, rollouts: Sequence[Rollout], shares: Sequence[Floats], valid_G: Flags
    ) -> list[CreditedRollout]:
        """Return each rollout with only its own tokens. Each token has the mean of its advantages over all paths that
        contain the token.
        """
        sums, counts = np.zeros(len(self._sampled)), np.zeros(len(self._sampled))
        for rollout, share_N, valid in zip(rollouts, shares, valid_G, strict=True):
            if valid and not rollout.unused:
                places = self._trainable(self._path[rollout.id])
                sums[places] += share_N
                counts[places] += 1
        means = sums / np.maximum(counts, 1.0)
        return [CreditedRollout(r, means[self._trainable(self._own[r.id])]) for r in rollouts]

    def repeated(self, rollouts: Sequence[Rollout], shares: Sequence[Floats]) -> list[CreditedRollout]:
        """Return each rollout with its whole path. Each token has the advantage that was computed for the rollout that
        sampled the token.
        """
        values = np.full(len(self._sampled), np.nan)
        for rollout, share_N in zip(rollouts, shares, strict=True):
            values[self._trainable(self._own[rollout.id])] = share_N
        credited = []
        for rollout in rollouts:
            places = self._path[rollout.id]
            valued_T = (places >= 0) & ~np.isnan(values[places])
            whole = self.whole(rollout)
            if rollout.branch_at and not valued_T.all():  # observed, or from another stream
                whole = replace(whole, trainable_T=valued_T)
            credited.append(CreditedRollout(whole, values[places[valued_T]]))
        return credited

    def _joined(self, rollout: Rollout) -> Rollout:
        places, known = self._path[rollout.id], self._path[rollout.id] >= 0
        trainable_T = self._sampled[places] & known
        entropies_T = self._entropies[places]
        return replace(
            rollout,
            prefix_ids=_NO_IDS,
            token_ids=rollout.response_ids,
            logprobs_T=np.where(known, self._logprobs[places], np.float32(np.nan)),
            entropies_T=None if np.isnan(entropies_T[trainable_T]).any() else entropies_T,
            trainable_T=trainable_T,
        )

    def _trainable(self, places: Ints) -> Ints:
        known: Ints = places[places >= 0]
        trainable: Ints = known[self._sampled[known]]
        return trainable


def _sampled(rollout: Rollout) -> Flags:
    return np.ones(len(rollout.token_ids), np.bool_) if rollout.trainable_T is None else rollout.trainable_T
