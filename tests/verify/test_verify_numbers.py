# ruff: noqa: RUF001 - signs that look like others
r"""The number at the end of a text is read with the whole expression that it belongs to, or as no number."""

from __future__ import annotations

import gzip
import json
import re
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.record import Outcome, Problem
from outrider.verify.answers import verify_text, whole_number
from outrider.verify.number_text import last_expression
from outrider.verify.number_value import value_of
from outrider.verify.short_answer import Number
from verdicts import check_time_grows_with_length

DATA = Path(__file__).parents[3] / "shared" / "data" / "gsm8k"

# The value of the last expression; None: it is no number. A line break is written as a sign of its own.
TEXTS = r"""
1200000 | About 1 200 000 trees stand there.
17/5 | Mix in 3 2/5 litres.
5/8 | So the share is $\dfrac{5}{8}$.
2400 | That makes $2.4 \times 10^{3}$ grams.
None | Its height is \sqrt{5}.
None | It is the term a_7.
None | They met on 2025-03-14.
None | The point is (2, -9)
None | It began at 8:15
4096 | 4096 = 2^{12}
243 | $3^{5}$
1024 | $2^{10}$
1024 | 2**10
7 | It is **7**.
7 | It is *7* apples.
7 | $7$
7 | \(7\)
7 | \[7\]
7 | \text{7 apples}
7 | = 7
7 | x = 7
7 | 7 per hour
7 | 7/hour
7 | a 7-year-old boy
7 | 7%
7 | 7\%
7 | 30 - 23 = 7.
8 | The answer is 8.⏎⏎
-7 | the low is −7
-7 | The answer is $-7$.
-7 | The answer is $- 7$.
7 | - 7
3 | 1.5 \times 2 = 3
3 | the 3rd
2/3 | 2/3rds
5000000 | 5 million people
1500000 | 1.5 million
None | from 3-5 days
None | version 1.2.3
None | Go to A4
None | 3 or 4
None | 3, 4, and 5
5 | 3 boys and 5 girls
120 | There are 5! ways.
120 | $5!$
None | 3:5
None | the ratio is 3 : 5
7 | Total: 7
7 | Total : 7
7 | Answer:7
None | x < 5
None | $x \ge 3$
None | 2x
14 | 2 \cdot 7 = 14
None | 2x = 14
7 | 2x = 14, so x = 7
7 | f(2) = 7
7 | m + n = 7
None | f(3)
30 | 30^\circ
30 | 30°
5 | 5 m^2
5 | 5 cm^{2}.
5 | 5\text{ cm}^2
49/5 | 9.8 m/s^2
18 | 9 * 2 = $<<9*2=18>>18
18 | 9 * 2 = $<<9*2=18>>18 every day.
15 | In 2020, 15 people left.
None | The values are 3, 5.
None | 5 hours and 30 minutes
None | 5 feet 3 inches
30 | He took 5 buses for 30 minutes
None | November 24, 2026
None | 24 November 2026
None | \log_2 8
None | 2\pi
4 | \sqrt{16}
4 | √16
5/2 | 2½ cups
5/2 | 2 and a half hours
8/3 | 2 and 2/3 cups
8/3 | $2\frac{2}{3}$
8/3 | 2\frac23
1234 | 1,234
1234567 | 1,234,567
None | 1,2345
0 | 0
1/100000 | 1e-5
1000 | 1\,000
1000 | 1{,}000
1000 | 1_000
7 | `7`
7 | <answer>7</answer>
7 | \boxed{7}
None | 3 x 5
15 | 3 x 5 = 15
150 | 1.5 x 10^2
150 | 1.5 * 10^2
150 | 1.5 · 10²
7 | USD 7
7 | Rs.7
7 | Rs7
7 | €7
7 | 7€
7 | 7 EUR
None | COVID-19
None | the file a1
7 | It is 7...
7 | 7 🎉
7 | 7个
7 | 答案是7。
7 | 答案是 7 个。
12 | 12 (twelve)
18 | 18 (9 * 2 = 18)
None | 12 (3 + 9)
None | 5 + 3
None | 5 out of 8
None | 10 divided by 5
7 | 7 = x
5 | #5
3 | Step 1. 3 apples
3 | 1. 3 apples
-3 | negative 3
None | 10 minus 7
7 | Answer - 7
None | n/2
1/2 | 1/2
None | 1/2/3
None | 3 4
None | \frac{1}{x^2}
None | 5x^2
None | 3\sqrt{2}
None | \pm 3
3 | ≈ 3
157/50 | x ≈ 3.14
7 | (7)
7 | {7}
7 | \{7\}
None | \{3, 5\}
None | [3, 5)
24 | 24h
7 | 7kg
7 | 7 kg.
None | 7k
None | 10^10^10
None | 10^{10^{10}}
None | $99999!$
99999 | It is 99999!
366 | There are **366**! Great.
25 | That makes 25!
None | $25! + 1$
5/4 | It costs $1.25!
24 | That makes 4!
45 | It is 45 \text{ units}^2.
144 | 144 \mbox{ m}^3
125 | \textbf{125\%}
1/27 | \frac{1} { 27}
None | the side is 3s^2
18 | Janet makes 9 × $2 = $18 per day at the farmers' market.
18 | **Answer:** Janet makes **$18** every day.
3 | Therefore, the robe takes **2 + 1 = 3** bolts.
70000 | So he made a profit of $200,000 - $130,000 = $70,000.
540 | He runs 9*60 = 540 meters a week.
540 | He runs a total of \(9 \times 60 = 540\) meters.
64 | Kylar needs to pay $24 + $40 = **$64** for the glasses.
64 | \[ 24 + 40 = 64 \]
160 | The download takes 40 + 20 + 100 = 160 minutes.
45 | John's distance from home is \(180 - 135 = \boldsymbol{45}\) miles.
460 | So, Eliza's earnings for this week are $400 + $60 = $460.00.
366 | The total number is 60 + 180 + 126 = 366 downloads!
694 | She paid a total of \$694.
25 | So the merchant should choose the option with a profit of $125 - $96 = **$29**, not $25... no, $25.
5/2 | He needs 2 1/2 hours.
5/2 | It takes **2.5 hours** (2 hours and 30 minutes... i.e. 2.5).
None | It takes 2 hours and 30 minutes.
1/3 | The probability is 1/3.
333/10 | That is about 33.3%.
None | The interval is $[2, 7]$.
None | x ∈ {1, 2, 3}
None | (x, y) = (3, 4)
-5 | The temperature is -5°C.
-5 | The temperature is −5 °C
-5 | the change is $-5$ degrees
None | The train leaves at 7:45 pm.
7 | He arrives at 7 pm.
None | Born on 12/05/1999.
None | On May 5, 2023
None | Section 3.2.1
None | See Table A1
None | v2
None | $\log_{10} 5$
None | $\sin 30$
1/2 | $\sin 30^\circ = \frac12$
None | e^2
None | $e^{2}$
None | 5\pi
None | π/4
None | 3:2
None | a ratio of 3 to 2
None | between 10 and 20
None | 10-20 minutes
None | 10–20 minutes
None | $10-$20
720 | 6! = 720
720 | 6!
None | 2n + 1
None | n = 3k
7 | n = 7 is the smallest such number
None | n ≥ 7
None | $n \neq 7$
32 | 2^5 = 32
32 | $2^5$ ways
32 | 2⁵
None | 2^n
1/8 | 2^{-3}
6 | \sqrt{36}
None | 2\sqrt{3}
3 | \sqrt[3]{27}
300000000 | 3 \times 10^8 m/s
300000000 | 3×10⁸ m/s
300000000 | 3e8
300000000 | 3.0E8
602 | 6.02 \cdot 10^{2}
1000000 | $1,000,000
1000000 | 1 million
1200000 | \$1.2 million
12 | a dozen is 12.
100 | $1.00 = 100 cents
1/4 | The answer is .25
1/4 | $0.25
7 | The answer is: 7
7 | The answer is 7 .
7 | Answer = 7
7 | answer: $7$.
7 | The final answer is $\boxed{7}$.
7 | ANSWER: 7 apples
7 | x=7
7 | So x equals 7
7 | Thus $x = 7$ and we are done.
7 | → 7
7 | => 7
7 | ✅ 7
7 | 7 ✓
7 | $$7$$
7 | $$x = 7$$
7 | \begin{align} x &= 7 \end{align}
7 | \begin{aligned} 2x &= 14 \\ x &= 7 \end{aligned}
7 | 7.0
7 | 7.
7 | '7'
7 | "7"
7 | <b>7</b>
7 | 7</s>
7 | 7<|im_end|>
7 | The 7th
7 | 007
7 | total_cost = 7
7 | 7 (seven) people
7 | There are seven (7) people
7 | 7 or seven
7 | #7
7 | She is 7-years-old
7 | 7 years, i.e. 7
7 | Q1: 7
None | Q7
None | H2O
None | CO2
None | 3D
None | 4x4
16 | 4x4=16
16 | 4 x 4 = 16
16 | 4 * 4 is 16
"""


