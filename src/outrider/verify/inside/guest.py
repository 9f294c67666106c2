"""The first process inside the sandbox: it reads a job from a pipe, and starts the untrusted program as its child.

The child runs as the same user. Three things protect this process from the child: as process 1 it gets no signals from
inside, it cannot be traced or read (``DUMPABLE`` is 0), and there is no ``/proc``.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

from outrider.verify.inside import programs, seccomp, unit
from outrider.verify.inside.namespaces import DIE_WITH_PARENT, DUMPABLE, control, enter
from outrider.verify.inside.plain import Frames, Ignoring, loads


def main() -> None:
    """Serve one job. ``argv``: kind of sandbox, parent's pid, bytes of scratch space, visible paths, hidden paths."""
    way, parent, scratch, shown, hidden = sys.argv[1:]
    control(DIE_WITH_PARENT, signal.SIGKILL)
    if way != "bwrap" and os.getppid() != int(parent):
        return  # the parent had ended before DIE_WITH_PARENT was set
    if way == "namespaces":
        try:
            enter(shown.split(os.pathsep), hidden.split(os.pathsep) if hidden else [], int(scratch))
        except OSError as error:
            sys.exit(str(error.strerror or error))
    if way != "none":
        try:
            seccomp.install()
        except OSError as error:
            sys.exit(str(error.strerror))
    control(DUMPABLE, 0)
    sys.set_int_max_str_digits(0)  # programs and tests may write integers of any length; their CPU time is limited
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 ignores signals without a handler
    channel = Frames(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    # the channel uses copies of the descriptors, so that nothing printed by accident mixes with messages
    for standard in range(3):
        os.dup2(nothing, standard)
    program = None
    with Ignoring(EOFError):  # the other end has closed: no answer is needed
        job = loads(channel.receive())
        program = {"programs": programs.serve, "tests": unit.serve}[job["kind"]](channel, job)
    if program is not None:  # outside the block above, so that an EOFError of the program ends it like any other error
        programs.run_as_main(program)
