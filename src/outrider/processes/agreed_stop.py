"""A coordinated stop of all ranks, for runs in which ranks can only save together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from outrider.interrupts import SafeStop, Terminated
from outrider.processes.ranks import Ranks


class AgreedStop(SafeStop):
    """Stops all ranks at the same point: the start or end of an interruptible phase.

    Each rank saves a shard of the checkpoint, so if one rank stopped within a phase, the other ranks would wait for it.

    Args:
        heard: recorder of SIGTERM on this rank; only the recorder of rank 0 decides whether to stop.
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
