# ruff: noqa: RUF001 - signs that look like others are what this file is about
"""Answers that differ in how they are written, and answers that look like that but differ in what they say."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.record import Outcome, Problem
from outrider.verify import units
from outrider.verify.answers import last_boxes, normalise, number
from outrider.verify.equality import compare
from outrider.verify.maths import Maths
from outrider.verify.short_answer import Exact
from outrider.verify.typography import plain

pytest.importorskip("math_verify")

SAME = r"""
x_{1}=3 | x_1 = 3
a_{n}=2n+1 | a_n = 2n+1
a_{n}=2n+1 | 2n+1
74^\circ | 74°
74 | 74\degree
74° | \angle ABC = 74^\circ
125 | \mathbf{125}
125 | \fbox{125}
125 | \text{125}
125 | \textnormal{125}
125 | 125\textnormal{ miles}
7 | 7 apples
7\text{ apples} | 7
17 | 17\text{ any noun}
\frac{\sqrt{3}}{3} | \frac{\sqrt3}{3} \approx 0.577
0.577 | \frac{\sqrt3}{3} \approx 0.577
11 | x \approx 11
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} | \left(\begin{matrix} 1 & 2 \\ 3 & 4 \end{matrix}\right)
\begin{matrix} 1 \\ 2 \end{matrix} | \begin{bmatrix} 1 \\ 2 \end{bmatrix}
\begin{bmatrix} 1 \\ 2 \end{bmatrix} | \left[\begin{smallmatrix} 1 \\ 2 \end{smallmatrix}\right]
\frac{1}{3} | 0.\overline{3}
\frac{7}{6} | 1.1\overline{6}
0.\overline{12} | \frac{4}{33}
3\sqrt{2} | 3√2
\frac{\pi}{2} | π/2
2\pi r^2 | 2πr²
(1,\infty) | (1, ∞)
\frac{1}{2} | ½
x_{12} | x₁₂
-5 | –5
5 | 2+3 = 5
x=5 | x = 2+3 = 5
\frac{1}{2} | \sin 30^\circ
2,5 | 2.5
2.5 | 2,5
0,111 | 0.111
1000.99 | 1000,99
1000 | 1 000
1234567 | 1 234 567
32349 | 32,\! 349
10{,}000 | 10000
1\,234.5 | 1234.5
(10{,}000, 5) | (10000, 5)
1,3 | {1,3}
(11,7),(7,11) | (11,7)or(7,11)
p=5,q=2;p=7,q=2 | (5,2),(7,2)
(1,2),(3,4) | (3,4),(1,2),(3,4)
132, 999 | 999,132
-5, 200, 617 | -5,617,200
28\% | 28 percent
0.335 | 33.5 pct
0.005 | \frac{1}{2}\text{ percent}
\frac{1}{2} | \\frac{1}{2}
\sqrt{3}-1 | -1 + sqrt(3)
\max(a,b) | \max\{a,b\}
\gcd(m,n) | \text{gcd}(m,n)
\log_{10} x | \lg x
185 | 185\
440\text{ cm}^2 | 440 \text{ square centimeters}
5\text{ ft} | 5 feet
60\text{ mph} | 60\text{ miles per hour}
12\text{ inches} | 12
\frac{\pi}{4}+2 | \frac \pi4 + 2
\frac{a}{b} | \frac ab
\frac{1}{72} | \frac1{72}
3+2e | 2e+3
1500 | 1.5e+03
m \frac{d v}{d t}+b v=f | {m \frac{d v}{d t}+b v=f}
\varnothing | \emptyset
\langle 1,2\rangle | (1,2)
10 | {5 \choose 2}
\$5 | 5\text{ dollars}
5 | \$5
3+2i | 3+2\mathrm{i}
5\text{ red marbles} | 5 marbles
25^\circ\text{C} | 25
25^\circ\text{C} | 25 \text{ degrees Celsius}
\mathbf{i}-\mathbf{j} | -\mathbf{j}+\mathbf{i}
4{:}30\text{ p.m.} | 4:30 \text{ PM}
3.14 | \approx 3.14
1023 | a_{10}=1023
1023 | a_{10} = 2^{10}-1 = 1023
5 | \text{5 apples}
\frac{5}{8} | ⅝
\frac{1}{2} | 1⁄2
-5 | ‐5
(1,2) | （１，２）
1,2,\ldots,10 | 1, 2, \dots, 10
n \equiv 1 \pmod 4 | n\equiv1\pmod{4}
1A_{16} | 1a_{16}
£5 | 5\text{ pounds}
1{:}30 | 1:30
12 | \textcolor{red}{12}
12 | {\color{red} 12}
12 | \underline{12}
12 | {\large 12}
"""

OTHER = r"""
81, 256 | 81256
2, 100 | 2100
32, 349 | 32349
(1,200) | 1200
1,000 | 1.000
2,5 | 25
2.5 | 2, 5
1 000 | 1
4:30\text{ p.m.} | 4:30\text{ a.m.}
30^\circ\text{ N} | 30^\circ\text{ S}
30° N | 30° S
3 | 3\text{ in base 5}
3 | 3\text{ base five}
4 | 4\text{ factorial}
5 | 5\text{ squared}
3\text{ units left} | 3\text{ units right}
3 | 3 \text{ thirds}
5\text{ cm} | 5\text{ m}
864\text{ inches}^2 | 864\text{ inches}^3
45\text{ units}^2 | 45\text{ units}^3
8\text{ cubic units} | 8\text{ square units}
90^\circ | 90 \text{ radians}
5\text{ hours} | 5\text{ minutes}
7 | 7 abc
2000 | 2e+3
5 | 3+2\mathrm{i}
2 | 2\mathrm{e}
2 | 2\text{x}
3 | 3\mathbf{j}
n\text{ is even} | n\text{ is odd}
n\text{ even} | n\text{ odd}
3\text{ boys} | 3\text{ girls}
3\text{ heads} | 3\text{ tails}
25^\circ\text{C} | 25^\circ\text{F}
5\text{ cm} | 5\text{ apples}
\$5 | 5\text{ cents}
\langle 1,2\rangle | \langle 2,1\rangle
x_1=3 | x_2=3
x_{12} | x_{1}2
0.\overline{3} | 0.3
0.\overline{12} | 0.\overline{21}
3\sqrt{2} | √32
0.577 | 0.6 \approx 0.577
0.577 | \sqrt{2} \approx 0.577
5 | 7 \approx 5
5 | x = 5 = 7
1 | 9 = 1
x = 5 | y = 2+3 = 5
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} | \begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}
\begin{pmatrix} 1 & 2 \end{pmatrix} | \begin{matrix} 1 \\ 2 \end{matrix}
x^{23} | x²³+1
\{1,1,2\} | \{1,2,2\}
1,2,3 | 1,2,2
100 | 100\%\%
\pi | \approx 3.14
3.14 | \approx 3.15
5 | 5\text{ tens}
5 | 5\text{ twelfths}
5 | 5 twelfths
5 | 5\text{ seventeenths}
5 | 5\text{ twentieths}
5 | \text{5 million}
5 | \text{5 or 6}
€5 | £5
\$5 | €5
€5 | \$5
\$15 | 15\%
15\% | \$15
15\% | 15\text{ cm}
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_only_written_otherwise(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_written_almost_alike(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (r"either \boxed{1} or \boxed{2}", ["1", "2"]),
        (r"$\boxed{(2,2)} \quad \text{and} \quad \boxed{(6,2)}$", ["(2,2)", "(6,2)"]),
        (r"\(y_1 = \boxed{3}\) and \(y_2 = \boxed{4}\)", ["3", "4"]),
        (r"\boxed{3} papers and \boxed{4} bins", ["3", "4"]),
        ("\\boxed{1},\n\\boxed{2}", ["1", "2"]),
        ("\\boxed{1}\n\\boxed{2}", ["2"]),
        (r"\boxed{1}, which is wrong, so \boxed{2}", ["2"]),
        (r"\boxed{1} is too small and \boxed{2}", ["2"]),
        (r"\boxed{1} \neq \boxed{2}", ["2"]),
        (r"\boxed{1}, \boxed{2}. No: \boxed{3}", ["3"]),
        ("none", []),
    ],
)
def test_the_last_box_brings_those_beside_it(text, taken):
    assert last_boxes(text) == taken


