"""A client of one vLLM server, for its OpenAI-compatible API and its development mode."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from outrider.errors import UserError

_STARTED = re.compile(r"^process_start_time_seconds\S* (\S+)$", re.MULTILINE)
_PAUSE = 0.2  # seconds between two attempts to clear a prefix cache that is in use


class ServerLostError(Exception):
    """Raised if a server does not answer in time. Its requests may be retried on another server."""


class Holding(NamedTuple):
    """Identifies the weights of a server.

    Attributes:
        start: start time of the server's process.
        claim: name of the last weight sync. A run recognises its own sync by this name. The name is empty if this
            version of vLLM does not store it.
    """

    start: str
    claim: str


class VllmServer:
    """A client of a server that was started with ``VLLM_SERVER_DEV_MODE=1``, as ``outrider serve`` does.

    Every thread has its own persistent connection.

    Args:
        address: address such as ``http://127.0.0.1:8000``.
        seconds: timeout per request in seconds.
    """

    def __init__(self, address: str, seconds: float) -> None:
        self.address, self.seconds = address.rstrip("/"), seconds
        self._place = urlsplit(self.address)
        self._threads = threading.local()
        self._connections: list[http.client.HTTPConnection] = []  # the connections of all threads
        self._closed = False
        self._base = self._adapter = ""  # names of the base model, and of the current adapter

    def open(self, context: int) -> None:
        """Read the model's name, and check the server's context length.

        Raises:
            UserError: no server answers, the server is not vLLM in development mode, or its context length is below
                ``context``.
        """
        try:
            [model, *_] = self.get("/v1/models")["data"]
            self.holding()
        except ServerLostError as error:
            raise UserError(f"engine.sampler: the vLLM server {self.address} does not answer ({error})") from error
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(f"engine.sampler: {self.address} answers, but not as a vLLM server does") from error
        self._base = str(model["id"])
        room = int(model.get("max_model_len") or 0)
        if room < context:
            raise UserError(
                f"engine.sampler: {self.address} has a context of {room} tokens, and the policy one of {context}; "
                f"start it with --max-model-len {context}"
            )

    @property
    def model(self) -> str:
        """The model name that a request must contain to use the weights of the last sync."""
        return self._adapter or self._base

    def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Request one completion. ``model`` in ``body`` is the name of the base model, or of an adapter that the server
        has loaded.

        Raises:
            ServerLostError: the server does not answer in time.
            UserError: the server rejects the request.
        """
        answer: dict[str, Any] = self.post("/v1/completions", body)
        return answer

    def reload(self, folder: Path) -> None:
        """Make the server load the weights of a folder, and drop the KV cache of the old weights.

        Raises:
            ServerLostError: the server does not answer in time.
            UserError: the server rejects the request, for example because it is not in development mode.
        """
        try:
            self.post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})
        except UserError as error:
            raise UserError(f"{error} (it needs VLLM_SERVER_DEV_MODE=1, which `outrider serve` sets)") from error
        self._unload()  # the loaded weights already include any adapter
        self.forget()

    def forget(self) -> None:
        """Clear the prefix cache, which holds KV caches of the previous weights.

        Raises:
            ServerLostError: the cache is still in use after the timeout.
        """
        end = time.monotonic() + self.seconds
        while isinstance(answer := self.post("/reset_prefix_cache", {}), Mapping) and answer.get("success") is False:
            if time.monotonic() > end:
                raise ServerLostError(
                    f"for {self.seconds:g} s (engine.sampler.vllm.seconds) it could not forget its cache of prefixes, "
                    "since requests of others were running"
                )
            time.sleep(_PAUSE)

    def load_adapter(self, folder: Path) -> None:
        """Replace the current adapter with the adapter in a folder. The folder's name becomes the adapter's name.

        Raises:
            ServerLostError: the server does not answer in time, or vLLM cannot load the adapter.
            UserError: the server does not accept adapters.
        """
        self._unload()
        body = {"lora_name": folder.name, "lora_path": str(folder)}
        self._ask("POST", "/v1/load_lora_adapter", json.dumps(body).encode())
        self._adapter = folder.name
        self.forget()

    def _unload(self) -> None:
        adapter, self._adapter = self._adapter, ""
        if adapter:
            with contextlib.suppress(UserError):  # a restarted server has no adapter
                self._ask("POST", "/v1/unload_lora_adapter", json.dumps({"lora_name": adapter}).encode())

    def claim(self, name: str) -> None:
        """Store the name of a weight sync on the server before the server's weights change, so that other runs notice
        the sync."""
        with contextlib.suppress(UserError):  # vLLM before 0.30 does not store a name
            self.post("/update_weight_version", {"new_version": name})

    def holding(self) -> Holding:
        """Return the start time of the server's process, and which weights it received last."""
        found = _STARTED.search(self._ask("GET", "/metrics", None).decode())
        if found is None:
            raise UserError(
                f"engine.sampler: {self.address} does not report its process, so a restart would go unnoticed; "
                "start it with one API process (--api-server-count 1)"
            )
        try:
            return Holding(found[1], str(self.get("/weight_info")["weight_version"]))
        except UserError:
            return Holding(found[1], "")

    def get(self, path: str) -> Any:
        """Send a GET request and return the JSON answer."""
        return json.loads(self._ask("GET", path, None))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a POST request with a JSON object and return the JSON answer, or None if the answer is empty."""
        answer = self._ask("POST", path, json.dumps(body).encode())
        return json.loads(answer) if answer else None

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        used = getattr(self._threads, "connection", None) is not None
        try:
            return self._answer(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self._hang_up()
            # servers close connections that are idle for a few seconds, which the client only notices at its next
            # request
            if used and not self._closed and isinstance(error, (ConnectionError, http.client.BadStatusLine)):
                return self._ask(method, path, body)
            if isinstance(error, TimeoutError) and error.errno is None:  # the client's timeout, not the OS's
                raise ServerLostError(f"no answer in {self.seconds:g} s (engine.sampler.vllm.seconds)") from error
            raise ServerLostError(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def _answer(self, method: str, path: str, body: bytes | None) -> bytes:
        connection = self._connection()
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        answer = response.read()
        if response.status >= 500:
            raise http.client.HTTPException(f"status {response.status}: {answer[:300].decode(errors='replace')}")
        if response.status >= 400:
            raise UserError(f"{self.address}{path} refuses: {_sentence(answer)}")
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        there: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if there is None or there.sock is None:  # no connection yet, or the server announced its end
            kind = http.client.HTTPSConnection if self._place.scheme == "https" else http.client.HTTPConnection
            there = self._threads.connection = kind(self._place.netloc, timeout=self.seconds)
            there.connect()
            self._connections.append(there)
            if self._closed:  # after the append, so that a concurrent `close` is never missed
                raise ConnectionAbortedError("closed")
        return there

    def close(self) -> None:
        """Close all connections, so that no thread keeps waiting for an answer."""
        self._closed = True
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # already closed
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _hang_up(self) -> None:
        if (there := getattr(self._threads, "connection", None)) is not None:
            there.close()
            with contextlib.suppress(ValueError):  # never opened
                self._connections.remove(there)
            self._threads.connection = None


def _sentence(answer: bytes) -> str:
    """Return the error message in a server's answer."""
    try:
        data = json.loads(answer)
        said = data.get("error", data)
        return str(said.get("message", said.get("detail", said)) if isinstance(said, dict) else said)[:300]
    except (ValueError, AttributeError):
        return answer[:300].decode(errors="replace")
