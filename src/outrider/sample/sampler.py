"""The contract of a sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outrider.record import Rollout, SampleRequest


class Sampler(Protocol):
    """Draws rollouts with the current weights.

    ``sample`` returns ``sum(n)`` rollouts, in the order of the requests and, within one, of the members. A rollout is
    a function of the weights, its context, its parameters and its identity; neither the other requests nor their
    order matter, beyond floating-point near-ties. ``updated`` tells it that the policy has new weights.
    """

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]: ...

    def updated(self, version: int) -> None: ...
