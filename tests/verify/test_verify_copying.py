"""A formula of the question is no answer to it, however it is dressed up; the same work done otherwise is one."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.record import Outcome, Problem
from outrider.verify.copying import copied
from outrider.verify.equality import compare
from outrider.verify.maths import Maths

pytest.importorskip("math_verify")
DATA = Path(__file__).parents[3] / "shared" / "data"

REWRITINGS = [
    r"%s",
    r"\frac{%s}{1}",
    r"0+%s",
    r"%s+0",
    r"%s-0",
    r"(%s)",
    r"{%s}",
    r"\left[%s\right]",
    r"1\cdot(%s)",
    r"(%s)/1",
    r"(%s)^1",
    r"-(-(%s))",
    r"%s+1-1",
    r"\frac{2(%s)}{2}",
    r"\sqrt{(%s)^2}",
    r"|%s|",
    r"N=%s",
    r"\frac{1}{(%s)^{-1}}",
]
FORMULAS = {
    "99^2+99+1": "9901",
    r"\sqrt{1+\sqrt{9}}\cdot 7": "14",
    r"\frac{5^3-5}{4}": "30",
    r"\log_2(4^2)": "4",
    r"\binom{8}{4}-3!": "64",
    r"\lfloor 10\pi \rfloor": "31",
    r"2^{10}\cdot 3": "3072",
    r"|3-10|": "7",
    r"\sum_{k=1}^{10} k^2": "385",
    r"\gcd(12, 18)": "6",
    r"\frac{x^2-1}{x-1}": "x+1",
}


def verified(prompt: str, gold: str, answer: str) -> Outcome:
    return Maths().verify(Problem("p", prompt, answer=gold), rf"\boxed{{{answer}}}", True).outcome


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize(
    "dress", ["Compute ${}$.", r"What is \[{}?\]", r"Let $N = {}$. Find $N$.", r"Is \({} < 10^9\)?"]
)
def test_no_trivial_rewriting_of_a_formula_of_the_question_is_an_answer(formula, dress):
    prompt, gold = dress.format(formula), FORMULAS[formula]
    assert verified(prompt, gold, gold) is Outcome.CORRECT
    accepted = [shape for shape in REWRITINGS if verified(prompt, gold, shape % formula) is Outcome.CORRECT]
    assert accepted == []


@pytest.mark.parametrize(
    ("prompt", "gold", "answer"),
    [
        ("Compute $99^2+99+1$.", "9901", "1+99^2+99"),
        ("Compute $99^2+99+1$.", "9901", "99+1+99^{2}"),
        (r"Compute $3 \times 4 \times 5$.", "60", r"5 \cdot 3 \cdot 4"),
        (r"Compute $\frac{10!}{8!}$.", "90", "10!/8!"),
        (r"Compute $\frac{10!}{8!}$.", "90", r"\frac{1}{8!}\cdot 10!"),
        ("Compute 17*23+5 in your head.", "396", "0+17*23+5"),
        (r"Find the value of $x = \sqrt{2+7}\, + 4$", "7", r"4+\sqrt{2+7}"),
        ("If $20^2+2(20)(7)+49=x$, what is $x$?", "729", "20^2+2(20)(7)+49=x"),
        ("If $20^2+2(20)(7)+49=x$, what is $x$?", "729", "x=49+20^2+2(20)(7)"),
        ("If $20^2+2(20)(7)+49=x$, what is $x$?", "729", r"\left(20^2+2(20)(7)+49=x\right)"),
        ("Compute $(2+3)^2 + 4^2 - 1$.", "40", "(3+2)^2-1+4^2"),
        ("Compute $2^{10}-24$.", "1000", r"\{2^{10}-24\}"),
        ("Compute $2^{10}-24$.", "1000", r"x \in \{x = 2^{10}-24\}"),
        ("Compute $2^{10}-24$.", "1000", r"2^{10}-24\cdot 1^5"),
        (r"Find $\gcd(84, 126)$.", "42", r"\gcd(126, 84)"),
        (r"Find $\max(2^5, 3^3)$.", "32", r"\max(3^3, 2^5)"),
        (r"Find $\sum_{k=1}^{100} k$.", "5050", r"\sum_{j=1}^{100} j"),
    ],
)
def test_order_and_writing_do_not_hide_a_copy(prompt, gold, answer):
    assert compare(gold, answer)[0] is Outcome.CORRECT
    assert verified(prompt, gold, answer) is Outcome.INCORRECT


@pytest.mark.parametrize(
    ("prompt", "gold", "answer"),
    [
        ("Let $f(x)=x^2+1$. Find $f(f(x))$.", "x^4+2x^2+2", "(x^2+1)^2+1"),
        ("Factor $x^4-1$.", "(x-1)(x+1)(x^2+1)", "(x^2+1)(x+1)(x-1)"),
        ("Factor $x^4-1$.", "(x-1)(x+1)(x^2+1)", "-(1-x)(x+1)(x^2+1)"),
        (r"Rationalise $\frac{1}{\sqrt{2}+1}$.", r"\sqrt{2}-1", r"-1+\sqrt{2}"),
        (r"Given $\sqrt{3}$ and $a$, find the area.", r"2\sqrt{3}", r"\sqrt{3}+\sqrt{3}"),
        ("Which of $2^{10}$ and $10^3$ is larger?", "2^{10}", "2^{10}"),
        ("Compute $99^2+99+1$.", "9901", "100^2-99"),
        ("Compute $99^2+99+1$.", "9901", "9900+1"),
        ("Compute $99^2+99+1$.", "9901", "99^2+99+1=9901"),
        ("Compute $99^2+99+1$.", "9901", "N=99^2+99+1=9900+1"),
        ("Write $x+x$ shorter.", "2x", "2x"),
        ("A square has side $a+b$; its area?", "(a+b)^2", "a^2+2ab+b^2"),
        (r"The angle is $\frac{\pi}{3}$. Its double?", r"\frac{2\pi}{3}", r"2\cdot\frac{\pi}{3}"),
    ],
)
def test_work_that_was_done_is_no_copy(prompt, gold, answer):
    assert verified(prompt, gold, answer) is Outcome.CORRECT


CONSTANTS = [r"\pi", "e", "i", r"\infty", r"\sqrt{2}", "2", r"\frac{1}{3}"]


@given(
    st.sampled_from(CONSTANTS), st.sampled_from(["-{}", "-({})", "2-{}", "-{}/6", "(-{})^2", "3-(-{})", "-2{}", "-1{}"])
)
def test_negated_constants_are_read_on_every_side(constant, shape):
    """Sympy holds minus pi as a product and minus two as a number."""
    text = shape.format(constant)
    for prompt in ("", f"Is ${text}$ a number?", f"Is $x = {text}$, or $5-{text}$, or $-({text})$?"):
        assert verified(prompt, text, text) is Outcome.CORRECT
        assert verified(prompt, text, f"{text}+0") in (Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE)
        assert verified(prompt, "17", text) in (Outcome.INCORRECT, Outcome.UNPARSEABLE)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"-\frac{\pi}{6}", r"-\pi/6"),
        (r"2-\pi", r"-\pi+2"),
        ("-e", "-e^1"),
        ("1-e", "-(e-1)"),
        (r"-\pi i", r"-i\pi"),
        (r"-\frac{e}{2}", r"-\frac12 e"),
    ],
)
@pytest.mark.parametrize("prompt", ["", r"Is it $-\pi$, $-e$ or $-i$?"])
def test_a_gold_answer_with_a_negated_constant_is_correct(prompt, gold, answer):
    assert verified(prompt, gold, answer) is Outcome.CORRECT


@pytest.mark.parametrize(
    ("prompt", "gold", "answer"),
    [
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"\sqrt{(243-1)}"),
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"\sqrt{\frac{242\cdot 7}{7}}"),
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"\sqrt{\sqrt{242^2}}"),
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"\sqrt{2\cdot 121}"),
        ("Compute $99^2+99+1$.", "9901", "(100-1)^2+99+1"),
        ("Compute $99^2+99+1$.", "9901", "99^{(3-1)}+99+1"),
        ("Compute $99^2+99+1$.", "9901", r"99^2+\sqrt{9801}+1"),
        ("Compute $99^2+99+1$.", "9901", "99^2+(98+1)+1"),
        ("Compute $99^2+99+1$.", "9901", "99^2+100-1+1"),
        ("Compute $99^2+99+1$.", "9901", r"99^2+\frac{99\cdot7}{7}+1"),
        ("Compute $9+16$.", "25", "(10-1)+16"),
        (r"Compute $\frac{5^3-5}{4}$.", "30", r"\frac{(6-1)^3-5}{4}"),
        (r"Compute $\frac{5^3-5}{4}$.", "30", r"\frac{5^3-\sqrt{25}}{4}"),
        (r"Compute $\frac{5^3-5}{4}$.", "30", r"\frac{5^3-5}{(5-1)}"),
        (r"Compute $\frac{5^3-5}{4}$.", "30", r"\frac{\left(\frac{5\cdot7}{7}\right)^3-5}{4}"),
        (r"Compute $\log_2 64$.", "6", r"\log_2(65-1)"),
        (r"Compute $\log_2 64$.", "6", r"\log_{(3-1)}64"),
        (r"Compute $\binom{8}{4}$.", "70", r"\binom{(9-1)}{4}"),
        (r"Compute $\gcd(84,126)$.", "42", r"\gcd(85-1,126)"),
        (r"Compute $\sin 30^\circ$.", r"\frac12", r"\sin(30^\circ)"),
        (r"Compute $\sum_{k=1}^{10}k$", "55", r"\sum_{k=1}^{(11-1)}k"),
        (r"Compute $\sum_{k=1}^{10}k$", "55", r"\sum_{k=(2-1)}^{10}k"),
        ("Expand $(x+3)^2$.", "x^2+6x+9", "(x+(4-1))^2"),
        ("Expand $(x+3)^2$.", "x^2+6x+9", r"(x+\sqrt9)^{2}"),
        ("Factor $x^2-1$.", "(x-1)(x+1)", "x^{(3-1)}-1"),
        ("Factor $x^2-9$.", "(x-3)(x+3)", "x^2-(10-1)"),
        ("Compute $2^{10}$.", "1024", r"2^{5\cdot 2}"),
        ("Compute $|3-10|$.", "7", "|(4-1)-10|"),
        ("Compute $7!$", "5040", "(8-1)!"),
        ("Compute $99^2+99+1$", "9901", "m+n = 99^2+99+1"),
        ("Compute $99^2+99+1$", "9901", "99^2+99+1, 99^2+99+1"),
        ("Compute $99^2+99+1$", "9901", r"\text{The answer is }99^2+99+1"),
        ("Compute $99^2+99+1$", "9901", "99**2+99+1"),
        (r"Rationalise $\frac{1}{\sqrt{2}+1}$.", r"\sqrt{2}-1", r"\frac{1}{\sqrt{(3-1)}+1}"),
        (r"Find the area with sides $3$ and $4$, so $\frac{3\cdot 4}{2}$", "6", r"\frac{3\cdot(5-1)}{2}"),
    ],
)
def test_a_copy_with_its_numbers_written_otherwise_is_no_answer(prompt, gold, answer):
    assert compare(gold, answer)[0] is Outcome.CORRECT
    assert verified(prompt, gold, answer) is Outcome.INCORRECT


@pytest.mark.parametrize(
    ("prompt", "gold", "answer"),
    [
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"\sqrt{121}\sqrt2"),
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"11\sqrt{2}"),
        ("Compute $99^2+99+1$.", "9901", r"99\cdot 100+1"),
        ("Compute $99^2+99+1$.", "9901", "9900+1"),
        ("Compute $99^2+99+1$.", "9901", "9801+99+1"),
        ("Compute $9+16$.", "25", "20+5"),
        (r"Compute $12\cdot 5$.", "60", r"6\cdot 10"),
        (r"Compute $\frac{5^3-5}{4}$.", "30", r"\frac{120}{4}"),
        (r"Compute $\sum_{k=1}^{10}k$", "55", r"\frac{10\cdot11}{2}"),
        ("Expand $(x+3)^2$.", "x^2+6x+9", r"x^2+2\cdot3x+9"),
        ("Factor $x^2-9$.", "(x-3)(x+3)", "(x+3)(x-3)"),
        ("Compute $2^{10}$.", "1024", "4^5"),
        ("A circle has radius $3$. Area?", r"9\pi", r"\pi\cdot 3^2"),
        ("Solve $x^2=5$", r"\sqrt5", r"\sqrt{5}"),
    ],
)
def test_other_work_on_the_same_numbers_is_no_copy(prompt, gold, answer):
    assert verified(prompt, gold, answer) is Outcome.CORRECT


@given(st.lists(st.integers(2, 40), min_size=2, max_size=4, unique=True), st.randoms(), st.sampled_from(REWRITINGS))
@settings(max_examples=12)
def test_a_sum_in_any_order_and_dress_is_no_answer(numbers, draw, shape):
    right = sum(n * n for n in numbers)
    prompt = f"Compute ${'+'.join(f'{n}^2' for n in numbers)}$."
    draw.shuffle(numbers)
    answer = shape % "+".join(f"{n}^{{2}}" for n in numbers)
    assert verified(prompt, str(right), answer) is not Outcome.CORRECT
    assert verified(prompt, str(right), str(right)) is Outcome.CORRECT


@pytest.mark.parametrize(
    ("prompt", "gold", "answer", "right"),
    [
        ("Points satisfy $3x+4y=10$. Find the least value of $x^2+y^2+6$.", "10", "3x+4y=10", False),
        ("Points satisfy $3x+4y=10$. Find the least value of $x^2+y^2+6$.", "10", "0+3x+4y=10-0", False),
        ("Points satisfy $3x+4y=10$. Find the least value of $x^2+y^2+6$.", "10", r"\left(4y+3x=10\right)", False),
        ("Points satisfy $3x+4y=10$. Find the least value of $x^2+y^2+6$.", "10", "(4-1)x+4y=10", False),
        ("Points satisfy $3x+4y=10$. Find the least value of $x^2+y^2+6$.", "10", "x^2+y^2+6=10", True),
        ("Points satisfy $3x+4y=10$. Find the least value of $x^2+y^2+6$.", "10", "10", True),
        ("Given $f(1)=3$ and $f(2)=5$, find $f(3)$.", "5", "f(3)=5", True),
        ("Given $f(1)=3$ and $f(2)=5$, find $f(3)$.", "5", "f(2)=5", False),
        ("If $|AB|=5$ and $|BC|=7$, find $|CA|$.", "5", "|CA|=5", True),
        ("If $x=5$, what is $x$?", "5", "x=5", True),
        ("Find $m+n$ where $m/n = 3/4$.", "7", "m+n=7", True),
        (
            r"Evaluate $\frac{1}{\cos^2 10^\circ} + \frac{1}{\sin^2 20^\circ} + \frac{1}{\sin^2 40^\circ}.$",
            "12",
            r"\frac{{(2-1)}}{\cos^2 10^\circ} + \frac{1}{\sin^2 20^\circ} + \frac{1}{\sin^2 40^\circ}",
            False,
        ),
        (r"Evaluate $\frac{1}{\sqrt{4}+1}$", r"\frac13", r"\frac{\frac{7}{7}}{\sqrt{4}+1}", False),
    ],
)
def test_an_equation_that_the_question_gives_is_no_answer(prompt, gold, answer, right):
    assert (verified(prompt, gold, answer) is Outcome.CORRECT) is right


WRITINGS = ["({0}+1-1)", r"\frac{{{0}\cdot 7}}{{7}}", r"\sqrt{{{1}}}", "({2}-1)", r"\frac{{{1}}}{{{0}}}", "({0})^1"]


@given(st.sampled_from([*FORMULAS]), st.sampled_from(WRITINGS), st.integers(0, 9))
@settings(max_examples=60)
def test_no_number_of_a_formula_hides_it_by_another_writing(formula, writing, which):
    numbers = list(re.finditer(r"(?<![0-9_^.])[0-9]+(?![0-9])", formula))
    number = numbers[which % len(numbers)]
    n = int(number[0])
    other = writing.format(n, n * n, n + 1)
    answer = formula[: number.start()] + other + formula[number.end() :]
    assert verified(f"Compute ${formula}$.", FORMULAS[formula], answer) is not Outcome.CORRECT


def test_a_prompt_of_any_kind_is_looked_at_without_failing():
    for prompt in ("$", "$$", r"\[", r"$\frac{1}{$ and $x^$", "$" + "(" * 60 + "$", "x" * 5000, r"$\text{}$ \(\)"):
        assert not copied(prompt, "x^2+1", ["1+x^2"])


@pytest.mark.skipif(not DATA.exists(), reason="no data beside the checkout")
def test_few_questions_of_math_500_are_solved_by_their_own_formulas():
    """A sample of what ``benchmarks/copying.py`` measures on all."""
    rows = [json.loads(line) for line in (DATA / "math500" / "test.jsonl").read_text().splitlines()]
    hold = [row for row in rows if re.search(r"\$[^$]*[-+^/\\][^$]*\$", row["problem"])]
    solved = 0
    for row in random.Random(0).sample(hold, 60):
        formulas = [f.strip() for f in re.findall(r"\$([^$]+)\$", row["problem"]) if re.search(r"[-+^/\\]", f)]
        sides = [side for f in formulas for side in f.split("=")]
        tried = {shape % side for side in sides for shape in (r"\frac{%s}{1}", "0+%s", "(%s)")}
        solved += any(verified(row["problem"], row["answer"], answer) is Outcome.CORRECT for answer in sorted(tried))
    assert solved <= 1
