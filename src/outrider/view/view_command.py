"""The command that serves the viewer's pages until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from outrider.errors import UserError
from outrider.runs.bench_folder import is_bench, runs_of_bench
from outrider.runs.tokenizer import Locate
from outrider.view.opened_run import OpenedRun
from outrider.view.security import LOOPBACK

PORT = 8766


def view_command(
    paths: Sequence[Path],
    locate: Locate,
    port: int = PORT,
    host: str = "127.0.0.1",
    columns: Mapping[str, str] | None = None,
    say: Callable[[str], object] = print,
) -> int:
    """Serve the viewer's pages until Ctrl-C, and return 0. The viewer writes no files.

    Args:
        paths: run folders, other frameworks' rollout files, or folders of ``outrider bench``, whose runs are all
            served.
        locate: function that finds a model's tokenizer by the model's name.
        port: port to listen on; 0 selects any free port.
        host: address to listen on. For any address except localhost, requests need a token, which the command prints.
        columns: for other frameworks' files, the record field for each column; see :func:`outrider.importers.read`.
        say: function that prints messages.

    Raises:
        UserError: a run cannot be read, the extra `view` is missing, or the port is not available.
    """
    runs = opened(paths, columns, say)
    token = "" if host in LOOPBACK else secrets.token_urlsafe(16)
    with serving(runs, locate, port, host, token) as address:
        say(f"{address} shows {_named(runs)}; Ctrl-C ends it.")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            say("The viewer has ended.")
    return 0


def opened(
    paths: Sequence[Path], columns: Mapping[str, str] | None = None, say: Callable[[str], object] = print
) -> list[OpenedRun]:
    """Open run folders, other frameworks' files, and every run in a folder of ``outrider bench``. Report unreadable
    parts with ``say``.

    Raises:
        UserError: a run or file is completely unreadable.
    """
    runs = []
    for given in paths:
        for path in runs_of_bench(given) if is_bench(given) else [given]:
            say(f"Reading {path} …")
            runs.append(OpenedRun(path, columns))
            for notice in runs[-1].data.notices:
                say(notice)
    return runs


@contextmanager
def serving(
    runs: Sequence[OpenedRun],
    locate: Locate,
    port: int = PORT,
    host: str = "127.0.0.1",
    token: str = "",
) -> Iterator[str]:
    """Context manager that serves the pages in a thread and yields the viewer's address.

    Raises:
        UserError: the extra `view` is missing, or the port is not available.
    """
    try:
        import uvicorn

        from outrider.view.application import Application
    except ModuleNotFoundError as error:
        raise UserError(f"the viewer needs {error.name}: pip install 'outrider[view]'") from None
    bound = _bound(host, port)
    application = Application(runs, locate)
    threading.Thread(target=application.prepare, daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(application.app(token), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    shown = "localhost" if host in LOOPBACK else f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{bound.getsockname()[1]}/" + (f"?token={token}" if token else "")
    finally:
        server.should_exit = True
        thread.join(timeout=5)
        for run in runs:
            run.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot serve on port {port} of {host}: {reason}; choose another port with --port") from error
    return bound


def _named(runs: Sequence[OpenedRun]) -> str:
    rollouts = sum(run.count() for run in runs)
    names = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return f"{names}, {rollouts:,} rollouts"
