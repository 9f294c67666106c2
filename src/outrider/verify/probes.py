"""Tests the guarantees of the sandbox (``docs/sandbox.md``). Each probe attempts an action that one guarantee rules
out.

This module is a program that runs inside the sandbox. The input contains the sandbox's limits, and facts about the
machine outside the sandbox. The program prints the first guarantee that is broken, or ``kept`` if none is.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

ProbeFacts = dict[str, Any]

UNPRIVILEGED = 65534
SOCKET_KINDS = (1, 2, 3, 5)  # stream, datagram, raw, and sequenced-packet sockets
FAMILIES = 64  # number of address families to try, more than exist
CAPABILITIES, NO_NEW_PRIVILEGES = 0x20080522, 39
TRACE_ME, SEIZE, VFORK = 0, 0x4206, 0x4000
NEW_USERS, IO_URING_SETUP, READ_ALL = 1 << 28, 425, 3
MAIN_VARIABLES = {"PYTHONHASHSEED", "HOME", "LANG"}
MEBIBYTE = bytes(1 << 20)

_libc = ctypes.CDLL(None, use_errno=True)


def processes(facts: ProbeFacts) -> str:
    """Check that a program sees only its own processes."""
    if os.getpid() > 9 or _succeeds(os.kill, facts["verifier"], 0):
        return "its processes are those of the machine"
    return ""


def disk(facts: ProbeFacts) -> str:
    """Check that a program sees only Python and the C libraries, and writes only to ``/tmp``, up to a limit."""
    hidden = [*facts["hidden"], "/proc/1", "/sys/kernel", "/etc/passwd", "/var/tmp"]
    seen = [path for path in hidden if os.path.exists(path) and not (os.path.isdir(path) and not os.listdir(path))]
    folders = ["/", "/dev", os.path.dirname(os.__file__), os.path.dirname(os.path.realpath(sys.executable))]
    seen += [f"{folder} can be written to, which" for folder in folders if os.access(folder, os.W_OK)]
    if PathFinder.find_spec("outrider") or PathFinder.find_spec("pip"):
        seen.append("an installed package")
    room = facts["scratch"] // len(MEBIBYTE) + 1
    if all(_writes(f"/tmp/probe-{i}", MEBIBYTE) for i in range(room)):
        seen.append(f"/tmp holds more than {facts['scratch']} bytes, which")
    for i in range(room):
        _succeeds(os.unlink, f"/tmp/probe-{i}")
    return f"{seen[0]} can be seen" if seen else ""


def network(facts: ProbeFacts) -> str:
    """Check that a program can create only sockets that connect its own processes and reach no other process."""
    for family in range(FAMILIES):
        if family != socket.AF_UNIX and any(_succeeds(socket.socket, family, kind) for kind in SOCKET_KINDS):
            return f"sockets of the address family {family} can be made"
    if _succeeds(socket.socket(socket.AF_UNIX).connect, facts["listening"]):
        return "a socket of the machine can be reached"
    if _libc.syscall(IO_URING_SETUP, 8, ctypes.create_string_buffer(256)) >= 0:
        return "io_uring can be used, which opens sockets of every family"
    return ""


def rights(facts: ProbeFacts) -> str:
    """Check that a program runs as an unprivileged user, and can neither become another user nor create namespaces."""
    if {*os.getresuid(), *os.getresgid()} != {UNPRIVILEGED}:
        return "it is a user of the machine"
    held = (ctypes.c_uint32 * 6)()
    _libc.capget((ctypes.c_uint32 * 2)(CAPABILITIES, 0), held)
    if any(held) or _libc.prctl(NO_NEW_PRIVILEGES, 0, 0, 0, 0) != 1:
        return "it has capabilities, or can get some"
    if _succeeds(os.setuid, 0) or _libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0:
        return "it has rights of root"
    if _libc.klogctl(READ_ALL, ctypes.create_string_buffer(64), 64) >= 0:
        return "it can read the kernel's log"
    if _libc.unshare(NEW_USERS) == 0:
        return "it can make namespaces of its own"
    return ""


def tester(facts: ProbeFacts) -> str:
    """Check that a program cannot affect the process that verifies it."""
    verifier = os.getppid()
    if _succeeds(resource.prlimit, verifier, resource.RLIMIT_CPU):
        return "the limits of the testing process can be changed"
    if _succeeds(os.sched_setaffinity, verifier, os.sched_getaffinity(0)):
        return "the testing process can be moved to other cores"
    if _succeeds(os.setpriority, os.PRIO_PROCESS, verifier, 19):
        return "the testing process can be slowed down"
    if _libc.ptrace(SEIZE, verifier, 0, 0) == 0 or _libc.ptrace(TRACE_ME, 0, 0, 0) == 0:
        return "the testing process can be traced, or made to trace"
    # a process that waits in vfork looks like one that waits for a disk, and the timeout would not count as its fault
    if (child := _libc.syscall(56 if os.uname().machine == "x86_64" else 220, VFORK | signal.SIGCHLD, 0, 0, 0, 0)) == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        return "it can wait in vfork"
    return ""


def surroundings(facts: ProbeFacts) -> str:
    """Check that a program inherits only three environment variables and three descriptors, and that it cannot see the
    machine's host name."""
    if extra := set(os.environ) - MAIN_VARIABLES - {"PWD"}:
        return f"it has the variable {min(extra)}"
    if os.uname().nodename != "sandbox":
        return "it knows the name of the machine"
    if inherited := [fd for fd in range(3, 1024) if _succeeds(os.fstat, fd)]:
        return f"it has the descriptor {inherited[0]}"
    return ""


