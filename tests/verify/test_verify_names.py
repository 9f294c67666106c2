"""Names without a backslash are mathematics, and never products of letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.record import Outcome, Problem
from outrider.verify import names
from outrider.verify.equality import compare
from outrider.verify.maths import Maths

pytest.importorskip("math_verify")
CASES = Path(__file__).parents[3] / "shared" / "cases" / "verdicts" / "names_without_backslash.math.jsonl"

SAME = r"""
\pi | pi
e^5 | exp(5)
even | even
cost | cost
theta | \theta
\theta | theta
2\sin\theta | 2*sin(theta)
x\ln x | x*ln(x)
x\ln x | xlnx
x\ln x - x | xln(x) - x
\sin x\cos x | sinxcosx
\sin x\cos x | sin(x)*cos(x)
mg\sin\theta | mgsin(theta)
mg\sin\theta | m*g*sin(theta)
\frac{1}{2}mv^2 | 0.5*m*v**2
\frac{1}{2}mv^2 | (1/2)*m*v^2
mgh | mgh
|x-1| | abs(x-1)
|x-1| | Abs(1-x)
\lfloor x/2\rfloor | floor(x/2)
\lceil x/2\rceil | ceil(x/2)
\lceil x/2\rceil | ceiling(x/2)
\binom{n}{2} | binomial(n,2)
10 | binomial(5,2)
10 | 5 choose 2
\frac{1}{2} | Rational(1,2)
Rational(1,2) | 0.5
n! | factorial(n)
120 | factorial(5)
x^{1/3} | cbrt(x)
\sqrt[3]{x} | x**(1/3)
\sqrt{x} | x**0.5
x^{-1} | x**-1
\frac{1}{x} | x**(-1)
x^{12} | x**12
x^n | x**n
\sin^2 x | sin(x)**2
\sin^2 x | sin^2(x)
\sin^2 x | sin(x)^2
\log_2 5 | log2(5)
\log_2 5 | log(5,2)
\log_2 5 | log_2(5)
\log_{10} 5 | log10(5)
\frac{\ln 5}{\ln 2} | log(5)/log(2)
\arcsin x | asin(x)
\arcsin x | arcsin(x)
\sinh x | sinh(x)
\infty | oo
\infty | inf
-\infty | -inf
-oo | -\infty
(-\infty,1)\cup(2,\infty) | (-oo,1) U (2,oo)
(-\infty,1)\cup(2,\infty) | (-oo,1)U(2,oo)
(-\infty,1)\cup(2,\infty) | (-infinity, 1) union (2, infinity)
[1,2] | x in [1,2]
x\ne 3 | x != 3
720 | 6!
e^{2x} | exp(2*x)
e^{-x^2} | exp(-x**2)
\frac{e^x}{x} | exp(x)/x
\sqrt{x^2+y^2} | sqrt(x**2+y**2)
\sqrt{1+\sqrt{x}} | sqrt(1+sqrt(x))
\sqrt{2} | sqrt2
\sqrt{2}+1 | sqrt 2 + 1
\sqrt{(a+b)^2+c} | sqrt((a+b)^2+c)
k\pi | kpi
k\pi | k*pi
2k\pi | 2kpi
2\pi r | 2pir
\pi r^2 | pir^2
\pi r^2 | pi r^2
\pi r^2 h | pi*r^2*h
2\pi rh | 2pirh
\frac{1}{2}\cdot base\cdot height | base*height/2
\frac{1}{2} | frac{1}{2}
\frac{\sqrt{3}}{2} | frac{sqrt{3}}{2}
\tan\alpha | tan(alpha)
\sin x | sin x
\sin x | sinx
sin x | \sin(x)
\cos(2x)+1 | cos 2x + 1
\cos\theta | cos theta
2\omega t | 2*omega*t
\lambda | lambda
\mu | mu
\max(a,b) | max(a,b)
\gcd(m,n) | gcd(m,n)
\operatorname{lcm}(m,n) | lcm(m,n)
2\max(x,3) | 2*max(x,3)
ab | ab
ab | ba
abc(a+b+c) | (a+b+c)abc
AB+CD | CD+AB
ABCD | ABCD
7 | 7 parts
\text{spin} | spin
pin | pin
x = 2 or x = -3 | 2, -3
3\sin(2t+\frac{\pi}{4}) | 3*sin(2*t + pi/4)
A\cos(\omega t) | A*cos(omega*t)
C_1e^{-t}+C_2e^{2t} | C_1*exp(-t)+C_2*exp(2*t)
C1 e^{-t} | C1*exp(-t)
\frac{x^3}{3}+C | x**3/3 + C
1+\sqrt{5} | 1+Sqrt(5)
\sin 30^\circ | sin(30°)
\frac{1}{2} | sin(30°)
1/2 | cos(pi/3)
\frac{2}{3}\pi | 2pi/3
\frac{2}{3}\pi | (2/3)*pi
x\equiv 3 \pmod 5 | x\equiv 3 \pmod{5}
1 | 7 mod 3
\tanh x | tanh(x)
-\ln|\cos x| | -ln|cos x|
-\ln|\cos x| | -log(abs(cos(x)))
2^{n+1} | 2**(n+1)
x_1+x_2 | x_1 + x_2
\theta_1 | theta_1
\phi | phi
\frac{\pi^2}{6} | pi**2/6
\frac{\pi^2}{6} | pi^2/6
i\pi | i*pi
e^{i\pi/3} | exp(i*pi/3)
3+4i | 3+4*I
\gamma+1 | gamma+1
\gamma^2-1 | gamma**2-1
x_1+x_2 | x1+x2
C_1e^{-t}+C_2e^{2t} | C1*exp(-t)+C2*exp(2*t)
a_{10} | a10
1A_{16} | 1A_{16}
2e3 | 2000
\text{A5} | A5
x_1=2, x_2=3 | x1=2, x2=3
x_1=2, x_2=3 | x1 = 2 and x2 = 3
5 | x1=5
\frac{x_1}{2} | x1/2
e^{2} | e^2
\frac{x}{2} | x/2
T_2-T_1 | T2 - T1
3F2 | 3F2
n2^n | n\cdot 2^n
\tan x | tg(x)
\arctan x | arctg(x)
\csc x | cosec(x)
\text{root} | root
\text{floor} | floor
floor | floor
\frac{5\pi}{6} | 5*pi/6
\frac{5\pi}{6} | (5*pi)/6
-\frac{\pi}{3} | -pi/3
4\sqrt{3}-\pi | 4*sqrt(3) - pi
\frac{1}{3}\sin^3 x+C | sin(x)**3/3 + C
e^{-2x}(\cos x+\sin x) | exp(-2*x)*(cos(x)+sin(x))
\ln|x|+C | ln|x| + C
\ln|x|+C | log(abs(x)) + C
\arctan(x/2)/2 | atan(x/2)/2
\frac{\sqrt{\pi}}{2} | sqrt(pi)/2
2\cos(3t-\frac{\pi}{4}) | 2*cos(3*t - pi/4)
\{x : x\ge 2\} | x >= 2
[2,\infty) | x>=2
[2,\infty) | [2, inf)
[2,\infty) | [2,oo)
(-\infty,\infty) | (-oo,oo)
(-\infty, -1]\cup[1,\infty) | (-oo, -1] U [1, oo)
\theta = \frac{\pi}{4} | theta = pi/4
\frac{\pi}{4} | theta = pi/4
\lambda=2 | lambda=2
\alpha^2+\beta^2 | alpha^2+beta^2
r\cos\theta | r*cos(theta)
r\cos\theta | rcos(theta)
\sqrt[3]{4} | 4**(1/3)
\sqrt[3]{4} | 4^(1/3)
\sqrt[3]{4} | cbrt(4)
\frac{-1+\sqrt{5}}{2} | (-1+sqrt(5))/2
\frac{-1\pm\sqrt{5}}{2} | (-1+sqrt(5))/2, (-1-sqrt(5))/2
10^{-3} | 10**-3
10^{-3} | 10**(-3)
10^{12} | 10**12
\log_3 7 | log(7)/log(3)
\log_3 7 | ln(7)/ln(3)
\log_3 7 | log_3(7)
n(n-1)/2 | binomial(n, 2)
\frac{n!}{2} | factorial(n)/2
x\sin x+\cos x | x*sin(x)+cos(x)
x\sin x+\cos x | xsinx+cosx
2\sin x\cos x | 2sinxcosx
\tan^{-1}(2) | arctan(2)
\max(0,x) | max(0, x)
\sec^2 x | sec(x)^2
\pi | PI
2\pi\sqrt{\frac{L}{g}} | 2*pi*sqrt(L/g)
\frac{1}{2\pi}\sqrt{\frac{k}{m}} | (1/(2*pi))*sqrt(k/m)
\frac{GMm}{r^2} | G*M*m/r**2
\frac{GMm}{r^2} | GMm/r^2
v_0\sin\theta | v_0*sin(theta)
\frac{v_0^2\sin 2\theta}{g} | v_0**2*sin(2*theta)/g
\mu mg\cos\theta | mu*m*g*cos(theta)
3\times10^8 | 3*10**8
i | I
\frac{1}{1-x} | 1/(1-x)
x \neq 2 | x != 2
\rho g h | rho*g*h
\Delta x | Delta*x
\sqrt{2} | √2
a\le b | a<=b
\text{pie} | pie
\text{even} | even
\text{infinite} | infinite
\text{no real solutions} | no real solutions
"""

OTHER = r"""
even | neve
cost | tocs
cost | \cos t
\cos t | tocs
theta | ateht
2*base | 2*abse
7\pi | 7 parts
7\pi | 7 spin
\text{parts} | \pi eces
\text{spin} | s\pi n
pin | \pi n
pie | \pi e
erf(x) | fre(x)
x*cos(2) | x*sco(2)
2\pi | 2ip
\pi | ip
x>=3 | x>3
x>=3 | x<=3
2*pi*r | 2*pi*r**2
exp(x) | xe
exp(x) | xpe x
ln(x) | nx
sqrt(x) | x
sqrt(2) | 2
theta | eta
alpha | beta
3x | x1+x2
10a | a10
\text{floor} | roolf
\frac{5\pi}{6} | 5*pi/7
\sin x | cos(x)
\sin x | nis(x)
\arctan x | tan(x)
[2,\infty) | (2, inf)
\alpha | a
\theta | the ta
2\pi | 2*p*i+0*q
\ln 3 | ln(2)
\log 3 | olg(3)
\max(a,b) | xam(a,b)
\sqrt{2} | tsqr(2)
\sqrt{3} | sqrt(2)
\text{maximum} | max
\pi | spi
\infty | of
e^x | exp(-x)
e^x | xep
\text{pie} | \pi e
\text{alphabet} | \alpha bet
\infty | infinitely many
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_a_name_without_a_backslash_is_read(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_a_name_is_no_product_of_its_letters(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT


@pytest.mark.parametrize(
    "gold", ["erf(x)", "2*foo(3)", "besselj(0, x)", "Integral(x, x)", "x + det(A)", "trace(A)", "sgn(x)"]
)
def test_a_gold_answer_with_a_name_that_cannot_be_read_is_refused_aloud(gold):
    with pytest.raises(ValueError, match=r"no function that can be read"):
        Maths().reference({"answer": gold}, "answer")


@pytest.mark.parametrize(
    "gold",
    [
        "abc(a+b+c)",
        "AB(x+1)",
        "f(x)",
        "xy(x-y)",
        "even",
        "cost",
        "Area(ABC) = 5",
        r"\operatorname{erf}(x)",
        "mg(h+1)",
        "3 solution(s)",
        "Paris(France)",
        r"\\left(1,2\\right)",
    ],
)
def test_what_may_be_read_is_not_refused(gold):
    assert Maths().reference({"answer": gold}, "answer") == gold


@pytest.mark.parametrize(
    "text", ["even", "no solution", "parts", "spin", "cost", "sine wave", "pin", r"\text{pi}", "mgh", "ab"]
)
def test_words_and_products_stay_as_they_are(text):
    assert names.latex(text) == text


@pytest.mark.skipif(not CASES.exists(), reason="no cases beside the checkout")
def test_the_cases_that_were_reported_have_their_right_verdict():
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    wrong = []
    for case in cases:
        gold = Maths().reference({"answer": case["gold"]}, "answer")
        success = Maths().verify(Problem("p", "", answer=gold), case["response"], True).success
        if success != (case["right verdict"] == "correct"):
            wrong.append(case)
    assert wrong == []
