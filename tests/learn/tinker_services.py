"""A SkyRL server of its own process, with the interpreter that ``OUTRIDER_SKYRL_PYTHON`` names."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

PYTHON = os.environ.get("OUTRIDER_SKYRL_PYTHON", "")
needs_skyrl = pytest.mark.skipif(not PYTHON, reason="OUTRIDER_SKYRL_PYTHON names no interpreter with SkyRL")

# It compiles anew for every other number of rows: rows come in multiples of ROWS, and sampling is filled up.
ROWS = 16
_BACKEND = {"max_lora_rank": 8, "sample_max_num_sequences": 64, "train_micro_batch_size": ROWS}
# the server reads, of the process that started it, the options of `uv run`, and starts its engine with them
_UV = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[sys.argv.index('-m'):]]))"


class SkyrlServer:
    """SkyRL's server on its JAX backend, on a CPU; ``folder`` keeps what a restart goes on from.

    A run has two ``adapters`` at a time, and a session that ended is forgotten after five minutes. On a CPU each place
    for one costs time, also where it is empty.
    """

    def __init__(self, model: str, folder: Path, adapters: int) -> None:
        self.model, self.folder, self._adapters = model, folder, adapters
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "host": "127.0.0.1",
            "port": str(self.port),
            "base-model": self.model,
            "backend": "jax",
            "checkpoints-base": str(self.folder / "checkpoints"),
            "database-url": f"sqlite:///{self.folder / 'tinker.db'}",
            "backend-config": json.dumps({**_BACKEND, "max_lora_adapters": self._adapters}),
        }
        beside = Path(PYTHON).parent  # where `uv` is, which the server calls
        environment = {**os.environ, "PATH": f"{beside}:{os.environ['PATH']}", "JAX_PLATFORMS": "cpu"}
        told = [word for name, value in options.items() for word in (f"--{name}", value)]
        command = [PYTHON, "-c", _UV, "--extra", "tinker", "--extra", "jax", "-m", "skyrl.tinker.api", *told]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def wait(self, seconds: float = 120.0) -> SkyrlServer:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.address}/api/v1/healthz", timeout=5).read()
                return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise AssertionError((self.folder / "server.log").read_text()[-2000:])

    def kill(self) -> None:
        """All of its processes, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
