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
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import send_handle
from signal import SIGKILL

from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict

Item = tuple[Problem, str, bool]  # a problem, the text of a response, whether the response finished
Verify = Callable[[Problem, str, bool], Verdict]

LARGEST_BATCH = 64  # items handed to a worker at once
START_SECONDS = 120.0  # for imports, or until a worker takes its items: generous, as they wait for a busy machine


class VerifierPool:
    """Worker processes that judge responses, each verdict within ``seconds`` and ``memory_gb``.

    A worker that hangs, outgrows its memory or dies is killed and replaced; only the verdict it was working on is
    lost, as ``TIMEOUT`` or ``ERROR`` with score NaN. An exception in ``verify`` is ``ERROR`` with its type and
    message. Workers stay warm between calls. Any thread may call; calls take turns.

    Args:
        verify: picklable, and not defined in ``__main__``. It is unpickled once, in the process that the workers are
            forked from, and not under ``seconds``: the place for slow imports. It must not start threads there.
        workers: number of processes.
        seconds: wall-clock limit per verdict.
        memory_gb: GiB by which a worker's address space may grow. Enforced on Linux.

    Raises:
        UserError: ``verify`` is defined in ``__main__``, or raises one while it is unpickled.
        RuntimeError: ``verify`` cannot be unpickled, or the pool is closed.
    """

    def __init__(self, verify: Verify, workers: int = 2, seconds: float = 5.0, memory_gb: float = 2.0) -> None:
        if getattr(verify, "__module__", None) == "__main__":
            raise UserError(f"move the verifier {verify!r} to a module: workers do not import the main script")
        self._payload = pickle.dumps(verify)
        self._size = workers
        self._seconds = seconds
        self._memory_gb = memory_gb
        self._turn = threading.Lock()
        self._workers: list[_Worker] = []
        self._template: _Template | None = _Template(self._payload, memory_gb)  # imports while the caller goes on

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes. A second time does nothing."""
        with self._turn:
            self._size = 0
            self._end()

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in the order of the items."""
        with self._turn:
            if not self._size:
                raise RuntimeError("this VerifierPool is closed")
            try:
                self._template = self._template or _Template(self._payload, self._memory_gb)
                while len(self._workers) < self._size:
                    self._workers.append(_Worker(self._template, self._seconds))
                return self._judge(items)
            except BaseException:  # verdicts of an interrupted call are still under way; the next must not get them
                self._end()
                raise

    def _judge(self, items: Sequence[Item]) -> list[Verdict]:
        verdicts: dict[int, Verdict] = {}
        waiting = deque(range(len(items)))
        while len(verdicts) < len(items):
            for worker in self._workers:
                if waiting and not worker.under_way:
                    size = min(LARGEST_BATCH, math.ceil(len(waiting) / (2 * len(self._workers))))
                    worker.hand({i: items[i] for i in (waiting.popleft() for _ in range(size))})
            deadline = min(worker.deadline for worker in self._workers)
            ready = wait([w.channel for w in self._workers], timeout=max(0.0, deadline - time.monotonic()))
            for slot, worker in enumerate(self._workers):
                if worker.fit and worker.channel in ready:
                    verdicts.update(worker.receive())
                elif worker.fit and time.monotonic() >= worker.deadline:
                    verdicts.update(worker.give_up())
                if not worker.fit:
                    waiting.extendleft(reversed(worker.under_way))
                    self._workers[slot] = _Worker(worker.template, self._seconds)
        return [verdicts[i] for i in range(len(items))]

    def _end(self) -> None:
        for worker in self._workers:
            if worker.fit:
                worker.kill()
        self._workers.clear()
        if self._template is not None:
            self._template.kill()
            self._template = None


class _Template:
    """The process that imports the verifier and forks the workers."""

    def __init__(self, payload: bytes, memory_gb: float) -> None:
        self.control, theirs = Pipe()
        search_path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "outrider.verify.worker", str(theirs.fileno()), str(memory_gb)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # third-party verifiers print; standard output belongs to the run
            env={**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C goes to the run alone
        )
        theirs.close()
        self.ready = False
        with contextlib.suppress(ConnectionError):  # it died already: the first fork will say so
            self.control.send_bytes(payload)

    def fork(self, channel: Connection) -> int:
        """The pid of a new worker at the other end of the channel."""
        if not self.ready:
            if not self.control.poll(START_SECONDS):
                raise RuntimeError(f"the verifier is not imported after {START_SECONDS:g} s")
            if (failure := self.control.recv()) is not None:
                kind, reason = failure
                raise kind(f"the verifier cannot be loaded: {reason}")
            self.ready = True
        self.control.send("fork")
        send_handle(self.control, channel.fileno(), self.process.pid)
        pid: int = self.control.recv()
        return pid

    def reap(self, pid: int) -> int:
        """The exit status of a worker, which is taken off the process table."""
        self.control.send(pid)
        status: int = self.control.recv()
        return status

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.control.close()


class _Worker:
    """One worker process: what it works on, until when, and whether it is still of use."""

    def __init__(self, template: _Template, seconds: float) -> None:
        self.template = template
        self.seconds = seconds
        self.fit = True
        self.proven = False  # has taken a batch before
        self.begun = False  # has taken the present one
        self.under_way: deque[int] = deque()  # indices of items; the first is the one in work
        self.deadline = math.inf
        self.channel, theirs = Pipe()
        self.pid = template.fork(theirs)
        theirs.close()

    def hand(self, batch: dict[int, Item]) -> None:
        """Send items for judgement, by their index. The clock starts when the worker says that it has them."""
        self.under_way.extend(batch)
        self.begun = False
        self.deadline = time.monotonic() + START_SECONDS
        with contextlib.suppress(ConnectionError):  # it died while idle: receive() finds its end
            self.channel.send(list(batch.values()))

    def receive(self) -> dict[int, Verdict]:
        """Take a message off the channel: the batch has arrived, a verdict, or the end of the worker."""
        try:
            message = self.channel.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            status = self._retire()
            if self.proven and not self.begun:
                return {}  # it died while idle. One that never took a batch may have died of it: that is a verdict
            return self._done(Verdict(Outcome.ERROR, math.nan, detail=f"the worker died, with status {status}"))
        if message is None:
            self.proven = self.begun = True
            self.deadline = time.monotonic() + self.seconds
            return {}
        verdict, fit = message
        if not fit:
            self._retire()
        return self._done(verdict)

    def give_up(self) -> dict[int, Verdict]:
        """The deadline has passed: the verdict in work will not come."""
        self._retire()
        return self._done(Verdict(Outcome.TIMEOUT, math.nan, self.seconds, detail=f"no verdict in {self.seconds:g} s"))

    def kill(self) -> None:
        for end in (os.killpg, os.kill):  # the second where it is so young that it has no group yet
            with contextlib.suppress(ProcessLookupError):
                end(self.pid, SIGKILL)

    def _retire(self) -> int:
        self.fit = False
        self.kill()
        return self.template.reap(self.pid)

    def _done(self, verdict: Verdict) -> dict[int, Verdict]:
        """The verdict of the item in work, if there is one. The clock of the next one starts."""
        done = {self.under_way.popleft(): verdict} if self.under_way else {}
        self.deadline = time.monotonic() + self.seconds if self.under_way else math.inf
        return done
