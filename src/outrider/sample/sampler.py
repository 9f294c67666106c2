"""The contract of a sampler: rollouts for requests, with the weights of the last sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

from outrider.record import Rollout, SampleRequest

Export = Callable[[Path], None]
"""Writes the policy's current weights into a new folder; every rank calls it.

These are all weights, in ``model.safetensors``, or for samplers that take adapters only the adapter, in peft's format.
"""


class Sampler(Protocol):
    """Samples rollouts with the current weights.

    A rollout is a function of the weights, its context, its parameters and its identity. Other requests and their order
    do not matter, up to floating-point near-ties. Weights are checked after each sync
    (:class:`outrider.train.weight_sync.WeightSync`).

    Attributes:
        engines: number of active copies of the weights, each of which has to be checked. Requests are assigned
            round-robin: of n copies the first gets requests 0, n, 2n, …, unless a copy is lost.
        gives_entropies: whether its rollouts have the entropy of every token at sampling.
        notices: pending messages for the user; the caller that prints them clears the list.
    """

    @property
    def engines(self) -> int: ...

    gives_entropies: bool
    notices: list[str]

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        """``sum(n)`` rollouts, in the order of the requests and of the members within each.

        Raises:
            UserError: a context leaves no room for a response, or has an unknown token.
            EngineLostError: no sampling engine is left.
        """
        ...

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Use the policy's current weights; ``export`` is for samplers that do not share memory with it.

        Returns the engine's counts since the last call, on every rank for its own requests.
        """
        ...

    def close(self) -> None:
        """Release all resources; no sampling afterwards."""
        ...


@runtime_checkable
class AdapterSampler(Protocol):
    """A sampler that can load a policy's adapter without the base weights.

    Attributes:
        takes_adapter: whether it has the base weights, and takes only the adapter.
    """

    takes_adapter: bool


def takes_adapter(sampler: Sampler) -> bool:
    """Whether a sampler takes only the adapter."""
    return isinstance(sampler, AdapterSampler) and sampler.takes_adapter


@runtime_checkable
class Arriving(Protocol):
    """A sampler that returns rollouts request by request, so that they are verified while others are sampled."""

    def arriving(self, requests: Sequence[SampleRequest]) -> Iterator[list[Rollout]]:
        """Like :meth:`Sampler.sample`, for one request at a time."""
        ...


class KeptRollouts(Protocol):
    """KV caches of rollouts that may continue."""

    def drop(self, rollouts: Iterable[str]) -> None:
        """Drop rollouts that do not continue."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A sampler that keeps a rollout's KV cache, so that its next turn only prefills new tokens."""

    def keeping(self) -> AbstractContextManager[KeptRollouts]:
        """In this context, a rollout that ends at an end token or stop text may continue, in a request with its id
        whose context starts with its tokens."""
        ...
