"""A small run on disk, and other processes, for tests of what a run leaves behind."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from outrider.record import Rollout
from outrider.runs.folder import RunFolder

CONFIG = {"seed": 0, "explore": [{"uniform": {"n": 8}}]}


def rollout(step: int) -> Rollout:
    ids = np.array([1, 2], np.int32)
    return Rollout("p", f"train:{step}:p", 0, ids, ids, np.array([-1.0, -2.0], np.float32), ids[:0])


def run_of(path: Path, steps: int) -> RunFolder:
    run = RunFolder.create(path, CONFIG)
    for step in range(1, steps + 1):
        run.rollouts.write(step, [rollout(step)])
        run.append_metrics(step, {"reward": step / 8})
        run.append_timing(step, {"seconds": 0.5})
    return run


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """The system refuses to write beyond so many bytes of any file, as a full disk does: real writes that fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def heed_ctrl_c() -> None:
    """For ``preexec_fn``: a process started in the background of a script ignores Ctrl-C, and so do its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
