"""Gold answers in the other notation: the same value, and a data set whose golds are not read does not pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.config import Validate
from outrider.record import Problem
from outrider.validate.check import check
from outrider.verify.notation import in_other_notation

pytest.importorskip("math_verify")

PAIRS = [
    (r"2\pi r", "2 pi  r"),
    (r"\frac{\sqrt{2}}{2}", "(( sqrt(2))/(2))"),
    (r"\dfrac{1}{2}", "((1)/(2))"),
    ("sqrt(140)*t", r"\sqrt{140}\cdot t"),
    ("3*cos(2*t)", r"3\cdot \cos(2\cdot t)"),
    ("x**2+1", "x^2+1"),
    ("(-oo, 3]", r"(-\infty, 3]"),
    ("x>=3", r"x\ge 3"),
    (r"e^{2\pi}", "e^{2 pi }"),
]
BEYOND = ["17", "x^2+1", "perhaps", r"\text{yes}", r"1\frac{4}{5}", r"\frac{dy}{dx}", r"30^\circ", r"\rho_{0}+\pi"]
BEYOND += [r"\cos 2t", r"\sin^2 x", r"\sqrt[3]{2}", r"\begin{pmatrix}1\end{pmatrix}", r"\frac12", "sqrt(2", "{", ""]


@pytest.mark.parametrize(("formula", "other"), PAIRS)
def test_a_formula_is_written_in_the_other_notation(formula: str, other: str) -> None:
    written = in_other_notation(formula)
    assert written is not None
    assert written.replace(" ", "") == other.replace(" ", "")


@pytest.mark.parametrize("formula", BEYOND)
def test_what_may_mean_something_else_is_left_alone(formula: str) -> None:
    assert in_other_notation(formula) is None


@pytest.mark.parametrize(("formula", "_"), PAIRS)
def test_the_verifier_accepts_both_for_both(formula: str, _: str) -> None:
    from outrider.verify.maths import Maths

    verifier, other = Maths(), in_other_notation(formula)
    assert other is not None
    for gold, answer in ((formula, other), (other, formula)):
        problem = Problem("p", "", verifier.reference({"answer": gold}, "answer"))
        assert verifier.verify(problem, rf"\boxed{{{answer}}}", True).success, (gold, answer)


def test_a_gold_that_is_compared_as_text_alone_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before names without a backslash were read: each gold agrees with its own text, and with no answer."""
    from outrider.record import correct, incorrect
    from outrider.verify.maths import Maths

    rows = [{"problem": f"q{i}", "answer": f"{i}*pi"} for i in range(2, 6)]
    (tmp_path / "held.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = {"table": {"heldout_data": str(tmp_path / "held.jsonl"), "verifier": "math"}}
    assert check(Validate(task=table)).passes

    def as_text(self: Maths, problem: Problem, text: str, finished: bool) -> object:
        same = text == rf"\boxed{{{problem.answer}}}"
        return correct(text) if same else incorrect(text)

    # in the process of the check: the pool's own would not see the change
    monkeypatch.setattr(Maths, "pooled", False)
    monkeypatch.setattr(Maths, "verify_answer", as_text)
    report = check(Validate(task=table))
    [side] = report.sides
    assert not report.passes
    assert [one.response for one in side.graded.rejected] == [rf"\boxed{{{i}\cdot \pi}}" for i in range(2, 6)]
