"""Verifiers of programs and rows for them, that several tests share."""

from __future__ import annotations

import pytest

from outrider.record import Problem
from outrider.verify.code import Stdio, UnitTests
from outrider.verify.sandbox_choice import WAYS, why_not

REASONS = {way: why_not(way) for way in WAYS}
needs_sandbox = pytest.mark.skipif(all(REASONS.values()), reason=f"no sandbox can be made here: {REASONS}")

ROW = {
    "test_list": [
        "assert add(2, 3) == 5",
        "assert abs(add(0.1, 0.2) - 0.3) < 1e-6  # violet",
        "assert set(add([1], [2])) == {1, 2}",
        "assert isinstance(add('a', 'b'), str) and len(add('a', 'b')) == 2",
    ],
    "answer": "def add(a, b):\n    return a + b\n",
}
MBPP = UnitTests(tests="test_list", cpu_seconds=1, memory_gb=0.5)
ECHO = Stdio(cpu_seconds=1)
SUMS = {"tests": [{"input": "1 2\n", "output": "3\n"}, {"input": "4 5\n", "output": "9 \n"}], "answer": None}


def verdict(verifier, row, text, finished=True):
    return verifier.verify(Problem("p", "", verifier.reference(row, "answer")), text, finished)


def fenced(code: str) -> str:
    return f"Here it is:\n```python\n{code}\n```\nDone."