def rows(table: str) -> list[tuple[Fraction | None, str]]:
    split = [line.split(" | ", 1) for line in table.strip().splitlines()]
    return [(None if value == "None" else Fraction(value), text.replace("⏎", "\n")) for value, text in split]


@pytest.mark.parametrize(("value", "text"), rows(TEXTS))
def test_the_last_expression_is_read_as_a_whole(value, text):
    found = last_expression(text)
    assert found is not None
    assert found.value == value
    assert found.text in text


@pytest.mark.parametrize(("value", "text"), [row for row in rows(TEXTS) if row[0] is not None])
def test_a_number_is_correct_for_its_own_value_and_for_no_other(value, text):
    assert verify_text(str(value), text, match="number").success
    for other in (
        value + 1,
        -value if value else value + 2,
        value / 7 if value else value + 3,
        value.numerator + Fraction(1, 3),
    ):
        assert not verify_text(str(other), text, match="number").success


# Expressions whose last number is 3, none of which has the value 3, 5 or 7.
COMPOUND = [
    "{a}/{b}",
    "{a} / {b}",
    "\\frac{{{a}}}{{{b}}}",
    "\\dfrac{a}{b}",
    "{a}^{b}",
    "{a}^{{{b}}}",
    "{a}**{b}",
    "x^{b}",
    "x_{b}",
    "x_{{{b}}}",
    "a_{{n+{b}}}",
    "({a}, {b})",
    "({a},{b})",
    "[{a}, {b}]",
    "({a}, {b}]",
    "[{a};{b}]",
    "\\{{{a}, {b}\\}}",
    "{a}:{b}",
    "{a}:0{b}",
    "{a}-{b}",
    "{a}–{b}",
    "{a} - {b}",
    "{a} + {b}",
    "{a}+{b}",
    "{a}*{b}",
    "{a} \\times {b}",
    "{a} \\cdot {b}",
    "{a}×{b}",
    "{a} x {b}",
    "\\sqrt{{{b}}}",
    "\\sqrt[{b}]{{{a}}}",
    "√{b}",
    "{a}\\sqrt{{{b}}}",
    "\\log_{a} {b}",
    "\\log {b}",
    "\\ln {b}",
    "\\sin {b}",
    "f({b})",
    "g_{a}({b})",
    "\\binom{{{a}}}{{{b}}}",
    "\\pm {b}",
    "< {b}",
    "> {b}",
    "\\le {b}",
    "x \\neq {b}",
    "{a}, {b}",
    "{a} and {b}",
    "{a} or {b}",
    "{a}, {a} and {b}",
    "{a} to {b}",
    "from {a} to {b}",
    "between {a} and {b}",
    "{a}.{a}.{b}",
    "v{a}.{b}",
    "A{b}",
    "{a}e{b}",
    "\\pi/{b}",
    "\\frac{{\\pi}}{{{b}}}",
    "\\frac{{x}}{{{b}}}",
    "n/{b}",
    "e^{b}",
    "e^{{{b}}}",
    "10^{b}",
    "{a}\\times 10^{b}",
    "{a} \\times 10^{{{b}}}",
    "{a}·10^{b}",
    "{b}x",
    "{b}\\pi",
    "{b}i",
    "{a}+{b}i",
    "{a} + {b}i",
    "x+{b}",
    "x - {b}",
    "2x = {b}",
    "x^2 = {b}",
    "{a} hours {b} minutes",
    "{a} hours and {b} minutes",
    "{a} ft {b} in",
    "{a} feet and {b} inches",
    "${a} dollars and {b} cents",
    "May {b}",
    "{b} May 2020",
    "2020-0{b}-0{a}",
    "0{a}/0{b}/2020",
    "2020/0{a}/0{b}",
    "{a} mod {b}",
    "{a} \\bmod {b}",
    "{a} \\pmod {b}",
    "{a} {b}/{c}",
    "{a}\\frac{{{b}}}{{{c}}}",
    "|{a}-{b}|",
    "{a}!/{b}",
    "{b}!",
    "{a}!{b}!",
    "{a}\\% of {b}",
    "{a}% of {b}",
    "{a} of {b}",
    "{a} out of {b}",
    "{a} divided by {b}",
    "{a} over {b}",
    "{a} minus {b}",
    "{a} plus {b}",
    "{a} times {b}",
    "\\begin{{pmatrix}} {a} \\\\ {b} \\end{{pmatrix}}",
    "{a} \\mid {b}",
    "\\gcd({a}, {b})",
    "{a} < x < {b}",
    "x \\in [{a}, {b}]",
    "{a}\\le x\\le {b}",
    "{a}:{b}:{c}",
    "#{a}-{b}",
    "p.{a}-{b}",
    "{b} million",
    "{b} squared",
    "{b} factorial",
    "-{b}",
    "{a} \\div {b}",
    "{a}÷{b}",
    "0.{a}{b}",
    "{a},{b}00",
    "{a} {b}00",
    "{a}_{b}",
    "{b}/x",
    "1/{b}",
    "{b}k",
    "({a}+{b})",
    "{a}({b})",
    "{a} ({b})",
    "{b} < x",
    "P({b})",
    "\\lfloor {b}.5 \\rfloor",
    "{a}\\%–{b}\\%",
    "\\$ {a}-{b}",
    "\\overline{{{a}{b}}}",
    "0.\\overline{{{b}}}",
    "{a}^\\circ {b}'",
    "{a}° {b}′",
]
AROUND = [
    "The answer is {e}.",
    "So we get ${e}$.",
    "\\( {e} \\)",
    "{e}",
    "Thus the result is {e} units",
    "#### {e}",
    "\\boxed{{{e}}}",
    "**{e}**",
    "= {e}",
]


