"""An answer cannot choose where it is compared: what lacks values of the gold answer is not correct."""

from __future__ import annotations

from itertools import product

import pytest

from outrider.record import Outcome
from outrider.verify.equality import compare

pytest.importorskip("math_verify")

SAME = r"""
x+1 | \frac{x^2-1}{x-1}
\frac{x^2-1}{x-1} | x+1
x | \frac{x^2}{x}
n | \frac{n!}{(n-1)!}
\frac{n!}{(n-1)!} | n
\frac{n(n-1)}{2} | \binom{n}{2}
\binom{n}{2} | \frac{n(n-1)}{2}
\frac{n(n+1)}{2} | \sum_{k=1}^{n} k
\sum_{k=1}^{n} k | \frac{n(n+1)}{2}
\frac{n(n+1)}{2} | \sum_{k=0}^{n} k
\frac{n(n-1)}{2} | \sum_{k=1}^{n-1} k
n^2 | \sum_{k=1}^{n}(2k-1)
n! | \prod_{k=1}^{n} k
n(n-1)(n-2) | \frac{n!}{(n-3)!}
2^n | \sum_{k=0}^{n}\binom{n}{k}
\frac{x^{n+1}-1}{x-1} | \sum_{k=0}^{n} x^k
\sum_{k=0}^{n} x^k | \frac{1-x^{n+1}}{1-x}
\binom{n}{k} | \frac{n!}{k!(n-k)!}
\frac{n!}{k!(n-k)!} | \binom{n}{k}
\frac{(m+n)!}{m!n!} | \binom{m+n}{n}
\binom{m+n}{n} | \frac{(m+n)!}{m!n!}
(x+y)^n | \sum_{k=0}^{n}\binom{n}{k} x^k y^{n-k}
mn | \gcd(m,n)\operatorname{lcm}(m,n)
\operatorname{lcm}(a,b) | \frac{ab}{\gcd(a,b)}
\ln\frac{x-1}{x-2} | \ln(x-1)-\ln(x-2)
\sqrt{x^2-9} | \sqrt{x-3}\sqrt{x+3}
\sqrt{1-x^2} | \sqrt{1-x}\sqrt{1+x}
\sqrt{xy} | \sqrt{x}\sqrt{y}
2\ln x | \ln(x^2)
\ln(x^2) | 2\ln x
\arcsin x | \frac{\pi}{2}-\arccos x
\sqrt{(x-10)(20-x)} | \sqrt{x-10}\sqrt{20-x}
\tan x | \frac{\sin x}{\cos x}
\cos(\pi n) | (-1)^n
(-1)^n | \cos(n\pi)
\frac{1}{n}-\frac{1}{n+1} | \frac{1}{n(n+1)}
n+1 | \frac{(n+1)!}{n!}
\frac{(2n)!}{2^n n!} | \prod_{k=1}^{n}(2k-1)
\binom{n}{3} | \frac{n(n-1)(n-2)}{6}
\frac{(n-5)(n-6)}{2} | \binom{n-5}{2}
n^3 | \sum_{k=1}^{n^3} 1
x^{a+b} | x^a x^b
e^{2x} | (e^x)^2
\frac{n!}{a!b!(n-a-b)!} | \binom{n}{a}\binom{n-a}{b}
\binom{n}{a}\binom{n-a}{b} | \frac{n!}{a!b!(n-a-b)!}
k | \frac{k!}{(k-1)!}
\frac{1}{x^2} | x^{-2}
\frac{x^3-y^3}{x-y} | x^2+xy+y^2
x^2+xy+y^2 | \frac{x^3-y^3}{x-y}
\log_x y | \frac{\ln y}{\ln x}
\frac{a^2-b^2}{a+b} | a-b
\lfloor n/2 \rfloor | \frac{2n-1+(-1)^n}{4}
\frac{2n-1+(-1)^n}{4} | \lfloor n/2 \rfloor
\ln x | \ln|x|
\frac{n(n+1)}{2} | \sum_{i=1}^{n} i
\frac{n(n+1)(2n+1)}{6} | \sum_{j=1}^{n} j^2
|x-1| | \sqrt{(x-1)^2}
\lfloor n/2\rfloor | \sum_{k=1}^{n}\frac{1+(-1)^k}{2}
\sqrt{x^2} | |x|
\ln(1+x)-\ln(1-x) | \ln\frac{1+x}{1-x}
\ln\frac{1+x}{1-x} | \ln(1+x)-\ln(1-x)
2\sqrt{x} | \frac{2x}{\sqrt{x}}
x^{3/2} | x\sqrt{x}
\frac{1}{\sqrt{x}} | x^{-1/2}
\sqrt{\frac{a}{b}} | \frac{\sqrt{a}}{\sqrt{b}}
\frac{\sqrt{a}}{\sqrt{b}} | \sqrt{\frac{a}{b}}
\log_a b | \frac{\ln b}{\ln a}
x^x | e^{x\ln x}
e^{x\ln x} | x^x
\frac{2^{n+1}-1}{n+1} | \sum_{k=0}^n \frac{1}{k+1}\binom{n}{k}
n2^{n-1} | \sum_{k=1}^n k\binom{n}{k}
n2^{n-1} | \sum_{k=0}^n k\binom{n}{k}
\frac{(n+1)!}{2} | \prod_{k=3}^{n+1} k
\binom{n+k-1}{k} | \frac{(n+k-1)!}{k!(n-1)!}
\frac{(a+b+c)!}{a!b!c!} | \binom{a+b+c}{a}\binom{b+c}{b}
n^2-n | 2\binom{n}{2}
p(p-1) | \frac{p!}{(p-2)!}
\frac{1}{k!} | \frac{1}{k\cdot (k-1)!}
\cos x | \frac{e^{ix}+e^{-ix}}{2}
\frac{\sin 2x}{2\cos x} | \sin x
\sin x | \frac{\sin 2x}{2\cos x}
\csc x | \frac{1}{\sin x}
\tan\frac{x}{2} | \frac{1-\cos x}{\sin x}
\frac{1-r^n}{1-r} | \sum_{k=0}^{n-1} r^k
"""

