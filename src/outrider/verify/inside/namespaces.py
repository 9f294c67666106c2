"""Leaving the machine behind: namespaces of one's own, through the kernel's calls alone. Linux 5.14 and later.

For root and for ordinary users alike. The sandboxed process has user 65534 ("nobody") inside; outside that is the same
user where root started it, so that the limit of processes, which the kernel does not hold against root, applies.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import ctypes
import os

from outrider.verify.inside.plain import Ignoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

NOBODY = 65534
NEW_MOUNTS, NEW_HOST, NEW_IPC, NEW_USERS, NEW_PIDS, NEW_NET = 1 << 17, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30
NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18
READ_ONLY, AT_RECURSIVE, HERE = 1, 0x8000, -100
MOUNT_SETATTR = 442  # the same on every architecture that Python knows; older C libraries have no name for it
DETACH = 2
NO_NEW_PRIVILEGES, DIE_WITH_PARENT, DUMPABLE = 38, 1, 4
HOST = "sandbox"
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
STAGE = "/proc"  # the new root is built here: a folder of every machine, and nothing that is shown lies below it

_libc = ctypes.CDLL(None, use_errno=True)


def enter(shown: Sequence[str], hidden: Sequence[str], scratch: int) -> None:
    """Return in the first process of a new world; the caller stays behind, waits for it, and never returns.

    No network, no processes but one's own, an empty ``/tmp`` of ``scratch`` bytes, and read-only what is ``shown``.
    SIGTERM to the process that stays behind ends the new world, and it ends when the last of it is gone.

    Args:
        shown: absolute paths of files and folders, at the same path; parents before what lies below.
        hidden: folders in them that are shown empty.
        scratch: bytes.

    Raises:
        OSError: the machine does not allow it; the text names the call.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    _be_nobody_elses_child()
    with Ignoring(OSError):  # of use only against hostile use of the kernel; Docker has it read-only
        _write("/proc/sys/user/max_user_namespaces", "0")
    _call("sethostname", HOST.encode(), len(HOST))
    _write("/proc/self/oom_score_adj", "1000")  # where memory runs out, this goes first
    _build_root(shown, hidden, scratch)
    child = os.fork()
    if child:
        _stay_behind(child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGCHLD})
    _drop_rights()


def control(option: int, value: int, more: int = 0) -> None:
    """``prctl`` on this process.

    Raises:
        OSError: the kernel refuses.
    """
    _call("prctl", option, value, more, 0, 0)


def exit_at(number: int) -> None:
    """Have a signal end this process with its number as status, even process 1, whom it would not reach otherwise,
    and in the middle of a call in C, where Python's own handlers wait: the handler is the C library's ``_exit``."""
    _libc.signal(ctypes.c_int(number), ctypes.cast(_libc._exit, ctypes.c_void_p))


def _call(name: str, *arguments: Any) -> None:
    function = getattr(_libc, name)
    typed = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if function(*typed) < 0:
        number = ctypes.get_errno()
        paths = " ".join(a.decode() for a in arguments if isinstance(a, bytes))
        raise OSError(number, f"{name} {paths}".strip() + f": {os.strerror(number)}")


def _be_nobody_elses_child() -> None:
    """New namespaces of everything, with the right to shape them. The mapping of users is written from outside."""
    me, root = os.getpid(), os.getuid() == 0
    read, write = os.pipe()
    helper = os.fork()
    if helper == 0:
        status = 1
        with Ignoring(OSError):
            os.close(write)
            os.read(read, 1)  # ends when the namespaces are there, or the parent is not
            _map_users(me, root)
            status = 0
        os._exit(status)
    os.close(read)
    try:
        _call("unshare", NEW_USERS | NEW_MOUNTS | NEW_PIDS | NEW_NET | NEW_IPC | NEW_HOST)
    finally:
        os.close(write)
        _, status = os.waitpid(helper, 0)
    if status:
        raise OSError("writing the map of users: Operation not permitted")
    if root:
        os.setgroups([])


def _map_users(pid: int, root: bool) -> None:
    if not root:
        _write(f"/proc/{pid}/setgroups", "deny")
    for kind, own in (("uid_map", os.getuid()), ("gid_map", os.getgid())):
        _write(f"/proc/{pid}/{kind}", f"0 0 1\n{NOBODY} {NOBODY} 1\n" if root else f"{NOBODY} {own} 1\n")


def _build_root(shown: Sequence[str], hidden: Sequence[str], scratch: int) -> None:
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("tmpfs", STAGE, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    for path in (*shown, *DEVICES):
        _show(path)
    for path in hidden:
        _mount("tmpfs", STAGE + path, "tmpfs", NOSUID | NODEV, "size=4k,mode=755")
        _restrict(STAGE + path)
    os.makedirs(f"{STAGE}/tmp")
    _mount("tmpfs", f"{STAGE}/tmp", "tmpfs", NOSUID | NODEV, f"size={scratch},nr_inodes=10k,mode=1777")
    os.symlink("/tmp", f"{STAGE}/dev/shm")
    os.mkdir(f"{STAGE}/old")
    _call("pivot_root", STAGE.encode(), f"{STAGE}/old".encode())
    os.chdir("/")
    _call("umount2", b"/old", DETACH)
    os.rmdir("/old")
    _restrict("/", flags=0)
    os.chdir("/tmp")


def _show(path: str) -> None:
    """Bind a file or folder to its own path below the stage, read-only; a link stays a link."""
    inside = STAGE + path
    os.makedirs(os.path.dirname(inside), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), inside)
        return
    if os.path.isdir(path):
        os.makedirs(inside, exist_ok=True)
    else:
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY, 0o444))
    _mount(path, inside, None, BIND | RECURSIVE)
    if path not in DEVICES:
        _restrict(inside)


def _restrict(path: str, flags: int = AT_RECURSIVE) -> None:
    """Read-only, without devices and set-user-id programs, in one call that adds and never takes away."""
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY | NOSUID | NODEV, 0, 0, 0)
    _call("syscall", MOUNT_SETATTR, HERE & 0xFFFFFFFF, path.encode(), flags, attributes, ctypes.sizeof(attributes))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    _call("mount", *texts, flags, options.encode() if options is not None else None)


def _stay_behind(child: int) -> None:
    """Wait outside for the first process; with it all others of its world are gone. Never returns."""
    os.closerange(0, 3)
    ended, status = 0, 0
    while not ended:  # SIGCHLD may be another child's: that of the helper is still pending
        if signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGTERM:
            os.kill(child, signal.SIGKILL)
        ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)  # as shells and bwrap say it


def _drop_rights() -> None:
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    _call("capset", header, (ctypes.c_uint32 * 6)())
    control(NO_NEW_PRIVILEGES, 1)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
