"""What every benchmark here shares: paired runs, the machine's own rate, and where results go."""

from __future__ import annotations

import ctypes
import datetime
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import outrider
from outrider.model.load import Policy, load_policy
from outrider.record import SampleRequest
from outrider.tasks.countdown import Countdown

RESULTS = Path(__file__).parent / "results"
PAIRS = 5
MAX_TOKENS = 96


def rates(first: Callable[[], int], second: Callable[[], int], pairs: int = PAIRS) -> tuple[list[float], list[float]]:
    """Units per second of two functions that return what they did, run in turn: a slow minute hits both."""
    found: tuple[list[float], list[float]] = ([], [])
    for function in (first, second):
        function()  # warm-up
    for _ in range(pairs):
        for function, rates_ in zip((first, second), found, strict=True):
            start = time.perf_counter()
            done = function()
            rates_.append(done / (time.perf_counter() - start))
    return found


def ratio(first: list[float], second: list[float]) -> dict[str, float]:
    """The ratio pair by pair: median, least and most."""
    pairs = [a / b for a, b in zip(first, second, strict=True)]
    return {"median": statistics.median(pairs), "min": min(pairs), "max": max(pairs)}


def sgemm(size: int = 1024, seconds: float = 1.0) -> float:
    """Floating-point operations per second of a square single-precision product, at the present thread count."""
    a = torch.randn(size, size)
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        a @ a
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best


def operations(run: Callable[[], object]) -> dict[str, float]:
    """Share of the time that each of the ten largest operations takes itself, by PyTorch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        run()
    events = sorted(found.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return {event.key: round(event.self_cpu_time_total / total, 3) for event in events[:10]}


def requests(policy: Policy, problems: int, n: int) -> list[SampleRequest]:
    """Held-out problems of the embedded task, all sizes in turn."""
    return [
        SampleRequest(p, n=n, prompt_ids=policy.encode(p), group_id=f"bench:{p.id}")
        for p in Countdown().heldout(problems)
    ]


def base() -> Policy:
    return load_policy("base:countdown")


def keep(name: str, numbers: dict[str, object], show: bool = True) -> None:
    """Write the numbers to ``benchmarks/results/<name>.json`` with what they were measured on, and print them."""
    about = {
        "command": f"python benchmarks/{Path(sys.argv[0]).name}",
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "outrider": outrider.__version__,
        },
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({**numbers, "about": about}, indent=1, default=_rounded)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    if show:
        print(text)


def status(key: str) -> float:
    """Megabytes of a line of the process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def trimmed() -> float:
    """Resident megabytes without what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return status("VmRSS")


def forget_the_peak() -> None:
    """The largest resident size, ``status("VmHWM")``, is from now on that of what follows."""
    Path("/proc/self/clear_refs").write_text("5")


def rounded(values: dict[str, float], digits: int = 3) -> dict[str, float]:
    return {key: round(value, digits) for key, value in values.items()}


def _rounded(value: object) -> object:
    raise TypeError(f"{value!r} is no plain number")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
