r"""Pairs of a gold answer and another, with what is known of them without any verifier: for tests and the fuzzer.

Formulas are built beside their value as a Python function, so whether two of them differ is found by trying all small
numbers, exactly. ``expected`` is True or False where the pair is known to be equal or different, else None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from hypothesis import strategies as st


class Pair(NamedTuple):
    """A question, its gold answer, another answer, and whether that is right."""

    kind: str
    gold: str
    answer: str
    expected: bool | None
    prompt: str = ""


class Formula(NamedTuple):
    """A text and its value."""

    text: str
    value: Callable[..., Any]


WHOLE = [  # of naturals m and n
    Formula("m", lambda m, n: m),
    Formula("n", lambda m, n: n),
    Formula("2", lambda m, n: 2),
    Formula("7", lambda m, n: 7),
    Formula(r"\left\lfloor \frac{n}{2} \right\rfloor", lambda m, n: n // 2),
    Formula(r"\lfloor \frac{n+1}{3} \rfloor", lambda m, n: (n + 1) // 3),
    Formula(r"\lceil \frac{m}{2} \rceil", lambda m, n: -(-m // 2)),
    Formula(r"\lfloor \sqrt{n} \rfloor", lambda m, n: math.isqrt(n)),
    Formula(r"\lfloor \log_2 n \rfloor", lambda m, n: n.bit_length() - 1),
    Formula("|m-n|", lambda m, n: abs(m - n)),
    Formula("|n-7|", lambda m, n: abs(n - 7)),
    Formula(r"\max(m,n)", lambda m, n: max(m, n)),
    Formula(r"\min(n,4)", lambda m, n: min(n, 4)),
    Formula(r"\gcd(m,n)", lambda m, n: math.gcd(m, n)),
    Formula(r"\gcd(n,6)", lambda m, n: math.gcd(n, 6)),
    Formula(r"\operatorname{lcm}(m,n)", lambda m, n: math.lcm(m, n)),
    Formula(r"n \bmod 3", lambda m, n: n % 3),
    Formula("(-1)^n", lambda m, n: (-1) ** n),
    Formula("2^n", lambda m, n: 2**n),
    Formula("n!", lambda m, n: math.factorial(n)),
    Formula(r"\binom{n}{2}", lambda m, n: math.comb(n, 2)),
    Formula(r"\sum_{k=1}^{n} k", lambda m, n: n * (n + 1) // 2),
]
REAL = [  # of any x and y
    Formula("x", lambda x, y: x),
    Formula("y", lambda x, y: y),
    Formula("3", lambda x, y: Fraction(3)),
    Formula(r"\frac{1}{2}", lambda x, y: Fraction(1, 2)),
    Formula("|x|", lambda x, y: abs(x)),
    Formula("|x-10|", lambda x, y: abs(x - 10)),
    Formula(r"\sqrt{(x-1)^2}", lambda x, y: abs(x - 1)),
    Formula(r"\sqrt{y^2}", lambda x, y: abs(y)),
    Formula(r"\max(x,y)", max),
    Formula(r"\min(x,2)", lambda x, y: min(x, Fraction(2))),
    Formula(r"\lfloor x \rfloor", lambda x, y: Fraction(math.floor(x))),
    Formula(r"\lceil y-\frac{1}{2} \rceil", lambda x, y: Fraction(math.ceil(y - Fraction(1, 2)))),
    Formula("x^2", lambda x, y: x * x),
    Formula("(x+y)^2", lambda x, y: (x + y) ** 2),
    Formula("xy", lambda x, y: x * y),
]
JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    r"\cdot ": lambda a, b: a * b,
}
NATURALS = list(product(range(1, 31), repeat=2))
RATIONALS = list(
    product([Fraction(n, 3) for n in range(-40, 41, 4)] + [Fraction(n) for n in range(-15, 16, 5)], repeat=2)
)

REWRITINGS = [
    "0+{}",
    "{}+0",
    r"1\cdot {}",
    r"\frac{{{}}}{{1}}",
    "({})",
    r"\frac{{2{}}}{{2}}",
    "-(-{})",
    "{}+3-3",
    r"\sqrt[3]{{{}^3}}",
    "({})^1",
]
WRITINGS = [
    ("{}", r"\mathbf{{{}}}"),
    ("{}", r"\text{{{}}}"),
    ("{}", r"\boxed{{{}}}"),
    ("{}", r"\fbox{{{}}}"),
    ("{}", r"$ {} $."),
    ("{}", r"{{{}}}"),
    ("{}", r"\left({}\right)"),
    ("{}", "x = {}"),
    ("{}", r"a_{{1}} = {}"),
    (r"x_1 = {}", "x_{{1}} = {}"),
    (r"{}\pi", "{}π"),
    (r"{}\sqrt{{2}}", "{}√2"),
    (r"\frac{{{}}}{{7}}", r"\dfrac{{{}}}{{7}}"),
    (r"{}^\circ", "{}°"),
    (r"{}\%", "{} percent"),
    (r"{}", r"{}\textnormal{{ miles}}"),
    ("{}", "{} apples"),
    (r"x^{{{}}}", r"x^{{\left({}\right)}}"),
    ("{}", "m+n = {}"),
    ("{}", "AB^2 = {}"),
    ("{}", r"\text{{Area}} = {}"),
    ("{}", r"\text{{The answer is }}{}"),
    ("{}", "\u7b54\u6848\uff1a{}"),
    ("{}", "{}\u4e2a"),
]
CODE = [  # LaTeX, and the same as a program has it
    (r"\frac{{{}\pi}}{{7}}", "{}*pi/7"),
    (r"{}\cos(2t)", "{}*cos(2*t)"),
    (r"\sqrt{{{}}}x", "sqrt({})*x"),
    (r"e^{{{}x}}", "exp({}*x)"),
    (r"\ln {}", "ln({})"),
    (r"x^{{{}}}", "x**{}"),
    (r"{}\sin\theta", "{}*sin(theta)"),
    (r"|x-{}|", "abs(x-{})"),
    (r"[{},\infty)", "[{},oo)"),
    (r"\arctan {}", "atan({})"),
    (r"\frac{{1}}{{{}}}", "Rational(1,{})"),
    (r"x\ge {}", "x>={}"),
]
CUTS = [r"\frac{n!(1-n)!}{n!(1-n)!}", r"\frac{(2-n)!}{(2-n)!}", r"\left(\sum_{k=1}^{n^9}1\right)^0", r"\gcd(n,1-n)^0"]
INSIDE = ["({0}+1-1)", r"\frac{{{0}\cdot 7}}{{7}}", r"\sqrt{{{1}}}", "({2}-1)", "({0})^1"]
SI = ["mW", "MW", "kW", "W", "mm", "Mm", "mV", "MV", "kHz", "MHz", "GHz", "kPa", "mol"]
UNITS = ["cm", "m", "km", "inches", "feet", "seconds", "hours", "kg", "dollars", "square feet"]
SAYS_MORE = [
    "factorial",
    "million",
    "in base 5",
    "or more",
    "p.m.",
    "squared",
    "thirds",
    "N",
    "units left",
    "percent of 9",
    "dozen",
    "pairs of shoes",
    "gross",
    "crore",
    "short",
    "too many",
    "halved",
    "is wrong",
    "decades",
    "tenfold",
]


@st.composite
def formulas(draw: st.DrawFn, leaves: Sequence[Formula]) -> Formula:
    """Up to three parts, joined."""
    found = draw(st.sampled_from(leaves))
    for _ in range(draw(st.integers(0, 2))):
        sign, other = draw(st.sampled_from(sorted(JOINS))), draw(st.sampled_from(leaves))
        one, join = found.value, JOINS[sign]
        value = lambda a, b, one=one, two=other.value, join=join: join(one(a, b), two(a, b))  # noqa: E731
        found = Formula(f"({found.text}){sign}({other.text})", value)
    return found


@st.composite
def letters(draw: st.DrawFn) -> Pair:
    """Two formulas: different where they differ anywhere small, equal where one is the other in another dress."""
    leaves, points = draw(st.sampled_from([(WHOLE, NATURALS), (REAL, RATIONALS)]))
    one, two = draw(formulas(leaves)), draw(formulas(leaves))
    if draw(st.booleans()):
        return Pair("letters", one.text, draw(st.sampled_from(REWRITINGS)).format(f"({one.text})"), True)
    differ = any(one.value(*p) != two.value(*p) for p in points)
    return Pair("letters", one.text, two.text, False if differ else None)


@st.composite
def lists(draw: st.DrawFn) -> Pair:
    """A list against one in another order, without a member, with another member, or its digits in a row."""
    members = draw(st.lists(st.integers(-50, 999), min_size=2, max_size=4, unique=True))
    gold = ", ".join(map(str, members))
    change = draw(st.sampled_from(["order", "drop", "other", "digits", "brackets", "twice"]))
    if change == "order":
        separator = draw(st.sampled_from([",", ", ", "; ", r",\ "]))
        return Pair("lists", gold, separator.join(map(str, draw(st.permutations(members)))), True)
    if change == "twice":
        return Pair("lists", gold, f"{gold}, {members[0]}", True)
    if change == "drop":
        return Pair("lists", gold, ", ".join(map(str, members[1:])), False)
    if change == "digits":
        return Pair("lists", gold, "".join(str(abs(m)) for m in members), False)
    if change == "brackets":
        return Pair("lists", f"({gold})", rf"\{{{gold}\}}", False)
    return Pair("lists", gold, ", ".join(map(str, [members[0] + 1000, *members[1:]])), False)


@st.composite
def units(draw: st.DrawFn) -> Pair:
    """A quantity with a unit, another one, none, or words that say more."""
    number = draw(st.integers(2, 999))
    one, two = draw(st.sampled_from(UNITS)), draw(st.sampled_from(UNITS))
    if draw(st.booleans()):
        return Pair("units", str(number), rf"{number}\text{{ {draw(st.sampled_from(SAYS_MORE))}}}", False)
    gold = rf"{number}\text{{ {one}}}"
    answer = draw(
        st.sampled_from([str(number), f"{number} {two}", rf"{number}\ \mathrm{{{two}}}", f"{number + 1} {one}"])
    )
    same = answer == str(number) or (one == two and not answer.startswith(str(number + 1)))
    return Pair("units", gold, answer, same)


@st.composite
def writings(draw: st.DrawFn) -> Pair:
    """The same number in another writing, or another number."""
    shape = draw(st.sampled_from(WRITINGS))
    gold, other = draw(st.integers(2, 99_999)), draw(st.integers(2, 99_999))
    answer = gold if draw(st.booleans()) else other
    return Pair("writing", shape[0].format(gold), shape[1].format(answer), answer == gold)


@st.composite
def copies(draw: st.DrawFn) -> Pair:
    """A formula of the question as its answer, in any dress; or the number that it is."""
    numbers = draw(st.lists(st.integers(2, 99), min_size=2, max_size=4, unique=True))
    power = draw(st.integers(2, 3))
    value = sum(n**power for n in numbers)
    prompt = f"What is $S = {'+'.join(f'{n}^{power}' for n in numbers)}$?"
    text = "+".join(f"{n}^{{{power}}}" for n in draw(st.permutations(numbers)))
    if draw(st.booleans()):
        return Pair("copies", str(value), f"S={value}", True, prompt)
    if draw(st.booleans()):  # one number in another writing
        n = draw(st.sampled_from(numbers))
        inside = draw(st.sampled_from(INSIDE)).format(n, n * n, n + 1)
        return Pair("copies", str(value), text.replace(f"{n}^", f"{{{inside}}}^", 1), False, prompt)
    return Pair("copies", str(value), draw(st.sampled_from([*REWRITINGS, "{}"])).format(f"({text})"), False, prompt)


@st.composite
def code(draw: st.DrawFn) -> Pair:
    """A formula in LaTeX and one as a program has it, of the same number or of another, either way round."""
    latex, program = draw(st.sampled_from(CODE))
    gold, other = draw(st.integers(2, 60)), draw(st.integers(2, 60))
    answer = gold if draw(st.booleans()) else other
    both = (latex, program) if draw(st.booleans()) else (program, latex)
    return Pair("code", both[0].format(gold), both[1].format(answer), answer == gold)


@st.composite
def equations(draw: st.DrawFn) -> Pair:
    """A line, and its equation times a number, solved for y, or with another constant."""
    a, b, c = (draw(st.integers(1, 9)) for _ in range(3))
    gold = f"{a}x+{b}y={c}"
    times, step = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    answer, same = draw(
        st.sampled_from(
            [
                (f"{a * times}x+{b * times}y={c * times}", True),
                (rf"y=\frac{{{c}-{a}x}}{{{b}}}", True),
                (f"{c}-{a}x={b}y", True),
                (f"{a}x+{b}y={c + step}", False),
                (f"{a + step}x+{b}y={c}", False),
                (rf"y=\frac{{{c}+{a}x}}{{{b}}}", False),
                (f"({a}x+{b}y-{c})x=0", False),
            ]
        )
    )
    return Pair("equations", gold, answer, same)


@st.composite
def cuts(draw: st.DrawFn) -> Pair:
    """A formula of n, times one at a few points and nothing elsewhere."""
    gold = draw(st.sampled_from([f for f in WHOLE if "n" in f.text.replace("min", "") and "m" not in f.text]))
    return Pair("cuts", gold.text, f"({gold.text}){draw(st.sampled_from(CUTS))}", False)


@st.composite
def prefixes(draw: st.DrawFn) -> Pair:
    """A quantity with a unit of the SI, and one with another prefix or symbol."""
    number, one, two = draw(st.integers(2, 99)), draw(st.sampled_from(SI)), draw(st.sampled_from(SI))
    return Pair("prefixes", rf"{number}\text{{ {one}}}", rf"{number}\ \mathrm{{{two}}}", one == two)


def pairs() -> st.SearchStrategy[Pair]:
    """All kinds, formulas with letters most often."""
    known = st.one_of(letters(), letters(), lists(), units(), writings(), copies())
    return st.one_of(known, known, code(), equations(), cuts(), prefixes())
