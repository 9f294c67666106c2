"""Runs the local sampler in a separate process, so that sampling and training overlap (``train.lag: 1``)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Pipe
from typing import Any, NamedTuple

from outrider.errors import EngineLostError
from outrider.interrupts import how_it_ended
from outrider.model.compute import ComputePath
from outrider.model.options import PolicyOptions
from outrider.record import Rollout, SampleRequest
from outrider.sample.options import SampleOptions
from outrider.sample.sampler import Export
from outrider.sample.synced_weights import OnMain, SyncedWeights

_MODULE = "outrider.sample.sampling_worker"


class SamplerParts(NamedTuple):
    """The data from which the sampling process builds its sampler.

    Attributes:
        model: name of the model. The first weight sync replaces the model's weights.
        policy: policy options without an adapter, since the adapter is merged into the synced weights.
        path: implementation of the forward pass (fused, packed or plain) that the parent process has selected.
        threads: number of PyTorch threads, which affects the last bits of results.
    """

    model: str
    policy: PolicyOptions
    seed: int
    path: ComputePath
    sample: SampleOptions
    threads: int


class SamplingProcess:
    """A sampler that forwards its calls to a :class:`outrider.sample.local.LocalSampler` in another process.

    Weights are passed through a folder, as for vLLM servers. The sampling process ends when its parent process ends.

    Args:
        on_main: function that runs another function on rank 0 and broadcasts the result. Every rank has its own
            sampling process.

    Raises:
        EngineLostError: the sampling process has died. Any method may raise this error.
        UserError: the sampler in the sampling process raised a UserError. Any method may pass this error on.
    """

    engines = 1
    gives_entropies = True

    def __init__(self, parts: SamplerParts, on_main: OnMain = lambda make: make()) -> None:
        self._weights = SyncedWeights(None, on_main)
        self.notices = [*self._weights.notices]
        self._channel, theirs = Pipe()
        search_path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # standard output belongs to the run
                env={**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": str(parts.threads)},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C goes only to the run
            )
        self._send(parts)  # the new process loads the model while this process continues

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        rollouts: list[Rollout] = self._ask("sample", requests)
        return rollouts

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Write the weights, wait until the sampling process has read them, and return the sampler's counters."""
        counts: dict[str, int] = self._ask("take", version, self._weights.write(export))
        return counts

    @contextmanager
    def keeping(self) -> Iterator[_Kept]:
        """See :class:`outrider.sample.sampler.Keeping`."""
        self._ask("keep")
        try:
            yield _Kept(self)
        finally:
            self._ask("forget")

    def close(self) -> None:
        """End the sampling process, even during sampling, and remove the weights of the last sync."""
        self._process.kill()
        self._process.wait()
        self._channel.close()
        self._weights.remove()

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._send((name, arguments))
        try:
            failed, answer = self._channel.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        if failed:
            raise answer
        return answer

    def _send(self, message: object) -> None:
        try:
            self._channel.send(message)
        except OSError as error:
            raise self._lost() from error

    def _lost(self) -> EngineLostError:
        return EngineLostError(f"the sampling process {how_it_ended(self._process.wait())}")


class _Kept(NamedTuple):
    """The KV caches that are kept in the sampling process (see :class:`outrider.sample.sampler.KeptRollouts`)."""

    process: SamplingProcess

    def drop(self, rollouts: Iterable[str]) -> None:
        self.process._ask("drop", list(rollouts))
