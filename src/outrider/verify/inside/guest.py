"""The first process inside the sandbox: it takes a job over a pipe, and starts the untrusted program as its child.

The child has the same user, so what protects this process from it is that it is process 1, whom no signal from inside
reaches, that the kernel lets nobody trace it or read its memory, and that there is no ``/proc``.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

from outrider.verify.inside import programs, seccomp, unit
from outrider.verify.inside.namespaces import DIE_WITH_PARENT, DUMPABLE, control, enter
from outrider.verify.inside.plain import Frames, Ignoring, loads


def main() -> None:
    """``argv``: the way in, the pid of the parent, bytes of scratch space, paths to show, paths to hide."""
    way, parent, scratch, shown, hidden = sys.argv[1:]
    control(DIE_WITH_PARENT, signal.SIGKILL)
    if way != "bwrap" and os.getppid() != int(parent):
        return  # the parent was gone before it could take this process along
    if way == "namespaces":
        try:
            enter(shown.split(os.pathsep), hidden.split(os.pathsep) if hidden else [], int(scratch))
        except OSError as error:
            sys.exit(str(error.strerror or error))
        control(DIE_WITH_PARENT, signal.SIGKILL)  # forgotten with the change of user
    if way != "none":
        try:
            seccomp.install()
        except OSError as error:
            sys.exit(str(error.strerror))
    control(DUMPABLE, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as process 1: ignored
    channel = Frames(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    with Ignoring(EOFError):  # nobody waits for an answer any more
        job = loads(channel.receive())
        {"programs": programs.serve, "tests": unit.serve}[job["kind"]](channel, job)