def cpu_time(facts: ProbeFacts) -> str:
    """Check that CPU time is limited."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    return "" if 0 < soft <= hard <= facts["cpu"] + 1 else "its CPU time is not limited"


def address_space(facts: ProbeFacts) -> str:
    """Check that the address space is limited."""
    return "its address space is not limited" if _succeeds(mmap.mmap, -1, facts["memory"]) else ""


def process_count(facts: ProbeFacts) -> str:
    """Check that the number of processes is limited."""
    (read, write), children = os.pipe(), 0
    try:
        while children < facts["processes"]:  # the program itself is one of the processes
            if os.fork() == 0:
                os.close(write)
                os.read(read, 1)  # wait until the first process has closed its end
                os._exit(0)
            children += 1
    except OSError:
        return ""
    finally:
        os.close(write)
        for _ in range(children):
            os.wait()
    return "the number of processes is not limited"


def output(facts: ProbeFacts) -> str:
    """Check that the size of a file is limited."""
    result = "" if not _writes("/tmp/probe", bytes(facts["file"] + 1)) else "the size of files is not limited"
    _succeeds(os.unlink, "/tmp/probe")
    return result


def open_files(facts: ProbeFacts) -> str:
    """Check that the number of open files is limited."""
    held: list[int] = []
    try:
        while len(held) < facts["files"]:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return ""
    finally:
        for fd in held:
            os.close(fd)
    return "the number of open files is not limited"


PROBES: dict[str, Callable[[ProbeFacts], str]] = {
    "processes": processes,
    "disk": disk,
    "network": network,
    "rights": rights,
    "testing process": tester,
    "environment, descriptors": surroundings,
    "CPU time": cpu_time,
    "address space": address_space,
    "processes and threads": process_count,
    "output, and each file": output,
    "open files": open_files,
}


def main() -> None:
    """Print the first broken guarantee, or ``kept``. The input's list ``only`` selects the guarantees to test."""
    facts = json.load(sys.stdin)
    for name in facts.get("only", PROBES):
        if result := PROBES[name](facts):
            sys.stdout.write(f"its promise is broken ({name}): {result}\n")
            return
    sys.stdout.write("kept\n")


def _succeeds(call: Callable[..., Any], *arguments: Any) -> bool:
    try:
        call(*arguments)
    except (OSError, ValueError, OverflowError, MemoryError):
        return False
    return True


def _writes(path: str, data: bytes) -> bool:
    try:
        with open(path, "wb", buffering=0) as file:
            return file.write(data) == len(data)
    except OSError:
        return False


if __name__ == "__main__":
    main()
