"""The interface of samplers, which sample rollouts for requests with the weights of the last weight sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

from outrider.record import Rollout, SampleRequest

Export = Callable[[Path], None]
"""Function that writes the policy's current weights into a new folder; every rank calls this function.

The function writes all weights to ``model.safetensors``. For a sampler that needs only the adapter, the function writes
only the adapter, in peft's format.
"""


NamedWeights = Iterator[tuple[str, Tensor]]
"""All weights of the policy, by Hugging Face name."""


class Sampler(Protocol):
    """Samples rollouts with the weights of the last sync.

    A rollout depends only on the weights, its context, its sampling parameters and its seed. The seed is derived from
    ids, such as the rollout's index in its group (:mod:`outrider.record.identity`). Other requests and their order can
    change a rollout only through rounding errors. Weights are checked after each sync
    (:class:`outrider.train.weight_sync.WeightSync`).

    Attributes:
        engines: number of engines in use. Each engine has its own copy of the weights, so the check after a weight sync
            must include every engine. Requests are assigned round-robin: the first of n engines gets requests 0, n, 2n,
            …, unless an engine is lost.
        gives_entropies: whether rollouts include the entropy of every sampled token.
        notices: messages for the user that have not been printed yet. The caller prints them and clears the list.
    """

    @property
    def engines(self) -> int: ...

    gives_entropies: bool
    notices: list[str]

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        """Sample ``n`` rollouts for each request, and return all rollouts in the order of the requests.

        Raises:
            UserError: a context leaves no room for a response, or has a token outside the model's vocabulary.
            EngineLostError: no sampling engine is left.
        """
        ...

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Switch to the policy's current weights. A sampler that does not share memory with the policy calls
        ``export``, which writes the weights to a folder.

        Returns the engine's counters since the last call, such as ``recomputed_tokens``, by name. On each rank, the
        counters cover only that rank's requests.
        """
        ...

    def close(self) -> None:
        """Release all resources. The sampler cannot be used afterwards."""
        ...


@runtime_checkable
class AdapterSampler(Protocol):
    """A sampler that can load a policy's adapter without the base weights.

    Attributes:
        takes_adapter: whether weight syncs send only the adapter, because the sampler already has the base weights.
    """

    takes_adapter: bool


def takes_adapter(sampler: Sampler) -> bool:
    """Whether weight syncs send only the adapter to a sampler."""
    return isinstance(sampler, AdapterSampler) and sampler.takes_adapter


@runtime_checkable
class CopiesWeights(Protocol):
    """A sampler in the learner's process with its own copy of the weights. Its weight syncs need no files."""

    def copy_weights(self, version: int, weights: NamedWeights) -> dict[str, int]:
        """Like :meth:`Sampler.take`, but copy the weights from memory."""
        ...


@runtime_checkable
class Sleeps(Protocol):
    """A sampler that may free its device memory while the policy is updated."""

    def sleep(self) -> None:
        """Free device memory until the next weight sync. The sampler cannot sample before this sync."""
        ...


@runtime_checkable
class Arriving(Protocol):
    """A sampler that yields rollouts request by request, so that verification overlaps with sampling."""

    def arriving(self, requests: Sequence[SampleRequest]) -> Iterator[list[Rollout]]:
        """Like :meth:`Sampler.sample`, but yield the rollouts of one request at a time."""
        ...


class KeptRollouts(Protocol):
    """KV caches that are kept between the turns of multi-turn rollouts."""

    def drop(self, rollouts: Iterable[str]) -> None:
        """Drop the KV caches of rollouts that do not continue."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A sampler that keeps a rollout's KV cache, so that the next turn prefills only new tokens."""

    def keeping(self) -> AbstractContextManager[KeptRollouts]:
        """Return a context manager for multi-turn rollouts. Inside it, each turn ends at an end token or stop text, and
        another request may continue the rollout.

        To continue a rollout, send a request with the rollout's id and a context that starts with the rollout's tokens.
        """
        ...
