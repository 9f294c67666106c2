"""A multi-turn rollout during sampling, with its tokens and its progress in the environment."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.environments.environments import Failed
from outrider.record import (
    Ids,
    Observation,
    Outcome,
    Prefix,
    Rollout,
    SampleRequest,
    StopReason,
    Verdict,
)
from outrider.sample.requests import SampledTokens, prefix_of

_NONE = np.zeros(0, np.int32)


class Segment(NamedTuple):
    """A span of tokens that were all sampled, or all observed."""

    sampled: bool
    ids: Ids


class Trajectory:
    """A multi-turn rollout during sampling.

    Attributes:
        request: the request for this rollout alone (its number of rollouts, ``n``, is 1).
        replayed: turns that were copied from another rollout and must still be sent to the environment, each with the
            observation that followed it.
        turn: tokens of the current turn so far, including tokens that were copied from another rollout.
        turns: number of turns sent to the environment.
        heard: observations so far, whose positions in the rollout's text are set when the rollout is complete.
        stop: stop reason, or None while the rollout continues.
    """

    def __init__(self, request: SampleRequest, member: int) -> None:
        self.request = replace(request, n=1, first_member=request.first_member + member)
        self._own: list[Segment] = []
        self._drawn: list[Rollout] = []
        self.stop: StopReason | None = None
        self.verdict: Verdict | None = None
        self.turns = 0
        self.heard: list[Observation] = []
        ids, last = prefix_of(request), 0
        self.opening = _NONE
        self.replayed: deque[tuple[Ids, Ids]] = deque()
        for begin, end in (request.prefix and request.prefix.observed) or ():
            if begin == 0:
                self.opening = ids[:end]
            else:
                self.replayed.append((ids[last:begin], ids[begin:end]))
            last = end
        self.turn: list[Ids] = [ids[last:]] if last < len(ids) else []

    @property
    def id(self) -> str:
        return self.request.rollout_id(0)

    @property
    def response(self) -> Ids:
        return np.concatenate([prefix_of(self.request), *(part.ids for part in self._own)]).astype(np.int32)

    @property
    def draw(self) -> SampleRequest:
        """The request for the next turn.

        After the first turn, the request's prefix is the rollout so far. The seed of the turn depends on the rollout's
        id and on the length of this prefix.
        """
        if not self._own:
            return self.request
        return replace(self.request, prefix=Prefix(self.id, self.response))

    def sampled(self, drawn: Rollout) -> None:
        """Append the sampled tokens of a turn."""
        self._drawn.append(drawn)
        self._own.append(Segment(True, drawn.token_ids))
        self.turn.append(drawn.token_ids)
        if drawn.truncated:
            self.stop = drawn.stop

    def observed(self, ids: Ids, error: bool = False, cut: bool = False) -> None:
        """Append an observation. ``ids`` is empty if the observation's tokens are excluded from the rollout."""
        self.turn = []
        self.heard.append(Observation(sum(len(part.ids) for part in self._own), len(ids), 0, 0, error, cut))
        if len(ids):
            self._own.append(Segment(False, ids))

    def end(self, stop: StopReason, verdict: Verdict | None = None) -> None:
        self.stop, self.verdict = stop, verdict

    def fail(self, failed: Failed) -> None:
        """End the rollout as unscorable, because the environment failed."""
        outcome = Outcome.TIMEOUT if failed.hung else Outcome.ERROR
        self.end(StopReason.ENVIRONMENT, Verdict(outcome, math.nan, detail=f"the environment: {failed.why}"))

    @property
    def last(self) -> int | None:
        """The last token of the turn that was sent to the environment most recently, or None before the first turn."""
        if self.replayed:
            return int(self.replayed[0][0][-1]) if self.turns else None
        return int(self.turn[-1][-1]) if self.turns else None

    @property
    def drawn(self) -> Rollout | None:
        """The sampler's result for the first turn, or None before the first turn."""
        return self._drawn[0] if self._drawn else None

    @property
    def trainable_T(self) -> NDArray[np.bool_] | None:
        flags = [np.full(len(part.ids), part.sampled) for part in self._own]
        return None if all(part.sampled for part in self._own) else np.concatenate(flags)

    def tokens(self) -> SampledTokens:
        """Return the rollout's tokens, without a prefix copied from another rollout. Observed tokens have NaN as their
        log-probabilities and entropies."""
        drawn = iter(self._drawn)
        logprobs, entropies = [np.zeros(0, np.float32)], [np.zeros(0, np.float32)]
        for part in self._own:
            turn = next(drawn) if part.sampled else None
            unknown = np.full(len(part.ids), np.nan, np.float32)
            logprobs.append(unknown if turn is None else turn.logprobs_T)
            entropies.append(unknown if turn is None or turn.entropies_T is None else turn.entropies_T)
        given = bool(self._drawn) and all(turn.entropies_T is not None for turn in self._drawn)
        ids = np.concatenate([_NONE, *(part.ids for part in self._own)]).astype(np.int32)
        assert self.stop is not None
        return SampledTokens(ids, np.concatenate(logprobs), np.concatenate(entropies) if given else None, self.stop)
