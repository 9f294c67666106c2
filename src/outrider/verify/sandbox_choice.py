"""Chooses the method by which this machine creates sandboxes: the first method that passes every probe."""

from __future__ import annotations

import functools
import json
import os
import secrets
import shutil
import site
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from outrider.errors import UserError
from outrider.verify import probes
from outrider.verify.isolation import Isolation
from outrider.verify.sandbox import Limits, ProgramResult, Programs, Way, shown_and_hidden

WAYS: tuple[Way, ...] = ("bwrap", "namespaces")  # methods in the order in which they are tried
MOST_HIDDEN = 100  # maximum number of the user's files that a probe searches for
PROBE = Limits(seconds=20, processes=8, memory_gb=0.5, output_mb=1, scratch_mb=2, files=32)


def run(
    source: str, stdin: bytes = b"", limits: Limits | None = None, isolation: Isolation = "required"
) -> ProgramResult:
    """Run one untrusted Python program on one input.

    The program runs as ``__main__``, with only the standard library and with a fixed hash seed.

    Raises:
        TimeoutError: the time limit was reached because the machine was busy. The program and its processes have been
            killed.
        ProgramFaultError: the program itself reached the time limit.
        SandboxError: the sandbox failed.
        UserError: no sandbox works on this machine, and ``isolation`` is ``required``.

    >>> run("print(sum(map(int, input().split())))", b"1 2 3").stdout  # doctest: +SKIP
    b'6\\n'
    """
    with Programs(source, limits or Limits(), find_way(isolation)) as sandbox:
        return sandbox.run(stdin)


def find_way(isolation: Isolation = "required") -> Way:
    """Return the method by which this machine creates sandboxes. The method is found once per process, by probing a
    sandbox.

    Raises:
        UserError: no method works, and ``isolation`` is ``required``.
    """
    if isolation == "none":
        return "none"
    reasons = {}
    for way in WAYS:
        reasons[way] = why_not(way)
        if not reasons[way]:
            return way
    raise UserError(
        "this machine allows no sandbox, so untrusted programs are not run ("
        + "; ".join(f"{way}: {reason}" for way, reason in reasons.items())
        + "): install bubblewrap and allow user namespaces, or set sandbox: none to run them with the rights of "
        "this user"
    )


@functools.cache
def why_not(way: Way) -> str:
    """Return why a method does not work on this machine: an error, or a guarantee of the sandbox that the method does
    not keep. Return an empty text if the method works."""
    if sys.platform != "linux":
        return "needs Linux"
    if way == "bwrap" and not shutil.which("bwrap"):
        return "not installed"
    with outside(PROBE) as facts:
        try:
            with Programs(Path(probes.__file__).read_text("utf-8"), PROBE, way) as sandbox:
                finished = sandbox.run(json.dumps(facts).encode())
        except (OSError, RuntimeError, TimeoutError) as error:
            return str(error) or type(error).__name__
    if finished.stdout == b"kept\n":
        return ""
    lines = (finished.stdout or finished.stderr).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no answer, and status {finished.status}"


@contextmanager
def outside(limits: Limits, only: Sequence[str] = tuple(probes.PROBES)) -> Iterator[dict[str, Any]]:
    """Context manager that yields the input of the probes (tests of the sandbox): the limits, and the files, process
    and socket outside the sandbox that the probes try to reach."""
    name = f"\0outrider-{secrets.token_hex(8)}"  # abstract addresses are visible in the whole network namespace
    with tempfile.NamedTemporaryFile() as file, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        yield {
            "only": list(only),
            "verifier": os.getpid(),
            "hidden": [file.name, __file__, *site.getsitepackages([sys.base_prefix, sys.prefix]), *_at_home()],
            "listening": name,
            "scratch": limits.scratch_mb << 20,
            **limits.as_job("namespaces"),
        }


def _at_home() -> list[str]:
    """Return files and folders in the user's home folder, except those that the sandbox shows, such as a folder with
    Python."""
    shown = [Path(path) for path in (*shown_and_hidden()[0], "/tmp", "/dev")]
    with suppress(OSError, RuntimeError):  # the home folder does not exist or cannot be read
        entries = sorted(Path.home().iterdir())
        return [str(p) for p in entries if not any(s.is_relative_to(p) or p.is_relative_to(s) for s in shown)][
            :MOST_HIDDEN
        ]
    return []
