"""Prefixed rollouts: for unsolved problems, rollouts continue a prefix of an earlier success (PrefixRL) or of a given
solution (POPE)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, nan
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from outrider.explore.bounds import Bounds
from outrider.explore.memory import remember
from outrider.explore.outcome import evidence, pass_rate
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import Engine, View
from outrider.record import Group, Ids, Prefix, Problem, Rollout, SampleRequest, identity_seed, uniforms

MOST_SUCCESSES = 2_000  # about six checkpoint bytes per token: 50 MB for responses of 4,096 tokens


class _Success(NamedTuple):
    """The last success of a rarely solved problem, or the problem's given solution. It is stored with the fraction of
    its tokens that a prefix keeps."""

    rollout: str
    ids: tuple[int, ...]
    share: float


class Prefixed(Stage):
    """For problems without a success in this step, samples rollouts that continue a prefix of an earlier success.

    After every step the stage stores the tokens of each problem's last success, provided that the problem's pass rate
    is below one half. If the pass rate is one half or above, the stored success is removed. When a problem comes up
    again and all its rollouts without a prefix fail, the stage draws several prefixes (option ``prefixes``) of the
    stored success. Each prefix keeps a random fraction of the success's tokens, uniform in ``[low, high]``, and is
    continued by ``n`` rollouts. The continuations are on-policy; the prefix is context and not trained on. If ``move``
    is above 0, only one prefix is drawn. At first, it keeps the fraction ``(low + high) / 2`` of the success's tokens.
    Within ``[low, high]``, this fraction rises by ``move`` if fewer than half of the last continuations succeeded, and
    falls by ``move`` if more than half succeeded. With ``given``, problems without a stored success use the task's own
    solution (``metadata["solution"]``) until they have a success.

    A prefix defines a different problem, so only rollouts from the same prefix should be compared with each other, as
    the credit component ``siblings_mean`` does. Rollouts from a prefix do not count in the problem's pass rate.

    Degenerate cases: the stage requests nothing for a problem without a stored success, for a success of fewer than two
    tokens, or for a group that an earlier stage excluded. A prefix keeps at least one token of the success and leaves
    at least one token to sample. Rollouts that the verifier could not score are not failures, and a problem with only
    such rollouts does not count as unsolved. If two prefixes are equal, their ``2 n`` continuations are compared with
    each other. Successes from prefixes are stored too, so later prefixes may come from continuations. Responses with
    observations are not stored, because the environment's state could not be restored. The metric ``ungiven`` counts
    problems for which the task's solution cannot be used. This happens if the task has no solution, or if the tokens of
    the prompt change when the solution is appended (for example, if a chat template adds text after the prompt). The
    last 2,000 problems with a success are remembered.

    Source: Setlur et al. 2026, "PrefixRL", arXiv 2601.18795: three prefixes with lengths between 0.4 and 0.8 of a
    success, and groups of 8 rollouts. Only a summary of the paper was available. Differences: PrefixRL's successes come
    from rejection sampling before training, one per hard problem, and prefixed problems are always in its training mix.
    ``given`` and ``move`` follow POPE (Qu et al. 2026, arXiv 2601.18779; only summaries were available). POPE searches,
    before training, for the shortest prefix of a solution that leads to any success. POPE then puts the prefix in the
    prompt with an instruction to continue.

    Raises:
        ValidationError: ``low`` is above ``high``, or ``move`` is set and ``prefixes`` is above 1.

    >>> Prefixed().prefixes
    3
    """

    n: int = Field(8, ge=1, description="number of rollouts to sample as continuations of each prefix")
    prefixes: int = Field(
        3,
        ge=1,
        description=(
            "number of prefixes to draw from a problem's stored success; must be 1 if prefix lengths are adapted "
            "(`move` above 0)"
        ),
    )
    low: float = Field(
        0.4,
        gt=0,
        lt=1,
        description="minimum length of a prefix, as a fraction of the length of the stored successful response",
    )
    high: float = Field(
        0.8,
        gt=0,
        lt=1,
        description="maximum length of a prefix, as a fraction of the length of the stored successful response",
    )
    move: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "step size for adapting the prefix length, as a fraction of the stored response; prefixes get longer if "
            "most continuations failed, and shorter if most succeeded; 0: random lengths"
        ),
    )
    given: bool = Field(
        False,
        description=(
            "whether to use prefixes of the task's solution for problems without a stored success; false: skip these "
            "problems"
        ),
    )
    stream: str = Field(
        "main",
        description=(
            "name of the loss stream (a separately weighted part of the loss) that contains the continuations"
        ),
    )

    _kept: dict[str, _Success] = PrivateAttr(default_factory=dict)
    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _agree(self) -> Prefixed:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, above high, which is {self.high}")
        if self.move and self.prefixes > 1:
            raise ValueError(f"prefixes is {self.prefixes}, but move uses one prefix per problem: set prefixes to 1")
        return self

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("prefixed needs plain rollouts and cannot be the first stage: put uniform before it")
        if around.turns:
            raise ValueError(
                f"prefixed cannot restore the environments of {around.task} to their state at an earlier prefix"
            )
        around.refuse_stream(self.stream)

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before.more(self.n * self.prefixes * problems)

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        unsolved = [g for g in view.groups if not g.dropped and pass_rate(g) == 0]
        tried = [g for g in sorted(unsolved, key=lambda g: g.problem.id) if not _observed(g.rollouts)]
        for problem in [g.problem for g in tried if self.given and g.problem.id not in self._kept]:
            ids = _solution(problem, view.engine)
            if len(ids) > 1:
                success = _Success(f"given/{problem.id}", tuple(ids.tolist()), (self.low + self.high) / 2)
                remember(self._kept, problem.id, success, MOST_SUCCESSES)
        helped = [g for g in tried if g.problem.id in self._kept]
        requests, shares = [], []
        for group in helped:
            success = self._kept[group.problem.id]
            for cut, times in self._cuts(success, view, group.problem.id).items():
                prefix = Prefix(success.rollout, np.array(success.ids[:cut], np.int32))
                requests.append(SampleRequest(group.problem, n=self.n * times, prefix=prefix, stream=self.stream))
                shares += times * [cut / len(success.ids)]
        self._numbers = {
            "unsolved": float(len(unsolved)),
            "helped": float(len(helped)),
            "ungiven": float(len(tried) - len(helped)) if self.given else 0.0,
            "share": fsum(shares) / len(shares) if shares else nan,
        }
        return requests

    def _cuts(self, success: _Success, view: View, problem_id: str) -> Counter[int]:
        seed = identity_seed(view.seed, "prefixed", view.step, problem_id)
        drawn = uniforms(np.array([seed]), np.arange(self.prefixes))[0]
        shares = [success.share] if self.move else self.low + (self.high - self.low) * drawn
        length = len(success.ids)
        return Counter(min(max(1, int(share * length)), length - 1) for share in shares)

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        for group in sorted(groups, key=lambda group: group.problem.id):  # so that batch order does not matter
            self._learn(group)
        return self._numbers | {"kept": float(len(self._kept))}

    def _learn(self, group: Group) -> None:
        rate, key = pass_rate(group), group.problem.id
        before = self._kept.get(key)
        share = (self.low + self.high) / 2 if before is None else self._moved(before, group)
        found = [r for r in evidence(group.rollouts) if r.success and r.context.kind == "plain"]
        usable = [r for r in found if len(r.response_ids) > 1 and not _observed([r])]
        if rate is not None and rate >= 0.5:
            self._kept.pop(key, None)
        elif usable and rate is not None:
            remember(
                self._kept, key, _Success(usable[-1].id, tuple(usable[-1].response_ids.tolist()), share), MOST_SUCCESSES
            )
        elif before is not None:
            self._kept[key] = before._replace(share=share)

    def _moved(self, success: _Success, group: Group) -> float:
        """Return the length of the next prefix, as a fraction of the stored success's length. The length depends on the
        outcomes of the last continuations (option ``move``)."""
        continued = [r.success for r in evidence(group.rollouts) if r.parent == success.rollout]
        if not continued:
            return success.share
        over = 2 * sum(continued) - len(continued)
        return min(max(success.share - self.move * ((over > 0) - (over < 0)), self.low), self.high)

    def state_dict(self) -> dict[str, Any]:
        """Return the stored success of each problem, oldest first: its rollout id, its tokens, and the fraction of the
        tokens that the next prefix contains."""
        return {"kept": [[key, kept.rollout, list(kept.ids), kept.share] for key, kept in self._kept.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._kept = {key: _Success(rollout, tuple(ids), share) for key, rollout, ids, share in state["kept"]}


def _solution(problem: Problem, engine: Engine) -> Ids:
    """Return the token ids of the task's own solution. Prompt and solution are tokenized together, and the prompt's
    token ids are removed. Return an empty array if the solution cannot be used.
    """
    text = problem.metadata.get("solution")
    if not isinstance(text, str):
        return np.zeros(0, np.int32)
    prompt, whole = engine.encode(problem), engine.encode(replace(problem, prompt=problem.prompt + text))
    return whole[len(prompt) :] if (whole[: len(prompt)] == prompt).all() else whole[:0]


def _observed(rollouts: Sequence[Rollout]) -> bool:
    """Whether any of the rollouts contains an observation."""
    return any(r.observations or r.trainable_T is not None for r in rollouts)