@pytest.mark.parametrize("compound", COMPOUND)
def test_no_part_of_an_expression_is_the_number(compound):
    """Where a word follows, 7, 3 may be a place and a count: "in 2020, 15 people"; said as an answer it is a list."""
    for around in AROUND:
        text = around.format(e=compound.format(a=7, b=3, c=5))
        for part in ("3", "5", "7"):
            assert not verify_text(part, text, match="number").success, text


# What a box or the line behind #### may hold beside the number; None: it is no number, or not it alone.
WHOLE = r"""
7 | $7 per hour
7 | 7 dollars per hour
7 | \$7
7 | 7\%
7 | x = 7
7 | The answer is 7.
7 | **7**
7 | Total: 7 apples
7 | \text{The answer is }7
7 | 7\text{ cm}^2
7 | 7 m^2
3/2 | 1\frac{1}{2}\text{ hours}
3/2 | 1 and a half hours
1500 | 1.5 \times 10^3
120 | 5!
8 | 2^3
12 | \sqrt{144}
5000000 | 5 million
8 | 5 + 3 = 8
None | 5 + 3
None | 2 or 3
None | 3 boys and 4 girls
None | 7 or more
None | at least 7
None | not 7
None | between 3 and 7
None | 7, 8
None | (7, 8)
None | x > 7
None | 7x
None | x_7
None | 7:30
None | 7/8/2026
None | 7 hours 30 minutes
None | seven
None | 2x = 14
7 | m + n = 7
7 | f(2) = 7
7 | AB = 7
7 | \text{Area} = 7
7 | x = 3 + 4 = 7
7 | 3 + 4 = 7
None | (100,107)
None | [-36,104]
None | x + y + z = 0
None | 4x-5y=7
None | x^2 + y^2 = 7
None | AB=9, CD=7
None | 3s^2
None | 0.07 = 7\%
None | 6 = 7
None | Question 2: 7
"""


