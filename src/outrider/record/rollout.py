"""A rollout: one sampled response. Token ids are the truth, text is a view."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.record.sampling import PLAIN, RAW, Context, Ids, Mode
from outrider.record.verdict import Verdict


class StopReason(StrEnum):
    """Why a rollout ended: ``STOP`` by its end-of-sequence token, ``TEXT`` by a stop text in its own tokens,
    ``LENGTH`` by its token budget, ``CONTEXT`` because the model's context was full; with an environment ``DONE``
    because that said so, ``TURNS`` at the most turns, ``ENVIRONMENT`` because it failed. ``LENGTH``, ``CONTEXT`` and
    ``TURNS`` are truncations."""

    STOP = "stop"
    TEXT = "text"
    LENGTH = "length"
    CONTEXT = "context"
    DONE = "done"
    TURNS = "turns"
    ENVIRONMENT = "environment"

    @property
    def truncates(self) -> bool:
        """Whether a limit ended the rollout, and not the policy."""
        return self in (StopReason.LENGTH, StopReason.CONTEXT, StopReason.TURNS)


class Observation(NamedTuple):
    """What an environment said to a turn.

    Attributes:
        at: own tokens before it.
        tokens: how many it has; 0 where nothing was shown, as with the last turn.
        begin, end: its place in the rollout's ``text``, in characters.
        error: whether the turn asked for what cannot be had.
        cut: whether it is the beginning of a longer one.
    """

    at: int
    tokens: int
    begin: int
    end: int
    error: bool = False
    cut: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """Own tokens before it, and those with it."""
        return self.at, self.at + self.tokens


LOG_RATIO_STEP = 2.0**-13
"""1.2e-4: finer differences are rounding of the forward pass, which no compression would make smaller on disk."""


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no truth value to compare by
class Rollout:
    """One response with everything needed to verify it, train on it and explain it.

    The sequence that the model saw is ``prompt_ids + prefix_ids + token_ids``. *Own* tokens are ``token_ids``: those
    that this rollout sampled itself and that were paid for. The prefix belongs to the parent.

    None, zero and NaN differ: ``verdict`` and ``reward`` are None until assigned; a reward of NaN is *unscorable*
    (the verifier failed, not the policy) and is kept out of every baseline.

    Attributes:
        id: ``group_id/member``.
        problem_id, group_id, member: identity; a group is one problem in one step.
        prompt_ids, prefix_ids, token_ids: int32.
        logprobs_T: float32, one per own token, under ``mode``.
        entropies_T: float32, nats, of the full distribution under ``mode``; None where the engine cannot give it.
        mode: the distribution of the two above.
        trainable_T: bool, False for tokens that were observed and not sampled (tool output); None: all True.
        observations: one for each turn that an environment answered, in order; those of the prefix are the parent's.
        parent, branch_at: the rollout that ``prefix_ids`` come from; None for a root, then ``branch_at`` is 0.
        context, stream, stage: those of the request; the context of a replayed one says so.
        policy_version: version of the weights that drew the tokens.
        seed: the identity seed of the draw.
        stop: see :class:`StopReason`.
        text: own tokens decoded; special tokens excluded.
        prefix_text: ``prefix_ids`` decoded, so that a branch can be verified as a whole.
        verdict, reward: the verdict, and its reward under the run's reward map.
        advantage: the mean of its trainable tokens; None where credit assigned none.
        advantages_T: float32, one per own token, 0 for observed ones; None where all trainable tokens have the mean.
        predicted: the pass rate that a stage predicted of the problem before the step, from 0 to 1; None: none did.
        log_ratios_T: float32, one per own token: the log of the probability that the policy gave it in the forward pass
            of the rollout's last update over that with which it was sampled, in steps of :data:`LOG_RATIO_STEP`; 0 for
            observed tokens. None without such a pass, and where the learner does not tell.
        unused: the reason for not being trained on; ``""`` if it was.
    """

    problem_id: str
    group_id: str
    member: int
    prompt_ids: Ids
    token_ids: Ids
    logprobs_T: NDArray[np.float32]
    prefix_ids: Ids
    entropies_T: NDArray[np.float32] | None = None
    mode: Mode = RAW
    trainable_T: NDArray[np.bool_] | None = None
    observations: tuple[Observation, ...] = ()
    parent: str | None = None
    context: Context = PLAIN
    stream: str = "main"
    stage: str = ""
    policy_version: int = 0
    seed: int = 0
    stop: StopReason = StopReason.STOP
    text: str = ""
    prefix_text: str = ""
    verdict: Verdict | None = None
    reward: float | None = None
    advantage: float | None = None
    advantages_T: NDArray[np.float32] | None = None
    predicted: float | None = None
    log_ratios_T: NDArray[np.float32] | None = None
    unused: str = ""

    @property
    def id(self) -> str:
        return f"{self.group_id}/{self.member}"

    @property
    def replayed(self) -> bool:
        """Whether an earlier step has drawn it: it is trained on again, and says nothing of the present policy."""
        return self.context.kind == "replayed"

    @property
    def branch_at(self) -> int:
        return len(self.prefix_ids)

    @property
    def response_ids(self) -> Ids:
        """Prefix and own tokens: the whole response as the model saw it."""
        return np.concatenate([self.prefix_ids, self.token_ids])

    @property
    def response_text(self) -> str:
        return self.prefix_text + self.text

    @property
    def truncated(self) -> bool:
        return self.stop.truncates

    @property
    def success(self) -> bool:
        """Whether the verdict is correct. Never looks at the reward; a rollout without a verdict is no success."""
        return self.verdict is not None and self.verdict.success

    @property
    def trainable_tokens(self) -> int:
        """Own tokens that the policy sampled; the rest were observed."""
        return len(self.token_ids) if self.trainable_T is None else int(self.trainable_T.sum())

    @property
    def turns(self) -> int:
        """Its turns, the last one included; those of its prefix are the parent's."""
        if self.trainable_tokens == 0:
            return 0
        # the first may be said before any turn, and the last behind the last one
        return 1 + sum(one.at > 0 and one.span[1] < len(self.token_ids) for one in self.observations)

    def verified(self, verdict: Verdict, reward: float) -> Rollout:
        return self._with(verdict=verdict, reward=reward)

    def again(self, group_id: str, member: int, stage: str, stream: str) -> Rollout:
        """As a member of a group of a later step, with verdict and log-probabilities as they were; without a reward."""
        return self._with(
            group_id=group_id,
            member=member,
            stage=stage,
            stream=stream,
            context=Context("replayed", (self.id,)),
            reward=None,
            advantage=None,
            advantages_T=None,
            predicted=None,
            log_ratios_T=None,
            unused="",
        )

    def credited(self, advantages_N: NDArray[np.float64], unused: str) -> Rollout:
        """With the advantages of its trainable tokens, and the reason if it is not trained on.

        Where a whole path is trained, they are the path's, and the last of them are this rollout's own. Degenerate: no
        tokens, no advantage.
        """
        mean = float(advantages_N.sum()) / len(advantages_N) if len(advantages_N) else None
        advantages_T = None
        if len(advantages_N) and (advantages_N != advantages_N[0]).any():
            advantages_T = np.zeros(len(self.token_ids), np.float32)
            own_N = advantages_N[len(advantages_N) - self.trainable_tokens :]
            advantages_T[slice(None) if self.trainable_T is None else self.trainable_T] = own_N
        return self._with(advantage=mean, advantages_T=advantages_T, unused=self.unused or unused)

    def trained_with(self, logprobs_N: NDArray[np.float32]) -> Rollout:
        """With the log-probabilities of its last update.

        Where a whole path is trained, they are the path's, and the last of them are this rollout's own.
        """
        own_T = logprobs_N[len(logprobs_N) - len(self.token_ids) :]
        steps_T = np.round((own_T - self.logprobs_T) / LOG_RATIO_STEP) * LOG_RATIO_STEP
        if self.trainable_T is not None:
            steps_T = np.where(self.trainable_T, steps_T, 0.0)
        return self._with(log_ratios_T=steps_T.astype(np.float32))

    def predicted_as(self, rate: float | None) -> Rollout:
        """With the pass rate that was predicted of its problem."""
        return self if rate is None else self._with(predicted=rate)

    def excluded(self, reason: str) -> Rollout:
        """The same rollout, marked as not trained on. The first reason stands."""
        return self if self.unused else self._with(unused=reason)

    def _with(self, **changes: Any) -> Rollout:
        """What ``dataclasses.replace`` does."""
        # without __init__, a fifth of the time: a step changes hundreds of rollouts twice
        twin = object.__new__(Rollout)
        for name in self.__slots__:
            object.__setattr__(twin, name, changes[name] if name in changes else getattr(self, name))
        return twin
