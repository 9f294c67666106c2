"""Executes ``outrider train`` for one run, in the run's own process. The process is pinned to one core, and is killed
if the bench dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait
from pathlib import Path

from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.interrupts import TERMINATED, Terminated
from outrider.processes.cores import pin
from outrider.processes.devices import RUNS_AT_ONCE
from outrider.record.disk import move

PRELOAD = ["outrider.commands.train_command", "outrider.screen.curves", "matplotlib.figure"]


def run_cell(
    core: int, at_once: int, recipe: str, overrides: tuple[str, ...], path: str, log: str, anew: bool = False
) -> None:
    """Start or resume the run, and exit the process with the status of ``outrider train``.

    If ``anew`` is true, the run starts from the beginning. ``at_once`` is the number of runs that share the machine's
    memory. All output is written to the file ``log``.
    """
    os.setpgid(0, 0)  # a separate process group: Ctrl-C reaches only the bench, which forwards one signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the fork server may ignore both signals
    _print_to(log)
    _end_with_parent()
    pin(core)
    os.environ[RUNS_AT_ONCE] = str(at_once)
    folder = Path(path)
    resume = (folder / "config.yaml").is_file() and not anew
    sys.argv = ["outrider", "train", recipe, *overrides, "--out", path, *(["--resume"] if resume else [])]
    print("$", *sys.argv, flush=True)  # noqa: T201 - first line of the log
    try:
        if folder.exists() and not resume:  # the run was killed early, or must start again
            move(folder, folder.parent / "superseded")
        from outrider.commands.train_command import train_command

        status = train_command(load_recipe(recipe, overrides), folder, resume=resume)
    except UserError as error:
        sys.stderr.write(f"outrider: {error}\n")
        status = 2
    except KeyboardInterrupt:
        status = 130
    except Terminated as stop:
        sys.stderr.write(f"outrider: {stop}\n")
        status = TERMINATED
    sys.exit(status)


def _print_to(log: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)


def _end_with_parent() -> None:
    """Kill this process when its parent process (``outrider bench``) ends. The next start of the bench resumes the
    run."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
