"""``outrider …`` in a process of its own, for tests that kill it, send it a signal or wait for its last words.

Most are forked from one process that has imported what a run needs, as a bench forks its runs: real in their process
and session ids, exit status and standard error. The interpreter's own start and end, and the ranks' share of a
terminal's signals, are left to those tests that take ``begun_by_the_interpreter``.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path

from outrider.bench.child import PRELOAD
from outrider.processes.warm import warm_processes
from runs import heed_ctrl_c

HANGS = 600.0
"""Seconds after which a process hangs, whatever else the machine is doing."""


def wait_until(condition: Callable[[], object], words: Callable[[], str] = str) -> None:
    """Wait until something is so; ``words`` are told if it never is."""
    deadline = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < deadline, f"not so after {HANGS} s: {words()[-2000:]}"
        time.sleep(0.005)


class Started:
    """A process that leads a session; its standard error is the file ``errors``."""

    def __init__(self, pid: int | None, poll: Callable[[], int | None], errors: Path) -> None:
        assert pid is not None
        self.pid, self.poll, self._errors = pid, poll, errors

    def wait(self) -> int:
        """Its exit status, once it has ended; -9 after ``kill -9``."""
        wait_until(lambda: self.poll() is not None, self.errors)
        status = self.poll()
        assert status is not None
        return status

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until something is so that this process brings about."""
        wait_until(lambda: self.poll() is not None or condition(), self.errors)
        assert self.poll() is None, f"it has ended: {self.errors()[-2000:]}"

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def errors(self) -> str:
        """What it has written to standard error so far."""
        return self._errors.read_text()

    def last_words(self) -> str:
        """The last line of standard error once it has ended; a traceback is none."""
        self.wait()
        assert "Traceback" not in self.errors(), self.errors()
        assert "Exception" not in self.errors(), self.errors()
        return self.errors().strip().splitlines()[-1]


def begun(words: Sequence[str], errors: Path, **environment: str) -> Started:
    """Forked from the process that has imported everything."""
    warm = warm_processes(*PRELOAD)
    process = warm.Process(target=_child, args=(list(words), errors, environment))
    process.start()
    return Started(process.pid, lambda: process.exitcode, errors)


def begun_by_the_interpreter(words: Sequence[str], errors: Path) -> Started:
    """As a shell does it, at seconds of imports for each."""
    command = [sys.executable, "-m", "outrider", *words]
    with errors.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True, preexec_fn=heed_ctrl_c
        )
    return Started(process.pid, process.poll, errors)


def _child(words: list[str], errors: Path, environment: dict[str, str]) -> None:
    if sys.version_info < (3, 14):  # what it starts is forked by the same server, as multiprocessing's documentation
        # says, and as CPython does not do by itself
        forkserver.ensure_running = forkserver._forkserver.ensure_running = lambda: None
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a server that a run of several ranks has started ignores it
    os.environ.update(environment)
    importlib.import_module("unpainted")
    for stream, path in ((1, Path(os.devnull)), (2, errors)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, stream)
        os.close(handle)
    sys.argv = ["outrider", *words]
    runpy.run_module("outrider", run_name="__main__", alter_sys=True)
