"""Serves a live report, on localhost only, and rebuilds the report when the run has new data."""

from __future__ import annotations

import hashlib
import json
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from outrider.errors import UserError

PORT = 8765
LOOK = 1.0  # seconds between checks of the folders
REST = 4.0  # pause after each build, as a multiple of the build's duration, so that the run keeps 4/5 of a core

Files = dict[str, tuple[int, int]]


def watch(
    make: Callable[[], str], folders: Sequence[Path], port: int = PORT, say: Callable[[str], object] = print
) -> None:
    """Serve a page on localhost until Ctrl-C, and rebuild it when a file in ``folders`` has changed.

    An open page loads a newer version automatically (page/live.js). The page is rebuilt only while it is open and
    visible. If a rebuild fails because of the user's files (for example, a moved run folder), the server keeps the
    previous page, which then also shows the error. Rollouts may be private, so the server rejects requests from other
    machines, and requests whose host name is neither ``localhost`` nor ``127.0.0.1``.

    Args:
        make: function that returns the page as HTML. The function must not write into ``folders``, since writing there
            would trigger another rebuild.
        folders: run folders or single files. Hidden files are ignored, since unfinished files have hidden names.
        port: port to listen on, or 0 for any free port.
        say: function that prints the page's address, and a message when serving ends.

    Raises:
        UserError: the port is not available, or the first page cannot be built.
    """
    served = Served()
    with serving(served, port) as address:
        try:
            seen = files_in(folders)
            served.take(make())
            say(f"The report is at {address} and is updated with the run; press Ctrl-C to stop.")
            while True:
                seen = _follow(make, folders, served, seen)
        except KeyboardInterrupt:
            say("Stopped serving the report; the run continues.")


@dataclass
class Served:
    """The current page, shared with the threads that answer requests.

    Attributes:
        version: hash of the page. An open page polls the version, and loads the new page when the version has changed.
        error: the reason why the latest rebuild failed, or "" if it succeeded.
        visited: event that is set whenever an open page polls the version.
    """

    html: bytes = b""
    version: str = ""
    error: str = ""
    visited: threading.Event = field(default_factory=threading.Event)

    def take(self, html: str) -> None:
        """Serve the page ``html`` from now on. The page contains its version, which page/live.js reads."""
        self.version = hashlib.sha256(html.encode()).hexdigest()[:12]
        self.html = html.replace("<html ", f'<html data-version="{self.version}" ', 1).encode()
        self.error = ""


@contextmanager
def serving(served: Served, port: int) -> Iterator[str]:
    """Context manager that answers requests in threads and yields the page's address.

    Raises:
        UserError: the port is not available.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(served))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot serve the report on port {port}: {reason}; choose another port with --port."
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def files_in(folders: Sequence[Path]) -> Files:
    """Return the size and modification time of every visible file by path. ``folders`` may also contain single
    files."""
    results = {}
    for folder in folders:
        for path in (folder, *folder.rglob("[!.]*")):
            with suppress(FileNotFoundError):  # the file was replaced after it was listed
                now = path.stat()
                if stat.S_ISREG(now.st_mode):
                    results[str(path)] = (now.st_size, now.st_mtime_ns)
    return results


def _follow(make: Callable[[], str], folders: Sequence[Path], served: Served, seen: Files) -> Files:
    """Wait until a page is open, rebuild it if the folders have changed, and return the folders' state."""
    while not served.visited.wait(LOOK):
        pass
    served.visited.clear()
    time.sleep(LOOK)
    now = files_in(folders)
    if now != seen:
        began = time.monotonic()
        try:
            served.take(make())
        except UserError as error:
            served.error = str(error)
        # a large report must not take the cores from the run that it follows
        time.sleep(REST * (time.monotonic() - began))
    return now


def _handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # a page of another site could point its own host name at this address (DNS rebinding) and read the rollouts
            if self.headers.get("Host", "").rpartition(":")[0] not in ("localhost", "127.0.0.1"):
                self._answer(403, "text/plain", b"This report is served to its own machine only.")
                return
            match urlsplit(self.path).path:
                case "/":
                    self._answer(200, "text/html; charset=utf-8", served.html)
                case "/version":
                    served.visited.set()
                    news = {"version": served.version, "error": served.error}
                    self._answer(200, "application/json", json.dumps(news).encode())
                case _:
                    self._answer(404, "text/plain", b"Not found; the report is at /.")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            with suppress(ConnectionError):  # the client disconnected
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
