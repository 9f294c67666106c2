"""Stops all ranks together, for runs in which no rank can save a checkpoint without the other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from outrider.interrupts import SafeStop, Terminated
from outrider.processes.ranks import Ranks


class AgreedStop(SafeStop):
    """Stops all ranks together, at the start or the end of an :meth:`allowed` block.

    Each rank saves a shard of the checkpoint. If one rank stopped within the block, all other ranks would wait for it.

    Args:
        heard: object that records whether this rank has received SIGTERM. All ranks stop if rank 0 has received it.
    """

    def __init__(self, heard: SafeStop, ranks: Ranks) -> None:
        super().__init__()
        self._heard, self._ranks = heard, ranks

    @contextmanager
    def allowed(self) -> Iterator[None]:
        self._agree()
        yield
        self._agree()

    def _agree(self) -> None:
        if self._ranks.from_main(lambda: self._heard.requested):
            raise Terminated
