"""Inputs that failed once, read where they lie beside the checkout: each gets its right verdict from its verifier."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from outrider.record import Outcome, Problem
from outrider.verify.judge import Judge
from outrider.verify.judges import JUDGES
from outrider.verify.maths import Maths

CASES = Path(__file__).parents[3] / "shared" / "cases" / "verdicts"
FILES = sorted(file.stem for file in CASES.glob("*.jsonl")) or ["none"]


def verifier(name: str) -> Judge:
    """The verifier in the name of a file."""
    if name in ("math", "answer_line") and find_spec("math_verify") is None:
        pytest.skip("math-verify is not installed")
    return Maths(no_box="answer_line") if name == "answer_line" else JUDGES[name]()


@pytest.mark.parametrize("name", FILES)
def test_each_input_gets_its_right_verdict(name: str) -> None:
    file = CASES / f"{name}.jsonl"
    if not file.is_file():
        pytest.skip("the shared cases are not here")
    judge = verifier(name.rpartition(".")[2])
    field = "tests" if name.endswith(".stdio") else "answer"
    wrong = []
    for case in map(json.loads, file.read_text().splitlines()):
        problem = Problem("case", "", judge.reference({field: case["gold"]}, "answer"))
        verdict = judge.judge(problem, case["response"], True)
        success = case["right verdict"] == "correct"
        if verdict.success is not success or verdict.outcome in (Outcome.TIMEOUT, Outcome.ERROR):
            wrong.append((case, verdict))
    assert not wrong


def test_every_file_is_of_a_verifier_that_there_is() -> None:
    names = {file.name.split(".")[1] for file in CASES.glob("*.jsonl")}
    assert names <= {*JUDGES, "answer_line"}