@pytest.mark.parametrize(
    ("boxes", "gold", "text", "outcome"),
    [
        ("last", "1,2", r"\boxed{2} and \boxed{1}", Outcome.CORRECT),
        ("last", "1", r"\boxed{2} or \boxed{1}", Outcome.INCORRECT),
        ("last", "1", r"\boxed{1} and \boxed{1}", Outcome.CORRECT),
        ("last", "1", r"\boxed{2}, no, that is wrong: \boxed{1}", Outcome.CORRECT),
        ("last", "1,2", r"\boxed{2}, no, that is wrong: \boxed{1}", Outcome.INCORRECT),
        ("all", "1,2", r"first \boxed{2}, much later \boxed{1}", Outcome.CORRECT),
        ("all", "1", r"first \boxed{2}, much later \boxed{1}", Outcome.INCORRECT),
    ],
)
def test_which_of_several_boxes_count(boxes, gold, text, outcome):
    assert Maths(boxes=boxes).verify(Problem("p", "", answer=gold), text, True).outcome is outcome


def test_the_gold_answer_of_a_worked_solution_is_read_like_a_response():
    verifier = Maths()
    assert verifier.reference({"answer": r"so $\boxed{1}$ and $\boxed{-2}$."}, "answer") == "1, -2"
    for one in (verifier, Exact()):
        with pytest.raises(ValueError, match="no box that is closed"):
            one.reference({"answer": r"the answer is \boxed{5, or 1 of 7"}, "answer")


@pytest.mark.parametrize(
    "text", ["81, 256", "1, 000", "2 , 100", "1,2345", r"81,\ 256", "0,111", r"4\text{ factorial}"]
)
def test_what_is_no_number(text):
    assert number(text) is None


@pytest.mark.parametrize(("text", "value"), [("81,256", 81256), ("1 000", 1000), ("7 apples", 7), (r"1{,}000", 1000)])
def test_what_is_one(text, value):
    assert number(text) == value


@given(st.integers(1, 999), st.integers(0, 999))
def test_a_list_of_two_is_never_their_digits_in_a_row(one, other):
    assert number(f"{one}, {other:03d}") is None
    assert compare(f"{one}, {other:03d}", f"{one}{other:03d}")[0] is not Outcome.CORRECT


@given(st.text(max_size=60) | st.text("√²₁°½,{}\\$ sqrt()_^frac0129", max_size=60))
@example("\\√")  # a second backslash would be read as one that was escaped twice
def test_plain_writing_never_raises_and_is_the_same_the_second_time(text):
    assert plain(plain(text)) == plain(text)
    units.split(text)
    normalise(text)


def test_every_unit_agrees_with_itself_and_with_none():
    every = ["cm", "square feet", "mph", "apples", "degrees", "km per hour", "cm^3", "red balls"]
    for unit in every:
        assert units.agree(unit, unit)
        assert units.agree(unit, "")
        assert [other for other in every if units.agree(unit, other)] == [unit]
