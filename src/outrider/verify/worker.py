"""The worker processes of :mod:`outrider.verify.pool`: ``python -m outrider.verify.worker CONTROL MEMORY_GB``.

A new process, the *template*, imports the verifier once and forks workers on request. Therefore, a new worker starts
within milliseconds, however long the imports took.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

from outrider.errors import UserError
from outrider.interrupts import end_with
from outrider.record import Outcome, Problem, Verdict
from outrider.verify.plain_verdict import plain_verdict, writable

Verify = Callable[[Problem, str, bool], Verdict]


def run_template(control: Connection, memory_gb: float) -> None:
    """Import the verifier, then fork and reap workers on request.

    The first message contains the verifier and the function that every worker runs, such as :func:`run_worker`. Every
    later message is a request. A request to fork consists of ``"fork"`` and a channel; the reply is a pid or a negative
    error number. A request to reap consists of a worker's pid; the reply is the worker's exit status.
    """
    try:
        serve, served = pickle.loads(control.recv_bytes())
    except BaseException as error:  # noqa: BLE001 - the parent raises it
        control.send((UserError, str(error)) if isinstance(error, UserError) else (RuntimeError, repr(error)))
        return
    control.send(None)
    while True:
        order = control.recv()
        if order != "fork":
            control.send(os.waitstatus_to_exitcode(os.waitpid(order, 0)[1]))
            continue
        channel = Connection(recv_handle(control))
        template = os.getpid()
        # forking is safe here, unlike in the run's process, since the template has one thread, no lock and no torch
        try:
            pid = os.fork()
        except OSError as error:
            channel.close()
            control.send(-(error.errno or 1))
            continue
        if pid == 0:
            os.setsid()  # a new process group, so that processes that the verifier starts can be killed too
            control.close()
            threading.Thread(target=end_with, args=(template,), daemon=True).start()
            serve(served, channel, memory_gb)
            return
        channel.close()
        control.send(pid)


def run_worker(verify: Verify, channel: Connection, memory_gb: float) -> None:
    """Receive lists of numbered items, confirm each list, and send each verdict as soon as it is known.

    A message consists of the worker's pid, the item's number or None, the verdict, and whether the worker can continue.
    """
    worker = os.getpid()
    # a process that the verifier forks must not be able to send verdicts
    os.register_at_fork(after_in_child=channel.close)
    limit_memory(memory_gb)
    usable = True
    while usable:
        items = channel.recv()
        channel.send((worker, None, None, True))
        for number, item in items:
            verdict, usable = verify_item(verify, item)
            if os.getpid() != worker:  # a process that the verifier has forked, and that returned here
                return
            channel.send((worker, number, verdict, usable))
            if not usable:
                break


def verify_item(verify: Verify, item: tuple[Problem, str, bool]) -> tuple[Verdict, bool]:
    """Verify one item. Return the verdict with its wall time, and whether this process is still usable.

    If ``verify`` raises an exception or returns anything but a verdict, the verdict is ``ERROR``, and its score is NaN,
    not 0. The verdict's fields are converted to plain data, so that they can be sent to the parent and written to disk.
    """
    start = time.perf_counter()
    usable = True
    try:
        verdict = plain_verdict(verify(*item))
    except BaseException as error:  # noqa: BLE001 - third-party code may even call sys.exit
        error.__traceback__ = None  # its frames keep the objects that used up the memory
        usable = not isinstance(error, MemoryError)
        verdict = Verdict(Outcome.ERROR, math.nan, detail=writable(f"{type(error).__name__}: {error}"[:500]))
    return replace(verdict, seconds=time.perf_counter() - start), usable


def limit_memory(gigabytes: float) -> None:
    """Limit the future growth of the address space to ``gigabytes`` GiB. Only Linux enforces the limit."""
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[0])
        limit = pages * resource.getpagesize() + int(gigabytes * 2**30)
        _, highest = resource.getrlimit(resource.RLIMIT_AS)
        if highest != resource.RLIM_INFINITY:
            limit = min(limit, highest)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    with contextlib.suppress(EOFError, ConnectionError):  # the other end is closed, so no work is left
        run_template(Connection(int(sys.argv[1])), float(sys.argv[2]))
    os._exit(0)  # without the exit handlers of third-party modules, which may hang
