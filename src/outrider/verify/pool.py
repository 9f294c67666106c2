"""Verification in processes that can be killed: a hard time and memory limit around every verdict.

Why nothing simpler: an alarm signal works on the main thread only and does not interrupt C code; waiting for a thread
or a future ends the waiting, not the hang; ``multiprocessing`` imports the caller's main module, torch and all, into
every worker. The limits protect from hangs and growth. They are no sandbox for hostile code.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Pipe, wait
from signal import SIGKILL

from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict

Item = tuple[Problem, str, bool]  # a problem, the text of a response, whether the response finished
Verify = Callable[[Problem, str, bool], Verdict]

LARGEST_BATCH = 64  # items handed to a worker at once
START_SECONDS = 120.0  # for the imports of a worker, on a busy machine


class VerifierPool:
    """Worker processes that judge responses, each verdict within ``seconds`` and ``memory_gb``.

    A worker that hangs, outgrows its memory or dies is killed and replaced; only the verdict it was working on is
    lost, as ``TIMEOUT`` or ``ERROR`` with score NaN. An exception in ``verify`` is ``ERROR`` with its type and
    message. Workers stay warm between calls. Any thread may call; calls take turns.

    Args:
        verify: picklable, and not defined in ``__main__``. Unpickling it is the start-up of a worker and not under
            ``seconds``: the place for slow imports.
        workers: number of processes.
        seconds: wall-clock limit per verdict.
        memory_gb: GiB by which a worker's address space may grow after start-up. Enforced on Linux.

    Raises:
        UserError: ``verify`` is defined in ``__main__``, or raises one while it is unpickled in a worker.
        RuntimeError: a worker cannot start, or the pool is closed.
    """

    def __init__(self, verify: Verify, workers: int = 2, seconds: float = 5.0, memory_gb: float = 2.0) -> None:
        if getattr(verify, "__module__", None) == "__main__":
            raise UserError(f"move the verifier {verify!r} to a module: workers do not import the main script")
        self._payload = pickle.dumps(verify)
        self._seconds = seconds
        self._memory_gb = memory_gb
        self._turn = threading.Lock()
        self._workers = [self._start() for _ in range(workers)]

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers. A second time does nothing."""
        while self._workers:
            self._workers.pop().kill()

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in the order of the items."""
        with self._turn:
            if not self._workers:
                raise RuntimeError("this VerifierPool is closed")
            try:
                return self._judge(items)
            except BaseException:  # verdicts of an interrupted call are still under way; the next must not get them
                for slot in range(len(self._workers)):
                    self._replace(slot)
                raise

    def _judge(self, items: Sequence[Item]) -> list[Verdict]:
        verdicts: dict[int, Verdict] = {}
        waiting = deque(range(len(items)))
        while len(verdicts) < len(items):
            for worker in self._workers:
                if waiting and worker.idle:
                    size = min(LARGEST_BATCH, math.ceil(len(waiting) / (2 * len(self._workers))))
                    worker.hand({i: items[i] for i in (waiting.popleft() for _ in range(size))})
            ready = wait(
                [worker.channel for worker in self._workers],
                timeout=max(0.0, min(worker.deadline for worker in self._workers) - time.monotonic()),
            )
            for slot, worker in enumerate(self._workers):
                if worker.fit and worker.channel in ready:
                    verdicts.update(worker.receive())
                elif worker.fit and time.monotonic() >= worker.deadline:
                    verdicts.update(worker.give_up())
                if not worker.fit:
                    waiting.extendleft(reversed(worker.under_way))
                    self._replace(slot)
        return [verdicts[i] for i in range(len(items))]

    def _start(self) -> _Worker:
        return _Worker(self._payload, self._seconds, self._memory_gb)

    def _replace(self, slot: int) -> None:
        self._workers[slot].kill()
        self._workers[slot] = self._start()


class _Worker:
    """The parent's view of one worker process: what it works on, until when, and whether it is still of use."""

    def __init__(self, payload: bytes, seconds: float, memory_gb: float) -> None:
        self.seconds = seconds
        self.fit = True
        self.started = False
        self.under_way: deque[int] = deque()  # the first is the one in work
        self.deadline = time.monotonic() + START_SECONDS
        self.channel, theirs = Pipe()
        search_path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        arguments = [str(theirs.fileno()), str(os.getpid()), str(memory_gb)]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "outrider.verify.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # third-party verifiers print; standard output belongs to the run
            env={**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C goes to the parent alone, and a kill takes grandchildren along
        )
        theirs.close()
        with contextlib.suppress(ConnectionError):  # it died already: receive() will say so
            self.channel.send_bytes(payload)

    @property
    def idle(self) -> bool:
        return self.started and self.fit and not self.under_way

    def hand(self, batch: dict[int, Item]) -> None:
        """Send items for judgement, by their index. The clock of the first one starts."""
        self.under_way.extend(batch)
        self.deadline = time.monotonic() + self.seconds
        try:
            self.channel.send(list(batch.values()))
        except ConnectionError:
            self.fit = False  # it died while idle: none of the batch was begun

    def receive(self) -> dict[int, Verdict]:
        """Take one message off the channel: a verdict, a sign of life after start-up, or the end."""
        try:
            message = self.channel.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            return self._died()
        if self.started:
            verdict, self.fit = message
            done = {self.under_way.popleft(): verdict}
        elif message is None:
            self.started, done = True, {}
        else:
            kind, reason = message
            raise kind(f"a verifier worker cannot start: {reason}")
        self.deadline = time.monotonic() + self.seconds if self.under_way else math.inf
        return done

    def give_up(self) -> dict[int, Verdict]:
        """The deadline has passed: the verdict in work will not come."""
        self.fit = False
        if not self.started:
            raise RuntimeError(f"a verifier worker did not start within {START_SECONDS:g} s")
        return self._lost(Verdict(Outcome.TIMEOUT, math.nan, self.seconds, detail=f"no verdict in {self.seconds:g} s"))

    def _died(self) -> dict[int, Verdict]:
        self.fit = False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)  # the channel closes a moment before the status is known
        end = f"with status {self.process.poll()}"
        if not self.started:
            raise RuntimeError(f"a verifier worker died while starting, {end}")
        return self._lost(Verdict(Outcome.ERROR, math.nan, detail=f"the worker died, {end}"))

    def _lost(self, verdict: Verdict) -> dict[int, Verdict]:
        return {self.under_way.popleft(): verdict} if self.under_way else {}

    def kill(self) -> None:
        """End the process and all that it has started, and take it off the process table."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, SIGKILL)
        self.process.wait()
        self.channel.close()
