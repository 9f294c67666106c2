# ruff: noqa: RUF001 - Chinese signs are among them
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
\frac12 | cos 60°
\frac12 | cos(60°)
\frac12 | cos60°
\cos 20^\circ | cos(20^\circ)
B | 答案：B
\text{(B)} | 答案：B
\text{(B)} | 选B
B | 故选：B
12:30 \text{ PM} | 12:30 PM
2\sin x | 2 sin x
\frac{\sin x}{x} | sin(x)/x
\frac{\sin x}{x} | sinx/x
2^{x}\ln 2 | 2^x ln(2)
2^{x}\ln 2 | 2**x*log(2)
\frac{x^{n+1}}{n+1} | x**(n+1)/(n+1)
\sqrt{x+\sqrt{x}} | sqrt(x+sqrt(x))
\sqrt{x+\sqrt{x}} | √(x+√x)
\frac{\pi^2}{8} | pi^2/8
\frac{1}{\pi} | 1/pi
\frac{2}{\pi} | 2/π
\pi-2 | pi - 2
2-\pi | 2 - pi
-\pi | -pi
\pi e | pi*e
e^\pi | e**pi
e^{\pi} | exp(pi)
\ln(\pi) | ln(pi)
\ln(\pi) | log(pi)
x=\pm 2 | x = 2 or x = -2
x=\pm\sqrt{2} | x=sqrt(2), x=-sqrt(2)
\infty | +\infty
\infty | +oo
a^2+b^2 | a**2 + b**2
\frac{a}{b+c} | a/(b+c)
\sin(2x) | sin(2x)
\sin(2x) | 2sin(x)cos(x)
\cos^2x-\sin^2x | cos(2x)
\cosh x | (e^x+e^(-x))/2
\cosh x | (exp(x)+exp(-x))/2
e^{-(x-1)^2} | exp(-(x-1)**2)
\frac{1}{\sqrt{2\pi}} | 1/sqrt(2*pi)
\frac{1}{\sqrt{2\pi}}e^{-x^2/2} | exp(-x**2/2)/sqrt(2*pi)
n\log n | n*log(n)
n\log n | nlogn
n\ln n | nln(n)
O(n\log n) | O(n log n)
\log_2 n | log2(n)
\Theta(n^2) | Theta(n^2)
\omega_0 | omega_0
\frac{\omega}{2\pi} | omega/(2*pi)
\varepsilon | varepsilon
\epsilon_0 | epsilon_0
\hbar\omega | \hbar*omega
\sigma^2 | sigma**2
\sigma^2 | sigma^2
\mu | mu
\mu+\sigma | mu+sigma
\lambda_1 | lambda_1
\Gamma(1/2) | sqrt(pi)
\sqrt\pi | sqrt(pi)
x\le-1 | x<=-1
x\in(-\infty,-1] | x<=-1
\{1,2\} | {1, 2}
3\cdot 5 | 3*5
\frac{7}{2} | 7 / 2
2x^3 | 2*x^3
2x^{10} | 2*x^10
2x^{10} | 2x^10
x^{-2} | x^-2
x^{-2} | x^(-2)
x^{1/2} | x^(1/2)
x^{1/2} | x^0.5
|x|<1 | abs(x)<1
1950^\circ C | \left( 1950^\circ C \right)
5\text{ cm} | (5\text{ cm})
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
\cos 20^\circ | \cos 20
\frac12 | sin 60°
B | 答案：C
7 | 7\text{ is wrong}
\frac{a}{b+c} | a/b+c
x^{12} | x^1*2
x^{-2} | x^2
2\sin x | 2 sin(y)
\pi e | pi+e
e^\pi | pi^e
\frac{1}{\sqrt{2\pi}} | 1/sqrt(2)*pi
\sigma^2 | sigma*2
\log_2 n | log10(n)
n\log n | log(n)
|x|<1 | x<1
\sqrt\pi | pi
\mu+\sigma | mu*sigma
\cosh x | (e^x-e^(-x))/2
\cos^2x-\sin^2x | sin(2x)
\omega_0 | omega_1
1950^\circ C | (1950^\circ)
5\text{ cm} | (5\text{ m})
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_a_gold_answer_in_the_writing_of_a_model(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_a_wrong_answer_in_the_writing_of_a_model(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT
