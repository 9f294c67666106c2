"""Answers as models write them into a box, right and wrong."""

from __future__ import annotations

import pytest

from outrider.record import Outcome
from outrider.verify.equality import compare

pytest.importorskip("math_verify")

SAME = r"""
12 | 12\text{ cm}
12\text{ cm} | 12\,\text{cm}
12 | x = 12
\frac{3}{4} | \dfrac{3}{4}
\frac{3}{4} | 0.75
\frac{3}{4} | 3/4
-3 | x = -3
2\sqrt{3} | 2*sqrt(3)
2\sqrt{3} | 2sqrt(3)
2\sqrt{3} | 2 sqrt(3)
2\sqrt{3} | sqrt(12)
\frac{\sqrt{3}}{3} | sqrt(3)/3
\frac{\sqrt{3}}{3} | 1/sqrt(3)
4\pi | 4pi
4\pi | 4 pi
4\pi | 4*pi
4\pi | 4\cdot\pi
\frac{4}{3}\pi r^3 | (4/3)*pi*r^3
\frac{4}{3}\pi r^3 | 4/3*pi*r**3
\frac{4}{3}\pi r^3 | \frac{4\pi r^3}{3}
(x-2)(x+3) | (x+3)*(x-2)
(x-2)(x+3) | x^2+x-6
x^2+x-6 | x**2 + x - 6
\ln 2 | ln2
\ln 2 | log(2)
\ln 2 | \log_e 2
e | exp(1)
e^{-1} | 1/e
e^{-1} | exp(-1)
\frac{1}{e} | e**-1
\sin 1 | sin(1)
\sin^2\theta | sin^2(theta)
\sin^2\theta | (sin(theta))^2
\tan^{-1}\frac{3}{4} | arctan(3/4)
\tan^{-1}\frac{3}{4} | atan(3/4)
\arccos(1/3) | acos(1/3)
\frac{1}{2}\ln 3 | ln(3)/2
\frac{1}{2}\ln 3 | ln(sqrt(3))
2^{100}-1 | 2**100 - 1
(-\infty, 0) \cup (1, \infty) | (-inf, 0) U (1, inf)
(-\infty, 0) \cup (1, \infty) | (-infty,0) \cup (1,infty)
(-\infty, 0) \cup (1, \infty) | x<0 or x>1
(-\infty, 0) \cup (1, \infty) | x < 0 \text{ or } x > 1
x<0 \text{ or } x>1 | (-\infty, 0) \cup (1, \infty)
-1\le x\le 3 | [-1,3]
-1\le x\le 3 | -1 <= x <= 3
[-1,3] | -1<=x<=3
n\ge 5 | n >= 5
k\pi, k\in\mathbb{Z} | k\pi, k \in \mathbb{Z}
f(x)=x^2 | f(x) = x**2
f(x)=x^2 | x^2
y=\sin x | y = sin(x)
a=2,b=3 | a = 2, b = 3
a=2,b=3 | b=3, a=2
(2,3) | (a,b)=(2,3)
6 | \boxed{6}
6 | \text{6 ways}
6 | 6\text{ (ways)}
6 | 6\ \text{ways}
6 | 6.
6 | 6.0
6 | +6
6 | \mathbf{6}
6 | \$6
\$6.50 | 6.50
\$6.50 | \$6.5
6{,}500 | 6,500
6500 | 6 500
25\% | 25
25\% | 0.25
25\% | \frac14
3:2 | 3/2
3:2 | 3 : 2
3:2 | 3 \text{ to } 2
\text{(B)} | B
\text{B} | (B)
\text{Monday} | Monday
\text{True} | true
5 \times 10^{-3} | 0.005
5 \times 10^{-3} | 5e-3
5 \times 10^{-3} | 5*10^-3
5 \times 10^{-3} | 5*10^(-3)
1+2i | 1+2*i
1+2i | 2i+1
\frac{1+i}{\sqrt2} | e^{i\pi/4}
\vec{i}+2\vec{j} | 2\vec{j}+\vec{i}
\langle 1,2,3\rangle | (1,2,3)
\langle 1,2,3\rangle | <1,2,3>
\begin{pmatrix}1\\2\end{pmatrix} | \begin{bmatrix}1\\2\end{bmatrix}
\{1,2,3\} | {1,2,3}
\{1,2,3\} | 1,2,3
\emptyset | \varnothing
\emptyset | \{\}
\frac{dy}{dx}=2x | 2x
\frac{d}{dx} | \frac{d}{dx}
C_1 e^{x}+C_2e^{-x} | C_1*exp(x) + C_2*exp(-x)
C_1 e^{x}+C_2e^{-x} | y = C_1 e^x + C_2 e^{-x}
y = C_1 e^{x} | C_1 e^{x}
x^2\sin x + C | x^2*sin(x)+C
10! | 3628800
\binom{10}{3} | 120
2^{n}-1 | 2^n - 1
\lfloor \sqrt{n} \rfloor | floor(sqrt(n))
n \bmod 3 | n mod 3
\max\{a,b\} | max(a,b)
30^\circ | 30 degrees
30^\circ | 30°
30^\circ | 30
30^\circ | \angle A = 30^\circ
30^\circ | 30^{\circ}
30^\circ | \theta = 30°
3:2 | 3 to 2
e^{-x} | e^-x
\lim_{x\to 0^-} f(x) | \lim_{x\to 0^-} f(x)
"""

OTHER = r"""
30^\circ | 31^\circ
30^\circ | \angle A = 31^\circ
12 | 12 or 13
12 | 12 \text{ or } 13
12 | x>12
12 | 12x
12 | \pm 12
12 | 12!
12 | 1.2
12 | 12:00
12 | 12+x
12 | -12
12 | 12\text{ and a half}
12 | 12\frac{1}{2}
4\pi | 4
4\pi | 4p
4\pi | 4pie
2\sqrt{3} | 2*sqrt(2)
\ln 2 | log(3)
\ln 2 | log10(2)
e^{-1} | exp(1)
(-\infty, 0) \cup (1, \infty) | (-inf, 0] U (1, inf)
-1\le x\le 3 | (-1,3)
[-1,3] | -1<x<=3
a=2,b=3 | a=3,b=2
(2,3) | (3,2)
3:2 | 2:3
\text{(B)} | C
5 \times 10^{-3} | 5e3
1+2i | 1-2i
\{1,2,3\} | \{1,2\}
\{1,2,3\} | 1,2,3,4
\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}2\\1\end{pmatrix}
y = C_1 e^{x} | C_1 e^{-x}
\sin^2\theta | sin(theta^2)
\frac{4}{3}\pi r^3 | (4/3)*pi*r^2
2^{100}-1 | 2**100
\lfloor \sqrt{n} \rfloor | ceil(sqrt(n))
f(x)=x^2 | f(x)=2x
\frac{1}{2}\ln 3 | ln(3)
\arccos(1/3) | cos(1/3)
6 | \text{6 dozen}
6 | 6\text{ (wrong)}
6 | \text{not 6}
6 | \text{I don't know, maybe }6
6 | 6k
6 | 6?
6 | ?
6 | \text{six or seven}
3:2 | 2 to 3
(1,2,3) | <3,2,1>
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_a_right_answer_in_the_writing_of_a_model(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_a_wrong_answer_in_the_writing_of_a_model(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT
