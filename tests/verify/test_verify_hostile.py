"""Hostile and broken answers: each is a verdict, soon, and only its own; the verifiers stay as many as they were."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from outrider.record import Outcome, Problem
from outrider.verify import maths
from outrider.verify.answers import LONGEST
from outrider.verify.maths import Maths
from outrider.verify.pool import VerifierPool
from outrider.verify.verifier import Prepared

pytest.importorskip("math_verify")
CORPUS = Path(__file__).parents[1] / "corpus" / "maths"
VERIFIED = {Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE}

# Refused, or found wrong, without a step of algebra: none may cost a worker.
CHEAP = {
    "nested braces": "{" * 10_000 + "}" * 10_000,
    "nested fractions": r"\frac{" * 200 + "1" + "}{2}" * 200,
    "nested roots": r"\sqrt{" * 10_000 + "2" + "}" * 10_000,
    "nested left": r"\left(" * 5_000 + r"\right)" * 5_000,
    "a megabyte of digits": "7" * 10**6,
    "a power of Python": "10**10**10",
    "a tower": "9^{9^{9^{9^{9^{9^{9^9}}}}}}",
    "a large exponent": "2^{10000000000}",
    "an exponent with spaces": "2^{ 1 000 000 000 }",
    "scientific": "1e9999999999",
    "factorials": "9!!!!!!!!",
    "a large factorial": "1000000000!",
    "a factorial in an exponent": "2^{201!}",
    "null bytes": "4\0002",
    "a surrogate": "\ud800",
    "not UTF-8": b"\xff\xfe42".decode("utf-8", "surrogateescape"),
    "escapes": "\x1b[2J42",
    "a long sum": "+".join(["x"] * 5_000),
    "backslashes": "\\" * 100_001,
    "code": "__import__('os').system('touch /tmp/owned')",
    "exit": "exit()",
}

# Short enough for the parser, which takes them one way or the other.
PARSED = {
    "a sum": "+".join(["x"] * 150),
    "unclosed": r"\frac{1",
    "no meaning": r"\sum \int \lim ^ _ & \\",
    "right to left": "\u202e42",
    "digits of elsewhere": "\u0664\u0662",
    "commas": "," * 300,
    "bars": "|" * 60,
    "by zero": r"\frac{1}{0}",
    "a matrix of nothing": r"\begin{pmatrix}\end{pmatrix}",
    "minus": "-" * 200 + "1",
    "another's attribute": r"\text{__class__}",
}

# Each had score NaN once: it made its own verifier hang, run out of stack, or grow.
OWN_DOING = {
    "binomial": r"\binom{99999}{50000}",
    "percent signs": "1" + "%" * 990,
    "escaped percent signs": "1" + r"\%" * 490,
    "a tower of three": "9^{9^{9}}",
    "a tower in an inequality": "x<9^{9^{9}}",
    "a tower in a matrix": r"2\begin{pmatrix}9^{9^9}\\2\end{pmatrix}",
    "large fractions": "+".join(rf"\frac{{9^{{{99999 - i}}}}}{{{7 + i}}}" for i in range(40)),
    "a large determinant": r"\begin{vmatrix}"
    + r"\\".join("&".join("abcdefghijkl") for _ in range(12))
    + r"\end{vmatrix}",
    "det of a large matrix": r"\det\begin{pmatrix}"
    + r"\\".join("&".join("abcdefgh") for _ in range(9))
    + r"\end{pmatrix}",
    "a unit matrix": r"\operatorname{eye}(99999)",
    "a gamma function": r"\Gamma(999999999)",
    "an evaluation": r"x^{x^{x}}|_{x=9999}",
    "a power of a polynomial": r"((x+1)^{9999}+1)^{9999}",
    "a product of factorials": r"\prod_{k=1}^{400} k!",
    "sums of sums": r"\sum_{k=1}^{400}\sum_{j=1}^{400} j^k",
    "nested roots": r"\sqrt{" * 39 + "2" + "}" * 39,
    "nested fractions": r"\frac{1}{1+" * 30 + "1" + "}" * 30,
    "nested functions": "f(" * 30 + "x" + ")" * 30,
    "nested indices": "x_{" * 30 + "1" + "}" * 30,
    "exponentials": r"e^{e^{e^{e^{9}}}}",
    "a sine of a large number": r"\sin(10^{1400})" + r"+\sin(x)" * 90,
    "minus signs": "-" * 900 + "1",
    "equations": "a=" * 490 + "a",
    "inequalities": "x<" * 400 + "x",
    "a long set": r"\{" + ",".join(f"x_{{{i}}}" for i in range(120)) + r"\}",
    "a set minus a long one": r"\mathbb{R}\setminus\{" + ",".join(map(str, range(200))) + r"\}",
    "letters": "nm" * 450,
    "long digits that repeat": r"0.\overline{" + "3" * 900 + "}",
}

# Valid, and without an end.
ENDLESS = [r"\binom{99999999}{49999999}", r"\sum_{k=1}^{99999} \frac{\sin k}{k!+\pi^k}"]


def item(text: str, gold: str = "42") -> tuple[Problem, str, bool]:
    return Problem("p", "", answer=gold), rf"\boxed{{{text}}}", True


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(Prepared(Maths()), workers=1, seconds=60) as pool:
        yield pool


def test_an_answer_that_is_too_long_is_refused_before_anything_looks_at_it(monkeypatch):
    """A megabyte takes a tenth of a second for each pattern."""

    def normalise(text):
        assert len(text) <= LONGEST
        return text

    monkeypatch.setattr(maths, "normalise", normalise)
    for boxes in ("last", "first", "all"):
        verdict = Maths(boxes=boxes).verify(*item("7" * (LONGEST + 1)))
        assert verdict.outcome is Outcome.UNPARSEABLE


def test_what_hostile_answers_become(pool):
    texts = CHEAP | PARSED
    verdicts = dict(zip(texts, pool.verify([item(text) for text in texts.values()]), strict=True))
    assert {name: v.outcome for name, v in verdicts.items() if v.outcome not in VERIFIED} == {}
    assert [name for name, v in verdicts.items() if v.success] == []
    assert [name for name in CHEAP if verdicts[name].seconds > 0.5] == []
    assert all(len(v.answer.encode()) < 1000 and len(v.detail) < 200 for v in verdicts.values())


@pytest.mark.parametrize("gold", ["x^2+1", "x>3", r"(-\infty,3)\cup(5,\infty)"])
def test_an_answer_that_breaks_its_verifier_scores_zero_and_not_nan(pool, gold):
    verdicts = dict(zip(OWN_DOING, pool.verify([item(text, gold) for text in OWN_DOING.values()]), strict=True))
    assert {name: v.detail for name, v in verdicts.items() if v.score != 0} == {}
    assert [name for name, v in verdicts.items() if v.seconds > 20] == [], "the limit of a recipe is 5 s of a free core"


def test_ten_thousand_in_a_row_leave_the_pool_as_it_was(pool):
    texts = list(CHEAP.values())
    texts.remove(CHEAP["a megabyte of digits"])
    workers = [worker.pid for worker in pool._workers]
    items = [item(texts[i % len(texts)][:1500] + f"{i // 20 % 25}") for i in range(10_000)]
    verdicts = pool.verify([*items, item("42"), item("43")])
    assert {v.outcome for v in verdicts[:-2]} <= {Outcome.INCORRECT, Outcome.UNPARSEABLE}
    assert [v.outcome for v in verdicts[-2:]] == [Outcome.CORRECT, Outcome.INCORRECT]
    assert [worker.pid for worker in pool._workers] == workers


def test_endless_ones_end_at_the_limit_and_cost_nobody_else(pool):
    """In the workers of another limit, forked from the same process: it is the import that takes long."""
    pool.verify([])
    pool._workers[0].kill()
    pool._workers.clear()
    pool._seconds = 0.5
    fine = item("43", "43")
    try:
        start = time.monotonic()
        verdicts = pool.verify([fine, *(item(t) for t in ENDLESS), fine, item(ENDLESS[0] + "+1"), fine])
        assert time.monotonic() - start < 30
    finally:
        pool._seconds = 60
        pool._workers[0].seconds = 60
    assert [v.outcome for v in (verdicts[0], verdicts[3], verdicts[5])] == [Outcome.CORRECT] * 3
    assert all(not v.success for v in verdicts[1:3])
    assert len(pool._workers) == 1


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: file.stem)
def test_what_fuzzing_found(pool, file):
    found = json.loads(file.read_text())
    [verdict] = pool.verify([item(found["text"], found["gold"])])
    assert verdict.outcome in VERIFIED
    assert not verdict.success


def test_code_in_an_answer_is_text():
    assert not Path("/tmp/owned").exists()
