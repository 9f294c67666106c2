"""Selects responses for rejection fine-tuning: the best successes according to a measure, plus a share of failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from outrider.errors import UserError
from outrider.explore.bounds import Bounds
from outrider.explore.outcome import scorable, trainable
from outrider.explore.stage import Stage
from outrider.explore.view import Engine, View
from outrider.needs import NOTHING, Needs
from outrider.record import Group, Rollout, SampleRequest, identity_seed
from outrider.texts import first_box_end, tokens_until_box

_NEEDS: dict[str, Needs] = {"entropy": frozenset({"entropies"}), "branching": frozenset({"branching"})}


class Keep(Stage):
    r"""Keeps at most ``most`` responses per step, and drops all others with a reason: ``incorrect``, ``unscorable`` or
    ``beyond the most``.

    Successes that no earlier stage excluded are ranked by one of three measures (option ``by``), highest first:

    * ``entropy``: the mean entropy per token, recorded during sampling;
    * ``branching``: the mean size of the top-p token set over all positions, computed in a forward pass of the policy.
      The top-p set is the smallest set of tokens with a total probability of at least ``mass``, at temperature 1;
    * ``chance``: a random number per response. The other measures use this number to break ties.

    Tokens after the end of the first ``\boxed{…}`` are ignored: the credit component ``until_box`` excludes them from
    training.

    The number ``n`` of kept responses is ``most``, or less if there are too few successes. Of the kept responses,
    :math:`\lfloor \mathrm{noise}\; n \rfloor` are failures (fewer if there are not enough), ranked in the same way, and
    all others are successes. ``per_problem`` limits a problem's successes and, separately, its failures.

    The stage does not sample rollouts. Degenerate cases: if no response succeeds, no response is kept.

    Source: rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1. Our choices: the report adds 5 %
    failures, which we read as 5 % of the training data. (The report could also mean 5 % of all failures.) Successes and
    failures are both ranked. For ``branching``, the token with which the total reaches ``mass`` is counted too.
    """

    most: int | None = Field(
        None, ge=1, description="maximum number of responses to keep per training step; null: no limit"
    )
    by: Literal["chance", "entropy", "branching"] = Field(
        "chance",
        description=(
            "criterion for choosing the responses to keep: random choice (chance), highest mean token entropy "
            "(entropy), or largest mean size of the top-p token set (branching)"
        ),
    )
    noise: float = Field(
        0.0, ge=0, lt=1, description="fraction of the kept responses that are failures; 0: keep only successes"
    )
    per_problem: int | None = Field(
        None,
        ge=1,
        description=(
            "maximum number of successes to keep per problem; the same limit applies separately to failures; null: no "
            "limit"
        ),
    )
    mass: float = Field(
        0.95,
        gt=0,
        le=1,
        description=(
            "probability mass of the top-p token set, which is the smallest set of tokens that reaches this mass; used "
            "only with `by: branching`"
        ),
    )

    _reasons: dict[str, str] = PrivateAttr(default_factory=dict)
    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    @property
    def requires(self) -> Needs:
        return _NEEDS.get(self.by, NOTHING)

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before

    def plan(self, view: View) -> list[SampleRequest]:
        """Select the responses to keep. The measure ``branching`` needs the policy, to which ``drop`` has no access."""
        left = [r for group in view.groups for r in group.rollouts if trainable(r)]
        verified = [r for r in scorable(left) if r.success or self.noise]
        values = dict(zip((r.id for r in verified), self._values(verified, view), strict=True))
        lots = {r.id: identity_seed(view.seed, "keep", r.id) for r in left}
        ranked = sorted(verified, key=lambda r: (-values[r.id], lots[r.id]))
        right, wrong = (self._first([r for r in ranked if r.success is success]) for success in (True, False))
        n = math.floor(len(right) / (1.0 - self.noise) + 1e-9)
        n = n if self.most is None else min(n, self.most)
        failures = wrong[: math.floor(self.noise * n + 1e-9)] if right else []
        kept = [*right[: n - len(failures)], *failures]
        ids = {r.id for r in kept}
        self._reasons = {r.id: _reason(r, bool(failures)) for r in left if r.id not in ids}
        self._numbers = {
            "kept": float(len(kept)),
            "failures": float(len(failures)),
            "beyond": float(len(right) + len(failures) - len(kept)),
            "value": self._mean_value(kept, values),
            "value_of_all": self._mean_value([r for r in verified if r.success], values),
        }
        return []

    def drop(self, groups: Sequence[Group]) -> Mapping[str, str]:
        return self._reasons

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        return self._numbers

    def _first(self, ranked: Sequence[Rollout]) -> list[Rollout]:
        """Return the first ``per_problem`` rollouts of each problem, in the same order."""
        taken: Counter[str] = Counter()
        chosen = []
        for rollout in ranked:
            taken[rollout.problem_id] += 1
            if self.per_problem is None or taken[rollout.problem_id] <= self.per_problem:
                chosen.append(rollout)
        return chosen

    def _mean_value(self, rollouts: Sequence[Rollout], values: Mapping[str, float]) -> float:
        """Return the mean of ``values`` over the rollouts; NaN without rollouts or with ``by: chance``."""
        return _mean([values[r.id] for r in rollouts]) if rollouts and self.by != "chance" else math.nan

    def _values(self, rollouts: Sequence[Rollout], view: View) -> list[float]:
        if self.by == "chance":
            return [0.0] * len(rollouts)
        measured = (
            view.engine.branching(rollouts, self.mass) if self.by == "branching" else [_entropies(r) for r in rollouts]
        )
        return [_mean(m[: _imitated(r, view.engine)].tolist()) for r, m in zip(rollouts, measured, strict=True)]


def _entropies(rollout: Rollout) -> NDArray[np.float32]:
    if rollout.entropies_T is None:
        raise UserError("stage keep needs the entropy of every token, but this sampler records none")
    return rollout.entropies_T if rollout.trainable_T is None else rollout.entropies_T[rollout.trainable_T]


def _imitated(rollout: Rollout, engine: Engine) -> int:
    """Return the number of sampled tokens up to the end of the first ``\\boxed{…}``. Without a box, all sampled tokens
    count.
    """
    if first_box_end(rollout.text) is None:
        return rollout.trainable_tokens
    ids = rollout.token_ids if rollout.trainable_T is None else rollout.token_ids[rollout.trainable_T]
    return tokens_until_box(engine.token_texts(ids))


def _reason(rollout: Rollout, some_failures: bool) -> str:
    if not scorable([rollout]):
        return "keep: unscorable"
    return "keep: beyond the most" if rollout.success or some_failures else "keep: incorrect"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
