"""The finished runs of a bench in one file, so that another machine can go on with it.

A bench of many hours outlives the machine that it began on. It takes a run as finished by its table, and reads its
configuration, metrics, seconds and evaluations; so these are packed, without rollouts, checkpoints and policies, a
hundredth of the bytes.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from outrider.bench.cell import FINAL_TEST

OF_BENCH = ("bench.yaml", "environment.json", "recipes")
OF_RUN = ("config.yaml", "environment.json", "evaluations", "metrics.jsonl", "table.md", "timing.jsonl")


def pack(bench: Path, into: Path) -> int:
    """Put what is finished of a bench into a file, over what it held, and return how many runs that are.

    A run that is compared has to have its measurement on the final test set too where the bench makes one, since
    that takes its policy. Whose machine it was is excluded, but for the places that runs say of themselves.

    Raises:
        SystemExit: the file holds a finished run that the bench lacks.
    """
    runs = list(finished(bench))
    if into.is_file():
        with tarfile.open(into) as archive:
            held = {Path(name).parent for name in archive.getnames() if Path(name).name == "table.md"}
        if lost := sorted(held - {run.relative_to(bench) for run in runs}):
            sys.exit(f"{into} holds runs that {bench} lacks, {lost[0]} for one: move one of the two elsewhere")
    into.parent.mkdir(parents=True, exist_ok=True)
    partly = into.with_name(f".{into.name}.tmp")
    try:
        with tarfile.open(partly, "w:xz") as archive:
            for place in [*(bench / name for name in OF_BENCH), *(run / name for run in runs for name in OF_RUN)]:
                archive.add(place, place.relative_to(bench), filter=_nobodys)
        partly.replace(into)
    finally:
        partly.unlink(missing_ok=True)
    return len(runs)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(uid=0, gid=0, uname="", gname="", mtime=0, deep=False)


def unpack(file: Path, bench: Path) -> None:
    """Lay a packed bench down again; one that is there already is gone on with instead, which is said."""
    if not file.is_file():
        return
    if bench.exists():
        print(f"going on with {bench} as it is, not with {file}")
        return
    partly = bench.with_name(f".{bench.name}.tmp")
    shutil.rmtree(partly, ignore_errors=True)
    with tarfile.open(file) as archive:
        archive.extractall(partly, filter="data")
    partly.rename(bench)


def finished(bench: Path) -> Iterator[Path]:
    """Folders of runs that a bench need not run again."""
    options = yaml.safe_load((bench / "bench.yaml").read_text("utf-8"))
    final_test = options.get("final_test", options.get("untouched")) is not None  # "untouched" until 0.2
    for table in sorted(bench.glob("**/table.md")):
        run = table.parent
        if run == bench:
            continue
        compared = run.relative_to(bench).parts[0] == "cells" and run.name != FINAL_TEST
        if not (compared and final_test) or (run / FINAL_TEST / "table.md").is_file():
            yield run
