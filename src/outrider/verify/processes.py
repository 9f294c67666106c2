"""Starts and controls the processes of a verifier pool: a template process that imports the verifier, and worker
processes that are forked from it."""

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

START_SECONDS = 120.0  # time limit for imports, and until a worker receives its items; long, for busy machines


_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


class NoMoreProcessesError(UserError):
    """The system refuses to start a process or to open a channel to it. The code that the process runs did not cause
    the error."""

    def __init__(self, why: str | None) -> None:
        files, processes = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
        most = "unlimited" if processes == resource.RLIM_INFINITY else str(processes)
        super().__init__(
            f"the system starts no further process ({why}; open files: ulimit -n is {files}, processes: ulimit -u is "
            f"{most}): raise what is short, or lower limits.max_concurrent or workers of the task"
        )


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Context manager that raises a clear error if the system refuses to start a process.

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
    """The template (the process that forks the workers) has ended or does not answer. Its workers will end as well."""


class TemplateProcess:
    """The process that imports the verifier once, and forks the workers.

    Raises:
        TemplateDiedError: the template does not answer a request.
    """

    def __init__(self, payload: bytes, memory_gb: float) -> None:
        with starting():
            self.control, theirs = Pipe()
        search_path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        with theirs, starting():
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "outrider.verify.worker", str(theirs.fileno()), str(memory_gb)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # third-party verifiers may print, but standard output is for the run
                env={**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # so that Ctrl-C reaches only the run
            )
        self.ready = False
        with contextlib.suppress(ConnectionError):  # the template has already died, which the first fork reports
            self.control.send_bytes(payload)

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    def fork(self, channel: Connection) -> int:
        """Fork a worker that uses the other end of the channel, and return the worker's pid.

        Raises:
            UserError, RuntimeError: the verifier cannot be loaded.
            NoMoreProcessesError: the system refuses to start another process. The template continues to run.
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
        """Reap a worker and return its exit status."""
        with _request():
            self.control.send(pid)
            return self._answer()

    def kill(self) -> int:
        """Kill the template and return its exit status; a negative status is a signal's number."""
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
    """A worker process, with its items, the deadline of its current item, and whether the worker is still usable."""

    def __init__(self, template: TemplateProcess, seconds: float) -> None:
        self.template = template
        self.seconds = seconds
        self.usable = True
        self.proven = False  # whether the worker has ever received a batch
        self.started = False  # whether the worker has received the current batch
        self.in_flight: deque[int] = deque()  # numbers of the worker's items; the first item is in work
        self.deadline = math.inf
        with starting():
            self.channel, theirs = Pipe()
        with theirs:
            self.pid = template.fork(theirs)

    def submit(self, batch: dict[int, Item]) -> None:
        """Send numbered items to be verified. The time limit starts when the worker confirms that it received them."""
        self.in_flight.extend(batch)
        self.started = False
        self.deadline = time.monotonic() + START_SECONDS
        with contextlib.suppress(ConnectionError):  # the worker died while idle, which receive() will notice
            self.channel.send(list(batch.items()))

    def receive(self) -> dict[int, Verdict]:
        """Read one message (a batch's confirmation or a verdict), or notice that the worker has ended. Return finished
        verdicts."""
        # A message counts only if it comes from the worker itself and is about the item in work. If the verifier forks
        # a process that returns from the verifier, the process will go on and verify the next items as well.
        try:
            pid, number, verdict, fit = self.channel.recv()
        except Exception:  # noqa: BLE001 - end of file, or bytes of another process that unpickle to anything
            status = self._retire()
            if self.proven and not self.started:
                return {}  # it died while idle; in a worker that never confirmed a batch, an item may be the cause
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
        """Retire the worker after its deadline; the verdict on its current item is a timeout."""
        self._retire()
        return self._done(Verdict(Outcome.TIMEOUT, math.nan, self.seconds, detail=f"no verdict in {self.seconds:g} s"))

    def kill(self) -> None:
        for end in (os.killpg, os.kill):  # os.kill is needed if the worker has not created its group yet
            with contextlib.suppress(ProcessLookupError):
                end(self.pid, SIGKILL)

    def kill_orphan(self) -> None:
        """Kill the worker of a template that has died."""
        # Without the template, a dead worker is not a zombie, and its pid may belong to another process. So only a
        # worker whose channel is still open may be killed.
        try:
            while self.channel.poll():
                self.channel.recv_bytes()
        except (EOFError, OSError):
            return
        self.kill()

    def _retire(self) -> int:
        if self.template.dead:
            raise TemplateDiedError  # without the parent, another process may already have the worker's pid
        self.usable = False
        self.kill()
        return self.template.reap(self.pid)

    def _failed(self, why: str) -> dict[int, Verdict]:
        return self._done(Verdict(Outcome.ERROR, math.nan, detail=why))

    def _done(self, verdict: Verdict) -> dict[int, Verdict]:
        """Return the verdict on the current item, if any, and start the time limit of the next item."""
        done = {self.in_flight.popleft(): verdict} if self.in_flight else {}
        self.deadline = time.monotonic() + self.seconds if self.in_flight else math.inf
        return done