OTHER = r"""
n | n^7\cdot n!\cdot(1-n)!
n | \sum_{k=1}^{n^9}1
n(n+1)/2 | \sum_{k=1}^{n^9}k
n! | \sum_{k=1}^{n^9}k
2n-1 | \sum_{k=1}^{n^9}k
\gcd(n,6) | \sum_{k=1}^{n^9}k
n^2 | \sum_{k=1}^{n^9}1
mn | \sum_{k=1}^{n^9} m
m+n | m n! (1-n)! n^7 + n
\gcd(m,n) | n!(1-n)!m!(1-m)!
x | \sum_{k=1}^{x^9}1
x^2 | x^7 x! (1-x)!
n | 1+\sqrt{-(n-1)^2}
mn | m(1+\sqrt{-(n-1)^2})
mn | m^2+\sqrt{-(m-n)^2}
x | 1+\ln(1-(x-1)^2)+\sqrt{-(x-1)^2}
n+1 | (n+1)(n!)(2-n)!/(n!(2-n)!)
n | \binom{n}{1}\cdot\frac{(3-n)!}{(3-n)!}
n^2 | n^2 \cdot \frac{(5-n)!}{(5-n)!}
n | n\cdot\prod_{k=1}^{n^9} 1
n | \frac{n\cdot n!(1-n)!}{n!(1-n)!}
n | n\cdot\gcd(n,1-n)^{0}
2^n | \prod_{k=1}^{n^9} 2
n! | \prod_{k=1}^{n^9} k
\frac{1}{n} | \sum_{k=1}^{n^9}1
F_n | \sum_{k=1}^{n^9}1
3n-2 | \prod_{k=1}^{n^{8}}k
n^3 | n\cdot\binom{0}{n-1}\cdot 1
|x| | \sqrt{x}^2
|x| | \frac{x\sqrt{x}}{\sqrt{x}}
|n| | \sqrt{n}^2
\max(x,3) | \frac{x\sqrt{x-3}}{\sqrt{x-3}}
\ln|x| | \ln x
n^2 | n!
n | \frac{n!}{(n-1)!}+1
x+1 | \frac{(x+1)!}{x!}
"""
GOLDS = [
    "n",
    "n^2",
    "n!",
    "2n-1",
    r"\frac{n(n+1)}{2}",
    r"\gcd(n,6)",
    "2^{n-1}",
    r"\binom{n+1}{2}",
    r"\sqrt{n}",
    "1",
    "n+m-1",
]
CUTS = [  # each has a value at a few natural numbers alone
    r"n!(1-n)!",
    r"n!(2-n)!",
    r"\binom{1-n}{0}\binom{n}{0}",
    r"\sum_{k=1}^{n^9} 1",
    r"\prod_{k=1}^{n^{10}} k",
    r"\sum_{k=n}^{1} k",
    r"\gcd(n,1-n)",
    r"\operatorname{lcm}(n,1-n)",
]


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_a_gold_answer_may_lack_single_points_or_be_of_integers(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_a_domain_cut_to_few_points_is_not_correct(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT


@pytest.mark.parametrize("cut", CUTS)
def test_no_gold_answer_accepts_a_function_of_a_few_points(cut):
    accepted = [gold for gold in GOLDS if compare(gold, cut)[0] is Outcome.CORRECT]
    assert accepted == []


@pytest.mark.parametrize(("gold", "cut"), list(product(GOLDS, CUTS[:2])))
def test_a_gold_answer_cut_to_a_few_points_is_not_correct(gold, cut):
    """The gold answer itself, times one where the cut has a value."""
    assert compare(gold, rf"({gold})\frac{{{cut}}}{{{cut}}}")[0] is not Outcome.CORRECT
