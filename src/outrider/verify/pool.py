"""Verifies responses in processes that can be killed, with hard limits on time and memory for every verdict.

The limits protect against hangs and memory growth, but not against hostile code, which needs a sandbox.
"""

# Simpler ways do not work. An alarm signal works only in the main thread and does not interrupt C code. A thread or
# future that hangs cannot be killed. multiprocessing imports the caller's main module, with torch, in every worker.

from __future__ import annotations

import math
import pickle
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait

from outrider.errors import UserError
from outrider.record import Outcome, Verdict
from outrider.verify.processes import Item as Item
from outrider.verify.processes import TemplateDiedError, TemplateProcess, Worker
from outrider.verify.worker import Verify, run_worker

LARGEST_BATCH = 64  # maximum number of items that are sent to a worker at once
MOST_DEATHS = 3  # an item that was in work at so many template deaths fails; without one in work, the call fails


class VerifierPool:
    """Verifies responses in worker processes. Each verdict is limited to ``seconds`` and ``memory_gb``.

    A worker that hangs, exceeds its memory limit or dies is replaced. Only the current verdict is lost: it becomes
    ``TIMEOUT`` or ``ERROR`` with score NaN. If ``verify`` raises an exception, the verdict is ``ERROR`` with the type
    and message of the exception. Workers stay alive between calls. Any thread may call the pool, but only one call runs
    at a time. The workers are forked from a template process. If the template process dies, for example because memory
    runs out, all processes are restarted, and the new workers verify the remaining items.

    Args:
        verify: a picklable callable that is not defined in ``__main__``. The callable is unpickled once, in the
            template process, without the time limit, so slow imports should happen during unpickling. Unpickling must
            not start threads.
        workers: number of worker processes.
        seconds: wall-clock limit per verdict.
        memory_gb: maximum growth of a worker's address space in GiB; only Linux enforces it.

    Raises:
        UserError: ``verify`` is defined in ``__main__``, or raises UserError when it is unpickled.
        RuntimeError: ``verify`` cannot be unpickled, the template process dies repeatedly, or the pool is closed.
    """

    def __init__(self, verify: Verify, workers: int = 2, seconds: float = 5.0, memory_gb: float = 2.0) -> None:
        if getattr(verify, "__module__", None) == "__main__":
            raise UserError(f"move the verifier {verify!r} to a module: workers do not import the main script")
        self._payload = pickle.dumps((run_worker, verify))
        self._size = workers
        self._seconds = seconds
        self._memory_gb = memory_gb
        self._turn = threading.Lock()
        self._workers: list[Worker] = []
        self._template: TemplateProcess | None = TemplateProcess(
            self._payload, memory_gb
        )  # imports run while the caller continues

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes. A second call does nothing."""
        with self._turn:
            self._size = 0
            self._end()

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per item, in the order of the items."""
        with self._turn:
            if not self._size:
                raise RuntimeError("this VerifierPool is closed")
            batch = _Batch(items)
            try:
                while True:
                    try:
                        template = self._begin()
                        while len(batch.verdicts) < len(items):
                            self._advance(batch, template)
                        return [batch.verdicts[i] for i in range(len(items))]
                    except TemplateDiedError:
                        workers = self._workers[:]
                        batch.drain(workers)
                        batch.requeue(workers, self._end())
            except BaseException:  # the next call must not receive verdicts of this interrupted call
                self._end()
                raise

    def _begin(self) -> TemplateProcess:
        """Start the template and all missing workers, and return the template."""
        self._template = self._template or TemplateProcess(self._payload, self._memory_gb)
        if self._template.dead:
            raise TemplateDiedError
        while len(self._workers) < self._size:
            self._workers.append(Worker(self._template, self._seconds))
        return self._template

    def _advance(self, batch: _Batch, template: TemplateProcess) -> None:
        """Send items to idle workers, wait for a message or a deadline, and handle it."""
        for worker in self._workers:
            in_flight = [i for other in self._workers for i in other.in_flight]
            if not worker.in_flight and (taken := batch.take(2 * len(self._workers), in_flight)):
                worker.submit(taken)
        deadline = min(worker.deadline for worker in self._workers)
        channels: list[object] = [template.control, *(worker.channel for worker in self._workers)]
        ready = wait(channels, timeout=max(0.0, deadline - time.monotonic()))  # type: ignore[arg-type]
        for slot, worker in enumerate(self._workers):
            if worker.channel in ready:
                batch.verdicts.update(worker.receive())
            elif time.monotonic() >= worker.deadline:
                batch.verdicts.update(worker.time_out())
            if not worker.usable:
                batch.waiting.extendleft(reversed(worker.in_flight))
                worker.in_flight.clear()
                self._workers[slot] = Worker(template, self._seconds)
        if template.control in ready:  # the template sends no message without a request, so its pipe has closed
            raise TemplateDiedError

    def _end(self) -> int:
        """End all processes and return the template's exit status."""
        dead = self._template is None or self._template.dead
        for worker in self._workers:
            if worker.usable:
                worker.kill_orphan() if dead else worker.kill()
        self._workers.clear()
        template, self._template = self._template, None
        return template.kill() if template else 0


class _Batch:
    """The items of one call, their verdicts, and the items that have not yet been sent to a worker."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.verdicts: dict[int, Verdict] = {}
        self.waiting = deque(range(len(items)))
        self._deaths = Counter[int]()  # for each item, how often the template died while the item was in work
        self._idle_deaths = 0  # number of consecutive deaths while no item was in work

    def take(self, shares: int, in_flight: Sequence[int]) -> dict[int, Item]:
        """Return the next items for a worker, keyed by item number; empty if the worker must wait."""
        # an item that was in work when the template died is verified alone, to find out whether it is the cause
        if any(self._deaths[i] for i in in_flight):
            return {}
        # batches become smaller towards the end, so that all workers finish at about the same time
        size = min(LARGEST_BATCH, math.ceil(len(self.waiting) / shares))
        taken: list[int] = []
        while len(taken) < size and not self._deaths[self.waiting[0]]:
            taken.append(self.waiting.popleft())
        if self.waiting and not taken and not in_flight:
            taken.append(self.waiting.popleft())
        return {i: self.items[i] for i in taken}

    def drain(self, workers: Sequence[Worker]) -> None:
        """Read the messages that workers sent before the template died."""
        for worker in workers:
            with suppress(TemplateDiedError):
                while worker.usable and worker.channel.poll():
                    self.verdicts.update(worker.receive())

    def requeue(self, workers: Sequence[Worker], status: int) -> None:
        """Put the unverified items back into the queue after the template and its workers have died.

        Raises:
            RuntimeError: the template died repeatedly while no item was being verified.
        """
        in_work = [worker.in_flight[0] for worker in workers if worker.started and worker.in_flight]
        for worker in workers:
            self.waiting.extendleft(reversed(worker.in_flight))
        self._deaths.update(in_work)
        for i in in_work:
            if self._deaths[i] == MOST_DEATHS:
                self.waiting.remove(i)
                why = f"the process that starts the verifiers died {MOST_DEATHS} times while this was verified"
                self.verdicts[i] = Verdict(Outcome.ERROR, math.nan, detail=why)
        self._idle_deaths = 0 if in_work else self._idle_deaths + 1
        if self._idle_deaths == MOST_DEATHS:
            raise RuntimeError(f"the process that imports the verifier died {MOST_DEATHS} times, with status {status}")
