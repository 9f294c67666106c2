"""Installs a system call filter for all processes in the sandbox, against attacks that namespaces do not prevent.

Namespaces do not prevent three attacks:

- Some address families ignore the network namespace: ``AF_VSOCK`` reaches the host of a virtual machine.
- Some calls let a process affect another process of the same user.
- In a container, a process in the sandbox could create new namespaces.

The filter is a classic BPF program that checks the number and arguments of each call (seccomp(2)). It cannot be
removed, and all descendants inherit it.
"""

from __future__ import annotations

import ctypes
import os

from outrider.verify.inside.namespaces import NO_NEW_PRIVILEGES, control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECCOMP, FILTER = 22, 2  # values for prctl(2)
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16  # byte offsets in the kernel's description of a call; an argument has 8 bytes
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NOT_PERMITTED, NO_SUCH_CALL, NO_SUCH_FAMILY = 1, 38, 97
OTHER_ABI = 0x40000000  # first number of the x32 calls, a second system call interface of x86-64
UNIX = 1  # the only address family that programs need, for asyncio and multiprocessing
NEW_NAMESPACES = 0x7E020000
# From outside, a process that waits in vfork cannot be distinguished from one that waits for a disk. Python's
# subprocess falls back to fork, so programs do not need vfork.
CLONE_VFORK, VFORK = 0x4000, 58  # the flag of clone, and the number of the call vfork, which only x86-64 has

# Calls that could attack the verifying process or the kernel, and that no program needs. The two numbers are for x86-64
# and for other machines.
REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "syslog": (103, 116),  # reads the kernel's log unless this is restricted
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),  # can open sockets without calls that the filter sees
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# Calls that a process may make only for itself, with the required value of each argument, keyed by position.
FOR_ITSELF: dict[str, tuple[int, int, Mapping[int, int]]] = {
    "prlimit64": (302, 261, {0: 0}),
    "sched_setparam": (142, 118, {0: 0}),
    "sched_setscheduler": (144, 119, {0: 0}),
    "sched_setattr": (314, 274, {0: 0}),
    "sched_setaffinity": (203, 122, {0: 0}),
    "setpriority": (141, 140, {0: 0, 1: 0}),
    "ioprio_set": (251, 30, {0: 1, 1: 0}),
}
SOCKETS = {"socket": (41, 198), "socketpair": (53, 199)}
CLONE, CLONE3 = (56, 220), (435, 435)
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "riscv64": (1, 0xC00000F3)}  # column, audit number


def install() -> None:
    """Install the filter for this process and its descendants.

    Raises:
        OSError: the kernel refuses the filter.
    """
    program = b"".join(assembled(os.uname().machine))
    # without this flag, the kernel accepts filters only from root
    control(NO_NEW_PRIVILEGES, 1)
    code = ctypes.create_string_buffer(program, len(program))
    described = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(code))
    try:
        control(SECCOMP, FILTER, ctypes.addressof(described))
    except OSError as error:
        raise OSError(error.errno, f"no filter of system calls: {error.strerror}") from None


def assembled(machine: str) -> Iterator[bytes]:
    """Yield the instructions of the filter for a machine type.

    Raises:
        OSError: the system call numbers of the machine type are not known.
    """
    if machine not in MACHINES:
        raise OSError(0, f"no filter of system calls for {machine}")
    column, audit = MACHINES[machine]
    # check the machine type first, since the numbers mean other calls on other machines
    yield from [_step(LOAD, MACHINE), _step(EQUAL, audit, 1, 0), _refuse(NOT_PERMITTED), _step(LOAD, NUMBER)]
    if machine == "x86_64":
        yield from [_step(AT_LEAST, OTHER_ABI, 0, 1), _refuse(NOT_PERMITTED)]
        yield from [_step(EQUAL, VFORK, 0, 1), _refuse(NOT_PERMITTED)]
    for numbers in REFUSED.values():
        yield from [_step(EQUAL, numbers[column], 0, 1), _refuse(NOT_PERMITTED)]
    for *pair, wanted in FOR_ITSELF.values():
        yield from _only(pair[column], wanted, NOT_PERMITTED)
    for numbers in SOCKETS.values():
        yield from _only(numbers[column], {0: UNIX}, NO_SUCH_FAMILY)
    refused = NEW_NAMESPACES | CLONE_VFORK
    flags = [_step(LOAD, ARGUMENTS), _step(ANY_BIT, refused, 0, 1), _refuse(NOT_PERMITTED), _step(RETURN, ALLOW)]
    yield from [_step(EQUAL, CLONE[column], 0, len(flags)), *flags]
    yield from [_step(EQUAL, CLONE3[column], 0, 1), _refuse(NO_SUCH_CALL)]  # its flags are in memory; libc falls back
    yield _step(RETURN, ALLOW)


def _only(number: int, wanted: Mapping[int, int], error: int) -> list[bytes]:
    """Return instructions that refuse the system call ``number`` unless the lower 32 bits of its arguments have the
    values in ``wanted``."""
    # a jump is a number of instructions to skip. The last comparison is followed by RETURN ALLOW and by the refusal
    steps: list[bytes] = []
    for left, (at, value) in zip(range(len(wanted) - 1, -1, -1), wanted.items(), strict=True):
        steps += [_step(LOAD, ARGUMENTS + 8 * at), _step(EQUAL, value, 0, 2 * left + 1)]
    steps += [_step(RETURN, ALLOW), _refuse(error)]
    return [_step(EQUAL, number, 0, len(steps)), *steps]


def _refuse(error: int) -> bytes:
    return _step(RETURN, REFUSE | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes([if_true, if_false]) + value.to_bytes(4, "little")
