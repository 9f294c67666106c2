"""The numbers of a committed bench, computed again from its per-problem tallies."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.bench.report import BenchReport
from outrider.bench.results import Arm, Point
from outrider.bench.spec import Bench, bench_of
from outrider.bench.tallies import COMPARED, FINAL_TEST, Count, TallyColumn, read_tallies
from outrider.errors import UserError
from outrider.measure.bootstrap import Interval
from outrider.measure.evaluation import Evaluation, Summary
from outrider.measure.passk import powers_of_two
from outrider.measure.tally import Tally

NOT_COUNTED = ("greedy", "entropy", "seconds", "spent", "tuning", "failures", "environment", "schema_version")
"""What tallies do not hold: other measurements, and descriptions of the runs."""
MISSING = "missing"
_NAN = math.nan


def check(out: Path) -> int:
    """Compute every committed number again that follows from tallies, of all benches but the screens.

    Returns:
        1 if a number differs, if a bench lacks its tallies, or if there is no bench; else 0.
    """
    numbers, faults = 0, 0
    for folder in sorted(file.parent for file in out.glob("*/*/results.json") if file.parent.name != "screen"):
        name = folder.relative_to(out)
        if not (folder / "tallies.csv").exists():
            print(f"{name}: tallies.csv is missing")
            faults += 1
            continue
        try:
            count, wrong = checked(folder)
        except (UserError, ValueError, LookupError) as error:
            print(f"{name}: tallies.csv is not that of the bench: {error}")
            faults += 1
            continue
        print("\n".join([f"{name}: {count:,} numbers, {len(wrong)} differ", *wrong]))
        numbers, faults = numbers + count, faults + len(wrong)
    if not numbers:
        print(f"{out} holds no comparison with tallies")
    return int(faults > 0 or not numbers)


def checked(bench: Path) -> tuple[int, list[str]]:
    """How many numbers of ``results.json`` follow from ``tallies.csv``, and a sentence for each that differs."""
    results = json.loads((bench / "results.json").read_bytes())
    results["bench"] = bench_of(results["bench"]).model_dump(mode="json")  # with the present names of options
    again = report_of(bench, results).to_json()
    pairs = list(_pairs(results, again))
    wrong = [
        f"{bench}: {key} is {kept}, and {new} by the tallies" for key, kept, new in pairs if not _same(kept, new, key)
    ]
    return len(pairs), wrong


def report_of(bench: Path, results: Mapping[str, Any]) -> BenchReport:
    """The bench's report, from tallies, steps and tokens alone."""
    tallies = read_tallies((bench / "tallies.csv").read_text("utf-8"))
    with (bench / "numbers.csv").open(encoding="utf-8", newline="") as file:
        spent = {(row["recipe"], int(row["seed"]), float(row["share"])): row for row in csv.DictReader(file)}
    options = bench_of(results["bench"])
    whole = _report(options, tallies[COMPARED], spent)
    if FINAL_TEST not in tallies:
        return whole
    return BenchReport(
        options, whole.before, whole.again, whole.arms, {}, (), _report(options, tallies[FINAL_TEST], spent)
    )


def _report(
    options: Bench, columns: Mapping[TallyColumn, Mapping[str, Count]], spent: Mapping[tuple[str, int, float], Any]
) -> BenchReport:
    arms: dict[str, Arm] = {}
    for name in dict.fromkeys(column.arm for column in columns):
        of_arm = [column for column in columns if column.arm == name]
        seeds = tuple(dict.fromkeys(column.seed for column in of_arm))
        points = []
        for share in dict.fromkeys(column.share for column in of_arm):
            evaluations = tuple(_evaluation(columns[TallyColumn(name, seed, share)]) for seed in seeds)
            rows = [spent.get((name, seed, share), {"steps": 0, "tokens": 0}) for seed in seeds]
            steps, tokens = (tuple(float(row[unit]) for row in rows) for unit in ("steps", "tokens"))
            points.append(Point(share, evaluations, tuple(map(int, steps)), tokens, (_NAN,) * len(seeds)))
        arms[name] = Arm(name, seeds, tuple(points))
    before, again, *others = arms.values()
    return BenchReport(options, before, again, tuple(others), {}, ())


def _evaluation(counts: Mapping[str, Count]) -> Evaluation:
    tallies = tuple(
        Tally(problem, "", n, n, c, 0, _NAN, _NAN, 0, 0, 0, 0, 0, 0, 0.0, 0) for problem, (c, n) in counts.items()
    )
    ks = powers_of_two(max(tally.samples for tally in tallies))
    unknown = Interval(_NAN, _NAN, _NAN, 0)
    summary = Summary(
        "all", dict.fromkeys(ks, unknown), unknown, unknown, *(0,) * 4, *(_NAN,) * 2, 0, 0, *(_NAN,) * 2, 0
    )
    return Evaluation(summary, (), tallies, 0, 0)


def _pairs(kept: Any, again: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Numbers at the same place of both; a number that only one of them has is paired with ``MISSING``."""
    if isinstance(kept, dict) and isinstance(again, dict):
        for name in sorted((kept.keys() | again.keys()) - set(NOT_COUNTED)):
            yield from _pairs(kept.get(name, MISSING), again.get(name, MISSING), f"{key}.{name}".lstrip("."))
    elif isinstance(kept, list) and isinstance(again, list) and len(kept) == len(again):
        for i, pair in enumerate(zip(kept, again, strict=True)):
            yield from _pairs(*pair, f"{key}.{i}")
    elif key and not (isinstance(kept, str) and isinstance(again, str)):
        yield key, kept, again


def _same(kept: Any, again: Any, key: str = "") -> bool:
    if isinstance(kept, int | float) and isinstance(again, int | float):
        # The ends of an interval rest on a quantile of t. SciPy 1.11 and 1.17 differ by 2e-9 of the half width, which
        # is below 1 for shares; where an end is near 0 its relative difference is no measure.
        return math.isclose(kept, again, rel_tol=1e-9, abs_tol=2e-9 if key.endswith((".low", ".high")) else 1e-12)
    return bool(kept == again)
