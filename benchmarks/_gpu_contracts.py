"""The contract suites of samplers and learners on this machine, for ``gpu.py``: what passed, failed and was skipped."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
SECONDS = 3600


def suite(python: str, words: Sequence[str], environment: Mapping[str, str], log: Path) -> dict[str, Any]:
    """Counts, the names of what failed with the first line of why, and the reasons of what was skipped.

    Args:
        python: an interpreter with pytest.
        words: files, and other arguments of pytest; slow cases run too.
        log: where all that pytest printed goes.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", f"--junitxml={report}", *words]
        try:
            with log.open("w") as printed:
                ran = subprocess.run(
                    command,
                    cwd=ROOT,
                    env={**os.environ, **environment},
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    timeout=SECONDS,
                )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {SECONDS} seconds"}
        except OSError as error:  # no such interpreter
            return {"error": str(error)}
        told = summary(ElementTree.parse(report).getroot()) if report.exists() else {}
        if ran.returncode not in (0, 1):  # no test ran, or not all
            told["error"] = log.read_text(errors="replace").strip().split("\n")[-1]
        return told


def summary(report: ElementTree.Element) -> dict[str, Any]:
    """What pytest's XML says."""
    failures: dict[str, str] = {}
    skipped, passed = Counter[str](), 0
    for case in report.iter("testcase"):
        bad = next((one for kind in ("failure", "error") if (one := case.find(kind)) is not None), None)
        excluded = case.find("skipped")
        if bad is not None:
            failures[case.get("name", "")] = bad.get("message", "").split("\n")[0]
        elif excluded is not None:
            skipped[excluded.get("message", "")] += 1
        else:
            passed += 1
    counts = {"passed": passed, "failed": len(failures), "skipped": skipped.total()}
    return {**counts, "failures": failures, "reasons": dict(skipped)}
