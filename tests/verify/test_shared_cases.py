"""Inputs that failed once, read where they lie beside the checkout: each gets its right verdict from its verifier."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from outrider.record import Outcome, Problem
from outrider.verify.maths import Maths
from outrider.verify.verifier import Verifier
from outrider.verify.verifiers import VERIFIERS

CASES = Path(__file__).parents[3] / "shared" / "cases" / "verdicts"
FILES = sorted(file.stem for file in CASES.glob("*.jsonl")) or ["none"]


def verifier_named(name: str) -> Verifier:
    """The verifier in the name of a file."""
    if name in ("math", "answer_line") and find_spec("math_verify") is None:
        pytest.skip("math-verify is not installed")
    return Maths(no_box="answer_line") if name == "answer_line" else VERIFIERS[name]()


@pytest.mark.parametrize("name", FILES)
def test_each_input_gets_its_right_verdict(name: str) -> None:
    file = CASES / f"{name}.jsonl"
    if not file.is_file():
        pytest.skip("the shared cases are not here")
    verifier = verifier_named(name.rpartition(".")[2])
    field = "tests" if name.endswith(".stdio") else "answer"
    wrong = []
    for case in map(json.loads, file.read_text().splitlines()):
        problem = Problem("case", "", verifier.reference({field: case["gold"]}, "answer"))
        verdict = verifier.verify(problem, case["response"], True)
        success = case["right verdict"] == "correct"
        if verdict.success is not success or verdict.outcome in (Outcome.TIMEOUT, Outcome.ERROR):
            wrong.append((case, verdict))
    assert not wrong


def test_every_file_is_of_a_verifier_that_there_is() -> None:
    names = {file.name.split(".")[1] for file in CASES.glob("*.jsonl")}
    assert names <= {*VERIFIERS, "answer_line"}
