"""What the process of ``test_memory.py`` does; a module of its own, because it imports it by name."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def measure(options: tuple[str, ...], out: Path) -> None:
    """One small case of ``benchmarks/memory.py``; what it prints goes to ``out``."""
    sys.path.insert(0, str(BENCHMARKS))
    import memory

    sizes = memory.Sizes(3, 384, 1024, 6, 2, 8000, True)
    options = ("learn.micro_tokens=1056", "sample.max_tokens=16", *options)
    case = memory.Case("", "qwen2", sizes, options, trained=4)
    with out.open("w") as file, redirect_stdout(file):
        memory.launch(1, memory.one, case)
