"""The child process that :mod:`outrider.sample.sampling_process` starts with the command ``python -m
outrider.sample.sampling_worker CHANNEL``."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from outrider.errors import portable
from outrider.interrupts import end_with
from outrider.model.load import load_policy
from outrider.model.weights_file import WEIGHTS
from outrider.record import Rollout, SampleRequest
from outrider.sample.kept import Kept
from outrider.sample.local import LocalSampler
from outrider.sample.ready import on_path
from outrider.sample.sampling_process import SamplerParts


class _Worker:
    """Wraps the sampler of this process. The parent process calls the methods of this class by name."""

    def __init__(self, parts: SamplerParts) -> None:
        torch.set_num_threads(parts.threads)
        policy = on_path(load_policy(parts.model, parts.policy, parts.seed), parts.path)
        self._model, self._sampler = policy.model, LocalSampler(policy, parts.sample)
        self._kept: Kept | None = None
        self._keeping = ExitStack()

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        return self._sampler.sample(requests)

    def take(self, version: int, folder: Path) -> dict[str, int]:
        self._model.load_state_dict(load_file(folder / WEIGHTS))
        return self._sampler.take(version, lambda folder: None)

    def keep(self) -> None:
        self._kept = self._keeping.enter_context(self._sampler.keeping())

    def drop(self, rollouts: Iterable[str]) -> None:
        assert self._kept is not None
        self._kept.drop(rollouts)

    def forget(self) -> None:
        self._keeping.close()


def serve(channel: Connection) -> None:
    """Receive the data for building a sampler, and then names of the sampler's methods, each with arguments. Answer
    each method name with ``(failed, result or exception)``."""
    failed, worker = _attempted(_Worker, channel.recv())
    while True:
        name, arguments = channel.recv()
        channel.send((True, worker) if failed else _attempted(getattr(worker, name), *arguments))


def _attempted(call: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Return (False, result) if the call succeeds, and (True, exception) otherwise. The parent process raises the
    exception."""
    try:
        return False, call(*arguments)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        return True, portable(error)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):  # the other end is closed: nothing is left to do
        serve(Connection(int(sys.argv[1])))
    os._exit(0)
