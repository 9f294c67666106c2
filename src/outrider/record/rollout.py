"""A rollout is one sampled response. Its token ids are authoritative, and its text is decoded from the token ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.record.sampling import PLAIN, RAW, Context, Ids, Mode
from outrider.record.verdict import Verdict


class StopReason(StrEnum):
    """The reason why a rollout ended.

    ``STOP``: the policy sampled an end-of-sequence token; ``TEXT``: the sampled text contains a stop string;
    ``LENGTH``: the response reached the token limit; ``CONTEXT``: the model's context was full. Only environments use
    ``DONE`` (the environment ended the episode), ``TURNS`` (the turn limit was reached) and ``ENVIRONMENT`` (the
    environment failed). ``LENGTH``, ``CONTEXT`` and ``TURNS`` are truncations.
    """

    STOP = "stop"
    TEXT = "text"
    LENGTH = "length"
    CONTEXT = "context"
    DONE = "done"
    TURNS = "turns"
    ENVIRONMENT = "environment"

    @property
    def truncates(self) -> bool:
        """Whether a limit, rather than the policy or the environment, ended the rollout."""
        return self in (StopReason.LENGTH, StopReason.CONTEXT, StopReason.TURNS)


class Observation(NamedTuple):
    """An environment's reply to a turn.

    Attributes:
        at: number of tokens of ``Rollout.token_ids`` before the observation.
        tokens: number of observed tokens; 0 if the policy saw no observation, for example after the last turn.
        begin, end: the observation's start and end in the rollout's ``text``, in characters.
        error: whether the policy's turn made an invalid request, such as a call to an unknown tool.
        cut: whether the observation was truncated.
    """

    at: int
    tokens: int
    begin: int
    end: int
    error: bool = False
    cut: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the observation in ``Rollout.token_ids``."""
        return self.at, self.at + self.tokens


LOG_RATIO_STEP = 2.0**-13
"""Stored log ratios are multiples of this step, 1.2e-4. Smaller differences are rounding noise, which would make files
larger, since noise cannot be compressed."""