@pytest.mark.parametrize(("value", "text"), rows(WHOLE))
def test_what_a_box_holds_is_a_number_where_it_says_nothing_else(value, text):
    assert whole_number(text) == value
    if value is not None:
        assert verify_text(str(value), f"#### {text}", match="number").success
        assert verify_text(str(value), rf"\boxed{{{text}}}", match="number").success
    else:
        assert verify_text("7", f"#### {text}", match="number").outcome is Outcome.INCORRECT


@pytest.mark.parametrize(
    ("gold", "value"),
    [
        ("1e-5", Fraction(1, 100000)),
        ("1,000", 1000),
        ("2 2/3", Fraction(8, 3)),
        ("$7", 7),
        (r"\boxed{2^{10}}", 1024),
        ("7 per hour", 7),
    ],
)
def test_golds_are_read_as_answers_are(gold, value):
    verifier = Number()
    problem = Problem("p", "", answer=verifier.reference({"answer": gold}, "answer"))
    assert verifier.verify(problem, f"#### {value}", True).success
    assert verifier.verify(problem, verifier.right(problem), True).success


@pytest.mark.parametrize(
    "gold", ["x_2", "3 or 4", "2026-11-24", "(-3, 5)", r"\sqrt{3}", "seven", "x + y = 3", "4x-5y=-50", "(100,101)"]
)
def test_a_gold_that_is_no_number_is_refused(gold):
    with pytest.raises(ValueError, match="is not a number"):
        Number().reference({"answer": gold}, "answer")


