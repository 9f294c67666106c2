"""The first process inside the sandbox, which reads a job from a pipe and starts the untrusted program as a child.

The child runs as the same user as this process, but three facts prevent it from attacking this process. Process 1
receives no signals from inside the sandbox. Process 1 cannot be traced or read (``DUMPABLE`` is 0). There is no
``/proc``.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

from outrider.verify.inside import programs, seccomp, unit
from outrider.verify.inside.namespaces import DIE_WITH_PARENT, DUMPABLE, control, enter
from outrider.verify.inside.plain import Frames, Ignoring, loads


def main() -> None:
    """Run one job. ``argv`` lists the kind of sandbox, the parent's pid, the size of ``/tmp`` in bytes, and the visible
    and hidden paths."""
    way, parent, scratch, shown, hidden = sys.argv[1:]
    control(DIE_WITH_PARENT, signal.SIGKILL)
    if way != "bwrap" and os.getppid() != int(parent):
        return  # the parent ended before DIE_WITH_PARENT was set
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
    sys.set_int_max_str_digits(0)  # no limit on the digits of integers, since CPU time is limited
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 ignores signals without a handler
    channel = Frames(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    # the channel uses copies of the descriptors, so that text printed by accident does not mix with messages
    for standard in range(3):
        os.dup2(nothing, standard)
    program = None
    with Ignoring(EOFError):  # the other end has closed, so no reply is needed
        job = loads(channel.receive())
        program = {"programs": programs.serve, "tests": unit.serve}[job["kind"]](channel, job)
    if program is not None:  # outside the block above, so that an EOFError raised by the program is not suppressed
        programs.run_as_main(program)
