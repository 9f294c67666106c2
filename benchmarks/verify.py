"""Verdicts per second of the verifier of maths in its pool: ``python benchmarks/verify.py [--workers 2]``.

Two streams, verified in calls of 1,024 responses as a training step makes them, after one call to warm up. ``exact``:
gold answers of MATH's test set, each as it stands or as another number. ``symbolic``: those that are no plain number
or text, in another form (spaces, parentheses, a sum with nothing, the next problem's answer), every pair once, so that
no verdict is a repetition. Floors on two cores: 2,000 and 300. Where other work holds the cores, read the verdicts per
second of a worker's own processor time, and take them twice.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import platform
import random
import re
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from outrider.record import Problem
from outrider.verify.answers import number
from outrider.verify.equality import _in_words
from outrider.verify.maths import Maths
from outrider.verify.pool import Item, VerifierPool
from outrider.verify.verifier import Prepared

DATA = Path(__file__).parents[2] / "shared" / "data" / "math" / "test.jsonl.gz"
RESULT = Path(__file__).parent / "results" / "verify.json"
CALL = 1024
NO_SUM = re.compile(r"\\begin|\\cup|\\in\b|[<>=]|^[(\[].*,|_")  # to which nothing can be added in front
REASONING = "We add both sides, and then divide by the number of cases. " * 30  # some 400 tokens before the answer


def item(gold: str, answer: str) -> Item:
    """A response of usual length."""
    return Problem("p", "What is it?", answer=gold), f"{REASONING}\\boxed{{{answer}}}", True


def streams(golds: list[str]) -> dict[str, list[Item]]:
    """What is verified, without repetitions."""
    draw = random.Random(0)
    plain = [g for g in golds if number(g) is not None]
    forms = sorted({g for g in golds if number(g) is None and not _in_words(g) and not NO_SUM.search(g)})
    draw.shuffle(forms)
    exact = [item(g, draw.choice([g, f"{g}.0" if g.isdigit() else g, str(draw.randrange(1000))])) for g in plain]
    symbolic = [item(g, other) for g in forms for other in (f"0+{g}", g.replace("+", " + "), f"{g}+0")]
    symbolic += [item(g, other) for g, other in pairwise(forms)]
    draw.shuffle(symbolic)
    return {"exact": exact, "symbolic": symbolic}


def rate(pool: VerifierPool, items: list[Item]) -> dict[str, object]:
    """Verdicts per second after the first call, and what the verdicts were."""
    pool.verify(items[:CALL])
    outcomes: Counter[str] = Counter()
    rest = items[CALL:]
    start, cpu = time.perf_counter(), cpu_seconds(pool)
    for begin in range(0, len(rest), CALL):
        outcomes.update(str(v.outcome) for v in pool.verify(rest[begin : begin + CALL]))
    seconds, cpu = time.perf_counter() - start, cpu_seconds(pool) - cpu
    return {
        "verdicts": len(rest),
        "per_second": round(len(rest) / seconds, 1),
        "per_cpu_second_of_a_worker": round(len(rest) / cpu, 1),
        "outcomes": dict(outcomes),
    }


def cpu_seconds(pool: VerifierPool) -> float:
    """What the workers have used so far: on a busy machine the one figure that is theirs."""
    total = 0
    for worker in pool._workers:
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--note", default="", help="what else the machine does")
    arguments = parser.parse_args()
    with gzip.open(DATA, "rt") as lines:
        golds = [json.loads(line)["answer"] for line in lines]
    before = os.getloadavg()[0]
    with VerifierPool(Prepared(Maths()), workers=arguments.workers, seconds=5) as pool:
        found = {name: rate(pool, items) for name, items in streams(golds).items()}
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "load": {"before": round(before, 1), "after": round(os.getloadavg()[0], 1), "note": arguments.note},
        "workers": arguments.workers,
        **found,
    }
    print(json.dumps(result, indent=1))
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
