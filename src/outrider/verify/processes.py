"""The processes of a pool, seen from the run: the template that imports the verifier, and the workers it forks."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import sendfds
from signal import SIGKILL

from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict

Item = tuple[Problem, str, bool]  # a problem, the text of a response, whether the response finished

START_SECONDS = 120.0  # for imports, or until a worker takes its items: generous, as they wait for a busy machine


_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


class NoMoreProcessesError(UserError):
    """The system refuses another process, or a channel to one: no fault of what would have run there."""

    def __init__(self, why: str | None) -> None:
        files, processes = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
        most = "unlimited" if processes == resource.RLIM_INFINITY else str(processes)
        super().__init__(
            f"the system starts no further process ({why}; open files: ulimit -n is {files}, processes: ulimit -u is "
            f"{most}): raise what is short, or lower limits.max_concurrent or workers of the task"
        )


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Start a process.

    Raises:
        NoMoreProcessesError: the system refuses.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_MORE:
            raise NoMoreProcessesError(error.strerror) from error
        raise


class TemplateDiedError(Exception):
    """The template has ended or does not answer; its workers end without it."""


class TemplateProcess:
    """The process that imports the verifier and forks the workers.

    Raises:
        TemplateDiedError: in each method that sends it a request.
    """

    def __init__(self, payload: bytes, memory_gb: float) -> None:
        with starting():
            self.control, theirs = Pipe()
        search_path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        with theirs, starting():
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "outrider.verify.worker", str(theirs.fileno()), str(memory_gb)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # third-party verifiers print; standard output belongs to the run
                env={**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C goes to the run alone
            )
        self.ready = False
        with contextlib.suppress(ConnectionError):  # it died already: the first fork will say so
            self.control.send_bytes(payload)

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    def fork(self, channel: Connection) -> int:
        """The pid of a new worker at the other end of the channel.

        Raises:
            UserError, RuntimeError: the verifier cannot be loaded.
            NoMoreProcessesError: the system refuses one; the template goes on.
        """
        with starting():
            control = socket.fromfd(self.control.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
        with control, _request():
            if not self.ready:
                if not self.control.poll(START_SECONDS):
                    raise RuntimeError(f"the verifier is not imported after {START_SECONDS:g} s")
                failure = self.control.recv()
                if failure is not None:
                    kind, reason = failure
                    raise kind(f"the verifier cannot be loaded: {reason}")
                self.ready = True
            self.control.send("fork")
            sendfds(control, [channel.fileno()])
            answer = self._answer()
        if answer < 0:
            raise NoMoreProcessesError(os.strerror(-answer))
        return answer

    def reap(self, pid: int) -> int:
        """The exit status of a worker, which is taken off the process table."""
        with _request():
            self.control.send(pid)
            return self._answer()

    def kill(self) -> int:
        """End it, and return how it ended: minus a signal, or a status."""
        self.process.kill()
        self.control.close()
        return self.process.wait()

    def _answer(self) -> int:
        if not self.control.poll(START_SECONDS):
            raise EOFError
        answer: int = self.control.recv()
        return answer


@contextlib.contextmanager
def _request() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise TemplateDiedError from error


class Worker:
    """One worker process: its items, the deadline of the one in work, and whether it is still usable."""

    def __init__(self, template: TemplateProcess, seconds: float) -> None:
        self.template = template
        self.seconds = seconds
        self.usable = True
        self.proven = False  # has received a batch before
        self.started = False  # has received the present batch
        self.in_flight: deque[int] = deque()  # numbers of items; the first is the one in work
        self.deadline = math.inf
        with starting():
            self.channel, theirs = Pipe()
        with theirs:
            self.pid = template.fork(theirs)

    def submit(self, batch: dict[int, Item]) -> None:
        """Send items to be verified, by their number. The clock starts when the worker confirms them."""
        self.in_flight.extend(batch)
        self.started = False
        self.deadline = time.monotonic() + START_SECONDS
        with contextlib.suppress(ConnectionError):  # it died while idle: receive() finds its end
            self.channel.send(list(batch.items()))

    def receive(self) -> dict[int, Verdict]:
        """Read a message: the batch has arrived, a verdict, or the end of the worker."""
        # A message counts only from the worker itself and for the item in work: a process that the verifier forked, and
        # that returns from it, would go on to verify the next items.
        try:
            pid, number, verdict, fit = self.channel.recv()
        except Exception:  # noqa: BLE001 - its end, or bytes of another process, which may unpickle to anything
            status = self._retire()
            if self.proven and not self.started:
                return {}  # it died while idle; but one that never confirmed a batch may have died of its first item
            return self._failed(f"the worker died, with status {status}")
        if pid != self.pid:
            return {}
        if number is None:
            self.proven = self.started = True
            self.deadline = time.monotonic() + self.seconds
            return {}
        if not self.in_flight or number != self.in_flight[0]:
            self._retire()
            return self._failed("the worker verified another response than the one in work")
        if not fit:
            self._retire()
        return self._done(verdict)

    def time_out(self) -> dict[int, Verdict]:
        """The deadline has passed: the item in work is a timeout."""
        self._retire()
        return self._done(Verdict(Outcome.TIMEOUT, math.nan, self.seconds, detail=f"no verdict in {self.seconds:g} s"))

    def kill(self) -> None:
        for end in (os.killpg, os.kill):  # the second where it is so young that it has no group yet
            with contextlib.suppress(ProcessLookupError):
                end(self.pid, SIGKILL)

    def kill_orphan(self) -> None:
        """End it although its template is gone."""
        # A worker that has ended is no zombie any more, and its number may be another process's: only one whose channel
        # is still open may be killed.
        try:
            while self.channel.poll():
                self.channel.recv_bytes()
        except (EOFError, OSError):
            return
        self.kill()

    def _retire(self) -> int:
        if self.template.dead:
            raise TemplateDiedError  # without its parent the worker's number may already be another process's
        self.usable = False
        self.kill()
        return self.template.reap(self.pid)

    def _failed(self, why: str) -> dict[int, Verdict]:
        return self._done(Verdict(Outcome.ERROR, math.nan, detail=why))

    def _done(self, verdict: Verdict) -> dict[int, Verdict]:
        """The verdict of the item in work, if there is one; the clock of the next item starts."""
        done = {self.in_flight.popleft(): verdict} if self.in_flight else {}
        self.deadline = time.monotonic() + self.seconds if self.in_flight else math.inf
        return done