@pytest.mark.parametrize(
    "text",
    [
        "10^{10^{10}}",
        "9^{9^9}",
        "$170!!$",
        "$999!$",
        "2^{99999999}",
        r"\sqrt[99999]{7}",
        "1e99999999",
        "(" * 50 + "7" + ")" * 50,
        "1" * 900,
        "9" * 100_000,
    ],
)
def test_what_is_too_large_to_work_out_is_no_number_and_costs_nothing(text):
    start = time.process_time()
    assert last_expression(text).value is None
    assert time.process_time() - start < 0.2


PARTS = [
    "\\frac",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "1",
    "10",
    ",",
    ".",
    "^",
    "!",
    "/",
    "*",
    "-",
    "=",
    " ",
    "x",
    "and",
    "$",
    "\\sqrt",
    "½",
    "²",
    "%",
    ":",
]


@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=2)).map("".join))
def test_any_text_is_read_and_the_expression_stands_in_it(text):
    found = last_expression(text)
    assert found is None or (found.text in text and found.text)


@given(
    st.lists(st.sampled_from(["1", "2", "+", "-", "/", "^", "!", "(", ")", " ", ",", "."]), max_size=12).map("".join)
)
def test_what_has_a_value_has_the_one_that_python_works_out(text):
    value = value_of(text)
    if value is not None and not set(text) & set("^!, "):
        exact = eval(re.sub(r"([0-9.]+)", r"F('\1')", text), {"F": Fraction})  # noqa: S307 - own signs alone
        assert exact == value


@pytest.mark.parametrize("part", ["1", "1,", "\\frac{", "{1}", "(", "1 ", "^", "!", "=1", "½", "and 1 ", "x", "\\"])
def test_time_does_not_grow_faster_than_the_text(part):
    check_time_grows_with_length(lambda text: verify_text("7", text, match="number"), part, 40_000)


@pytest.mark.skipif(not DATA.exists(), reason="no data beside the checkout")
def test_of_real_solutions_the_last_number_is_the_answer_as_often_as_they_end_with_it():
    """The others say another number with it: 2k, 4 million, 2x = 20, x >= 94."""
    with gzip.open(DATA / "train.jsonl.gz", "rt") as lines:
        solved = [json.loads(line) for line in lines]
    sides = solved + [json.loads(line) for line in (DATA / "test.jsonl").read_text().splitlines()]
    ending = [row for row in sides if re.search(rf"(?<![\d.,]){re.escape(row['answer'])}[ .]*$", row["solution"])]
    assert len(ending) > 1000
    wrong = [row for row in ending if not verify_text(row["answer"], row["solution"], match="number").success]
    assert len(wrong) <= 0.003 * len(ending)
    assert all(whole_number(row["answer"]) == Fraction(row["answer"].replace(",", "")) for row in sides)
