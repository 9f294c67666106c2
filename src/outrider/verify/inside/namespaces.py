"""Creates Linux namespaces with system calls only, for root and for ordinary users. Requires Linux 5.14 or later.

Inside the namespaces, the sandboxed process runs as the unprivileged user 65534. If root starts the sandbox, the
process has this user id outside the namespaces as well. If it were root outside, the limit on the number of processes
would have no effect, since the kernel exempts root from this limit.
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

UNPRIVILEGED = 65534
NEW_MOUNTS, NEW_HOST, NEW_IPC, NEW_USERS, NEW_PIDS, NEW_NET = 1 << 17, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30
NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18
READ_ONLY, AT_RECURSIVE, HERE = 1, 0x8000, -100
MOUNT_SETATTR = 442  # system call number on all supported architectures; older C libraries have no name for it
DETACH = 2
NO_NEW_PRIVILEGES, DIE_WITH_PARENT, DUMPABLE = 38, 1, 4
HOST = "sandbox"
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
STAGE = "/proc"  # the new root is built in this folder, which every machine has, and which contains no visible path

_libc = ctypes.CDLL(None, use_errno=True)


def enter(shown: Sequence[str], hidden: Sequence[str], scratch: int) -> None:
    """Create new namespaces, and return in the first process inside them. The calling process waits outside, and never
    returns.

    Inside the namespaces, there is no network and no other process. The only visible paths are ``shown``, read-only,
    and an empty ``/tmp`` of ``scratch`` bytes. If the waiting process receives SIGTERM or dies, all processes inside
    end. The waiting process ends when the first process has ended.

    Args:
        shown: absolute paths of files and folders, visible at the same paths; parents come before their contents.
        hidden: folders in ``shown`` that appear empty.
        scratch: size of ``/tmp`` in bytes.

    Raises:
        OSError: the machine does not allow namespaces; the message names the failed system call.
    """
    # block these signals until sigwait receives them, so that none is lost before the waiting process calls sigwait
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    _unshare()
    with Ignoring(OSError):  # seccomp forbids namespaces as well; in Docker, this file is read-only
        _write("/proc/sys/user/max_user_namespaces", "0")
    _call("sethostname", HOST.encode(), len(HOST))
    _write("/proc/self/oom_score_adj", "1000")  # if memory runs out, the kernel kills this process first
    _build_root(shown, hidden, scratch)
    alive, held = os.pipe()  # the waiting process keeps the other end open as long as it lives
    # the next child is process 1 of the new process namespace
    child = os.fork()
    if child:
        _wait_outside(child)
    os.close(held)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGCHLD})
    _drop_rights()
    control(DIE_WITH_PARENT, signal.SIGKILL)  # only now, since the kernel clears the setting when the user changes
    os.set_blocking(alive, False)
    with Ignoring(BlockingIOError):
        os.read(alive, 1)
        os._exit(1)  # end of file means that the waiting process has died; its pid cannot be seen from inside
    os.close(alive)


def control(option: int, value: int, more: int = 0) -> None:
    """Call ``prctl`` for this process.

    Raises:
        OSError: the kernel refuses the call.
    """
    _call("prctl", option, value, more, 0, 0)


def exit_at(number: int) -> None:
    """Let this process exit when it receives the signal ``number``, with ``number`` as its exit status."""
    # The handler is _exit of the C library. Process 1 ignores signals without a handler, and a handler in Python would
    # run only after the current call in C has ended.
    _libc.signal(ctypes.c_int(number), ctypes.cast(_libc._exit, ctypes.c_void_p))


def _call(name: str, *arguments: Any) -> None:
    function = getattr(_libc, name)
    typed = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if function(*typed) < 0:
        number = ctypes.get_errno()
        paths = " ".join(a.decode() for a in arguments if isinstance(a, bytes))
        raise OSError(number, f"{name} {paths}".strip() + f": {os.strerror(number)}")


def _unshare() -> None:
    """Create user, mount, process, network, IPC and host name namespaces. A helper process outside the namespaces
    writes the user mapping."""
    me, root = os.getpid(), os.getuid() == 0
    read, write = os.pipe()
    helper = os.fork()
    if helper == 0:
        status = 1
        with Ignoring(OSError):
            os.close(write)
            os.read(read, 1)  # returns when the parent has closed its end: the namespaces exist, or the parent has died
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
    # an ordinary user may write the map of groups only after setgroups is denied
    if not root:
        _write(f"/proc/{pid}/setgroups", "deny")
    for kind, own in (("uid_map", os.getuid()), ("gid_map", os.getgid())):
        _write(
            f"/proc/{pid}/{kind}", f"0 0 1\n{UNPRIVILEGED} {UNPRIVILEGED} 1\n" if root else f"{UNPRIVILEGED} {own} 1\n"
        )


def _build_root(shown: Sequence[str], hidden: Sequence[str], scratch: int) -> None:
    # without this, mounts inside would also appear outside
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
    # detach the old root: all files that are not shown become unreachable
    _call("umount2", b"/old", DETACH)
    os.rmdir("/old")
    _restrict("/", flags=0)
    os.chdir("/tmp")


def _show(path: str) -> None:
    """Bind-mount a file or folder, read-only, at its own path below ``STAGE``. A symbolic link stays a link."""
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
    """Make a mount read-only, and forbid devices and set-user-id programs on it."""
    # mount_setattr adds flags and keeps existing ones, whereas a remount by mount(2) would have to repeat locked flags
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY | NOSUID | NODEV, 0, 0, 0)
    _call("syscall", MOUNT_SETATTR, HERE & 0xFFFFFFFF, path.encode(), flags, attributes, ctypes.sizeof(attributes))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    _call("mount", *texts, flags, options.encode() if options is not None else None)


def _wait_outside(child: int) -> None:
    """Wait outside the namespaces until the process ``child`` ends, and exit with its status. ``child`` is process 1 of
    the process namespace, so the kernel then ends all processes inside."""
    os.closerange(0, 3)
    ended, status = 0, 0
    while not ended:  # a pending SIGCHLD may come from the helper process
        if signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGTERM:
            os.kill(child, signal.SIGKILL)
        ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)  # report signals in the same way as shells and bwrap


def _drop_rights() -> None:
    # change the group first, since an unprivileged user cannot change the group
    os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    _call("capset", header, (ctypes.c_uint32 * 6)())
    control(NO_NEW_PRIVILEGES, 1)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
