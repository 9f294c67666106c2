"""The finished runs of a bench in one file, so that another machine can go on with it.

A bench of many hours outlives the machine that it began on. It takes a run as finished by its table, and reads its
configuration, metrics, seconds and evaluations; so these are packed, without rollouts, checkpoints and policies, a
hundredth of the bytes.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml

OF_BENCH = ("bench.yaml", "environment.json", "recipes")
OF_RUN = ("config.yaml", "environment.json", "evaluations", "metrics.jsonl", "table.md", "timing.jsonl")


def pack(bench: Path, into: Path) -> int:
    """Put what is finished of a bench into a file, over what it held, and return how many runs that are.

    A run that is compared has to have its measurement on the untouched problems too where the bench makes one, since
    that takes its policy.
    """
    runs = list(finished(bench))
    into.parent.mkdir(parents=True, exist_ok=True)
    partly = into.with_name(f".{into.name}.tmp")
    with tarfile.open(partly, "w:xz") as archive:
        for place in [*(bench / name for name in OF_BENCH), *(run / name for run in runs for name in OF_RUN)]:
            archive.add(place, place.relative_to(bench))
    partly.replace(into)
    return len(runs)


def unpack(file: Path, bench: Path) -> None:
    """Lay a packed bench down again, where there is none yet."""
    if file.is_file() and not bench.exists():
        with tarfile.open(file) as archive:
            archive.extractall(bench, filter="data")


def finished(bench: Path) -> Iterator[Path]:
    """Folders of runs that a bench need not run again."""
    untouched = yaml.safe_load((bench / "bench.yaml").read_text("utf-8"))["untouched"] is not None
    for table in sorted(bench.glob("**/table.md")):
        run = table.parent
        if run == bench:
            continue
        compared = run.relative_to(bench).parts[0] == "cells" and run.name != "untouched"
        if not (compared and untouched) or (run / "untouched" / "table.md").is_file():
            yield run
