"""The contract of a stage: which rollouts to sample next, given those there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.options import Options
from outrider.record import Group, SampleRequest


class Stage(Options):
    """One way of spending the rollout budget. Fields are the recipe's options; state lives in ``PrivateAttr``.

    The explorer asks ``plan`` with ``round`` 0, 1, 2, … and has each answer sampled and verified, until the answer is
    empty; then comes the next stage. After the last stage every stage sees the finished groups through ``observe``.
    """

    def plan(self, groups: Sequence[Group], step: int, round: int) -> list[SampleRequest]:
        raise NotImplementedError

    def observe(self, groups: Sequence[Group]) -> None:
        """Learn from the finished groups of a step. A stage without state ignores them."""

    def metrics(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that ``load_state_dict`` needs to plan as if never interrupted; plain JSON data."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")
