"""vLLM for tests: servers, where ``OUTRIDER_VLLM_PYTHON`` names an interpreter with vLLM, and what both kinds need."""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from outrider.processes.devices import driver_there

PYTHON = os.environ.get("OUTRIDER_VLLM_PYTHON", "")
needs_vllm = pytest.mark.skipif(not PYTHON, reason="OUTRIDER_VLLM_PYTHON names no interpreter with vLLM")
needs_vllm_here = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="this interpreter has no vLLM")

# What the CPU build of vLLM needs on a few cores. A block of 32 tokens, so that short prompts are cached. No prompt in
# chunks: where one is cut, vLLM takes back what its seeded generator drew, which none on a CPU can do, and dies.
ON_A_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
ARGUMENTS = ["--enforce-eager", "--block-size", "32", "--no-enable-chunked-prefill"]
if driver_there():  # two servers share the GPU, with an engine of the tests' own process that takes half of it
    ARGUMENTS = ["--enforce-eager", "--block-size", "32", "--gpu-memory-utilization", "0.15"]


@contextmanager
def on_a_cpu() -> Iterator[None]:
    """For an engine of this process."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in ON_A_CPU.items():
            environment.setenv(name, value)
        yield


class Server:
    """``outrider serve`` in a process of its own."""

    def __init__(self, model: str | Path, log: Path, arguments: Sequence[str] = ARGUMENTS, lora: int = 0) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self._log = f"http://127.0.0.1:{self.port}", log
        self._command = [sys.executable, "-m", "outrider", "serve", str(model), "--port", str(self.port)]
        self._command += ["--dtype", "float32", "--python", PYTHON, f"--vllm={shlex.join(arguments)}"]
        self._command += ["--lora", str(lora)] if lora else []
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, **ON_A_CPU, "HF_HUB_OFFLINE": "1"}
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def wait(self, seconds: float = 240.0) -> Server:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self._log.read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{self.address}/health", timeout=2).close()
                return self
            except OSError:
                time.sleep(0.2)
        raise AssertionError(self._log.read_text()[-3000:])

    def kill(self) -> None:
        """With all its processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
