"""Are the reference solutions of HumanEval and MBPP accepted, how many verdicts a second, and what does a sandbox cost?

Usage: ``python benchmarks/programs.py``, with the sets in ``../shared/data``. Writes ``results/programs.json``. One
sandbox per verdict, two verifying processes. ``overhead`` compares starting Python with nothing to do, a program
without isolation, and one in a sandbox: wall time as the caller sees it, and the CPU time of all their processes.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from _machine import keep, rounded

from outrider.record import Problem
from outrider.verify.code import UnitTests
from outrider.verify.pool import VerifierPool
from outrider.verify.sandbox import PYTHON, Limits, Programs, Way
from outrider.verify.sandbox_choice import find_way
from outrider.verify.verifier import Prepared

DATA = Path(__file__).parents[2] / "shared" / "data"
WORKERS = 2
RUNS = 40
SETS = {
    "humaneval/test.jsonl": UnitTests(prefix="problem", entry_point="entry_point", code="completion"),
    "mbpp/all.jsonl": UnitTests(tests="test_list", setup="test_setup_code"),
    "mbpp_sanitized/all.jsonl": UnitTests(prefix="problem", entry_point="entry_point"),
}


def accepted(name: str, verifier: UnitTests) -> dict[str, object]:
    """Verdicts on a set's own solutions, and those that were not accepted with the reason."""
    problems = []
    for line in (DATA / name).read_text().splitlines():
        row = json.loads(line)
        problems.append(Problem(row["id"], "", verifier.reference(row, "answer")))
    items = [(problem, verifier.right(problem) or "", True) for problem in problems]
    with VerifierPool(Prepared(verifier), WORKERS, verifier.seconds, verifier.memory_gb) as pool:
        pool.verify(items[:WORKERS])  # the processes are there before the clock starts
        start = time.perf_counter()
        verdicts = pool.verify(items)
        seconds = time.perf_counter() - start
    return {
        "rows": len(items),
        "accepted": sum(verdict.success for verdict in verdicts),
        "verdicts_per_second": round(len(items) / seconds, 1),
        "seconds_of_a_verdict": rounded(_spread([v.seconds for v in verdicts])),
        "rejected": {
            p.id: f"{v.outcome}: {v.detail}" for p, v in zip(problems, verdicts, strict=True) if not v.success
        },
    }


def cost(run: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of wall and CPU time of something that starts processes."""
    walls = []
    before = _cpu_of_children()
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        walls.append(1000 * (time.perf_counter() - start))
    return rounded({**_spread(walls), "cpu": 1000 * (_cpu_of_children() - before) / RUNS}, 1)


def in_sandbox(way: Way) -> None:
    with Programs("print(input())", Limits(), way) as sandbox:
        assert sandbox.run(b"1").stdout == b"1\n"


def main() -> None:
    way = find_way()
    overhead = {
        "python": cost(lambda: subprocess.run([PYTHON, "-s", "-S", "-c", "pass"], env={}, check=True)),
        "none": cost(lambda: in_sandbox("none")),
        way: cost(lambda: in_sandbox(way)),
    }
    keep(
        "programs", {"workers": WORKERS, "overhead_ms": overhead, "sets": {n: accepted(n, j) for n, j in SETS.items()}}
    )


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
