"""The contract of a sampler: requests in, rollouts out, with the weights that it was given last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

from outrider.record import Rollout, SampleRequest

Export = Callable[[Path], None]
"""Writes the policy's present weights into a new folder; every rank calls it.

They are whole, in ``model.safetensors``, or for samplers that take adapters an adapter alone, as peft writes it.
"""


class Sampler(Protocol):
    """Draws rollouts with the current weights.

    A rollout is a function of the weights, its context, its parameters and its identity; neither the other requests
    nor their order matter, beyond floating-point near-ties. What it is given is checked each time
    (:class:`outrider.train.weight_sync.WeightSync`).

    Attributes:
        engines: how many copies of the weights draw at the moment, each of which has to be checked: the requests of a
            call go round them in turn, so that the first draws requests 0, n, 2n, … of n copies, as long as none is
            lost.
        gives_entropies: whether its rollouts have the entropy of every token as it was drawn.
        notices: pending messages for the user; the caller that prints them clears the list.
    """

    @property
    def engines(self) -> int: ...

    gives_entropies: bool
    notices: list[str]

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        """``sum(n)`` rollouts, in the order of the requests and, within one, of the members.

        Raises:
            UserError: a context leaves no room to respond, or has a token that the model does not know.
            EngineLostError: nothing that could sample is left.
        """
        ...

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Use the policy's weights as they are now; ``export`` is for samplers that do not share them.

        Returns the engine's own counts since the last time, on every rank those of its own requests.
        """
        ...

    def close(self) -> None:
        """Let go of what it holds; nothing is sampled after that."""
        ...


@runtime_checkable
class AdapterSampler(Protocol):
    """A sampler that may be given a policy's adapter alone.

    Attributes:
        takes_adapter: whether it has the weights beneath the adapter, and wants the adapter alone.
    """

    takes_adapter: bool


def takes_adapter(sampler: Sampler) -> bool:
    """Whether a sampler is given the adapter alone."""
    return isinstance(sampler, AdapterSampler) and sampler.takes_adapter


@runtime_checkable
class Arriving(Protocol):
    """A sampler whose rollouts come back request by request: those that are here are verified as others are drawn."""

    def arriving(self, requests: Sequence[SampleRequest]) -> Iterator[list[Rollout]]:
        """As :meth:`Sampler.sample`, the rollouts of one request at a time."""
        ...


class KeptRollouts(Protocol):
    """What is kept of rollouts that may go on."""

    def drop(self, rollouts: Iterable[str]) -> None:
        """These do not go on."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A sampler that keeps what it has computed of a rollout, so that its next turn computes only what is new."""

    def keeping(self) -> AbstractContextManager[KeptRollouts]:
        """Inside the block, a rollout that ends at an end token or a stop text may go on, in a request of its id whose
        context begins with its tokens."""
        ...