@dataclass(frozen=True, slots=True, eq=False)  # arrays cannot be compared with one truth value
class Rollout:
    """One response, with all data that is needed to verify it, train on it and explain it.

    The sequence that the model saw is ``prompt_ids + prefix_ids + token_ids``. The rollout's *own* tokens are
    ``token_ids``: the tokens that were sampled or observed in this rollout. A branch is a rollout that continues a
    prefix of another rollout's response. The other rollout is the branch's parent, and owns the prefix.

    None, zero and NaN have different meanings. ``verdict`` and ``reward`` are None until they are assigned. A reward of
    NaN means *unscorable* (the verifier failed, not the policy); an unscorable rollout is excluded from every baseline.

    Attributes:
        id: ``group_id/member``.
        problem_id: id of the problem.
        group_id: id of the group, which contains the rollouts of one problem in one step.
        member: index of the rollout in its group.
        prompt_ids, prefix_ids, token_ids: int32.
        logprobs_T: float32, the log-probability of each own token under ``mode``.
        entropies_T: float32, the entropy in nats at each own token, over the whole vocabulary and at the temperature in
            ``mode``; None if the engine returns no entropies.
        mode: temperature, ``top_p`` and ``top_k`` of the distribution to which log-probabilities refer.
        trainable_T: bool, one per own token; False for observed tokens (such as tool output), which were not sampled.
            None if all own tokens are trainable.
        observations: the environment's replies, in order, excluding observations in the prefix.
        parent: id of the rollout from which ``prefix_ids`` are taken; None for a rollout that starts at the prompt.
        branch_at: number of tokens in ``prefix_ids``.
        context, stream, stage: as in :class:`outrider.record.SampleRequest`. If the rollout is from an earlier step,
            ``context.kind`` is ``"replayed"``.
        policy_version: version of the weights that sampled the tokens.
        seed: the rollout's own random seed (:mod:`outrider.record.identity`).
        stop: see :class:`StopReason`.
        text: decoded text of the own tokens, without special tokens.
        prefix_text: decoded text of ``prefix_ids``, so that a branch can be verified as a whole.
        verdict: the verifier's verdict.
        reward: the reward that the recipe's ``reward`` options assign to the verdict.
        advantage: mean advantage of the trainable tokens; None if no advantage was assigned.
        advantages_T: float32, one per own token, 0 for observed tokens; None if all trainable tokens have the same
            advantage.
        predicted: pass rate of the problem, from 0 to 1, that the recipe predicted before the step; None if there is no
            prediction.
        log_ratios_T: float32, one per own token: how much the log-probability has changed since sampling. The later
            log-probability comes from the forward pass of the last update that trained on the rollout. Values are
            rounded to multiples of :data:`LOG_RATIO_STEP`, and are 0 for observed tokens. None if no update used the
            rollout, or if the learner does not report its log-probabilities.
        unused: the reason why the rollout was not trained on; ``""`` if it was trained on.
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
        """Whether the rollout was sampled in an earlier step and is now trained on again, off-policy."""
        return self.context.kind == "replayed"

    @property
    def branch_at(self) -> int:
        return len(self.prefix_ids)

    @property
    def response_ids(self) -> Ids:
        """The tokens of the whole response: prefix and own tokens."""
        return np.concatenate([self.prefix_ids, self.token_ids])

    @property
    def response_text(self) -> str:
        return self.prefix_text + self.text

    @property
    def truncated(self) -> bool:
        return self.stop.truncates

    @property
    def success(self) -> bool:
        """Whether the verifier accepted the response, regardless of the reward; False if there is no verdict."""
        return self.verdict is not None and self.verdict.success

    @property
    def trainable_tokens(self) -> int:
        """Number of ``token_ids`` that the policy sampled. All other ``token_ids`` are from an environment, such as
        tool output."""
        return len(self.token_ids) if self.trainable_T is None else int(self.trainable_T.sum())

    @property
    def turns(self) -> int:
        """Number of the rollout's own turns, including the last turn. Turns in the prefix belong to the parent."""
        if self.trainable_tokens == 0:
            return 0
        # each observation starts a turn, except before the first turn or after the last
        return 1 + sum(one.at > 0 and one.span[1] < len(self.token_ids) for one in self.observations)

    def verified(self, verdict: Verdict, reward: float) -> Rollout:
        return self._with(verdict=verdict, reward=reward)

    def again(self, group_id: str, member: int, stage: str, stream: str) -> Rollout:
        """Return a copy for a later step's group. The copy keeps the verdict and the log-probabilities, but has no
        reward."""
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
        """Return the rollout with the advantages of its trainable tokens, and with the reason ``unused`` if it is not
        trained on.

        If training includes a branch's prefix, ``advantages_N`` begins with the advantages of the prefix. Degenerate
        case: if there are no tokens, the advantage is None.
        """
        mean = float(advantages_N.sum()) / len(advantages_N) if len(advantages_N) else None
        advantages_T = None
        if len(advantages_N) and (advantages_N != advantages_N[0]).any():
            advantages_T = np.zeros(len(self.token_ids), np.float32)
            own_N = advantages_N[len(advantages_N) - self.trainable_tokens :]
            advantages_T[slice(None) if self.trainable_T is None else self.trainable_T] = own_N
        return self._with(advantage=mean, advantages_T=advantages_T, unused=self.unused or unused)

    def trained_with(self, logprobs_N: NDArray[np.float32]) -> Rollout:
        """Return the rollout with ``log_ratios_T``, computed from ``logprobs_N``: the log-probabilities in the last
        update that trained on the rollout.

        If training includes a branch's prefix, ``logprobs_N`` begins with the prefix.
        """
        own_T = logprobs_N[len(logprobs_N) - len(self.token_ids) :]
        steps_T = np.round((own_T - self.logprobs_T) / LOG_RATIO_STEP) * LOG_RATIO_STEP
        if self.trainable_T is not None:
            steps_T = np.where(self.trainable_T, steps_T, 0.0)
        return self._with(log_ratios_T=steps_T.astype(np.float32))

    def predicted_as(self, rate: float | None) -> Rollout:
        """Return the rollout with its problem's predicted pass rate."""
        return self if rate is None else self._with(predicted=rate)

    def excluded(self, reason: str) -> Rollout:
        """Return the rollout marked as excluded from training for ``reason``. An earlier reason is kept."""
        return self if self.unused else self._with(unused=reason)

    def _with(self, **changes: Any) -> Rollout:
        """Return a copy with changed fields, like ``dataclasses.replace``, but faster."""
        # without __init__, a copy takes a fifth of the time; each step copies hundreds of rollouts twice
        twin = object.__new__(Rollout)
        for name in self.__slots__:
            object.__setattr__(twin, name, changes[name] if name in changes else getattr(self, name))
        return twin
