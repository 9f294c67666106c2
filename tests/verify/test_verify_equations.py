"""Equations in any direction, quantities on the left side of a value, and chains."""

from __future__ import annotations

import pytest

from outrider.record import Outcome
from outrider.verify.equality import compare

pytest.importorskip("math_verify")

SAME = r"""
3x-y=2 | y=3x-2
y=2x | 2x=y
y=2x | 2x-y=0
y=2x+1 | y-1=2x
y = -\frac{3}{4}x+5 | 3x+4y=20
y=2x+1 | 2x+1
x+1=6 | x=5
x=5 | 5
x=5 | 5=x
x^2+y^2=1 | 2x^2+2y^2=2
\frac{x^2}{4}+\frac{y^2}{9}=1 | 9x^2+4y^2=36
y^2=8x | x=\frac{y^2}{8}
ax+by+c=0 | -ax-by=c
F=ma | ma=F
z = x+y | x = z-y
PV=nRT | nRT=PV
x=1,y=2 | y=2,x=1
x-2y+3=0 | y=\frac{x+3}{2}
y-4 = 3(x-1) | y=3x+1
\theta=2\phi | 2\phi=\theta
7 | m+n=7
7 | 7=m+n
7 | AB^2=7
7 | \text{Area}=7
7 | f(2)=7
30 | \angle ABC = 30
30 | \angle ABC = 30^\circ
\frac12 | P(A)=1/2
5 | |AB|=5
5 | |z|=5
7 | m+n=3+4=7
7 | 3+4=7
5 | 2+3=5
\frac{1}{2} | \sin\theta=\frac{1}{2}
\frac{3}{5} | \cos A = \frac{3}{5}
\frac{1}{2} | \sin(30^\circ)=\frac{1}{2}
12 | xy=12
25 | a^2+b^2=25
10 | a+b+c=10
10 | x_1+x_2=10
3 | \mathbb{E}[X]=3
3 | E[X]=3
\frac{1}{3} | \Pr(A\cap B)=\frac13
7 | |A\cup B|=7
7 | n(A\cup B)=7
12 | [ABC]=12
12 | S_{\triangle ABC}=12
12 | \text{Area of }\triangle ABC = 12
\frac{2}{3} | \frac{AB}{CD}=\frac23
\{1,2\} | A\cap B=\{1,2\}
(1,2) | (m+n,mn)=(1,2)
2x+1 | f'(x)=2x+1
2x | \frac{dy}{dx}=2x
7 | \gcd(a,b)=7
7 | \gcd(14,21)=7
42 | \lfloor x\rfloor+\lfloor y\rfloor = 42
\frac{1}{2} | \int_0^1 x\,dx=\frac12
1 | \lim_{x\to 0}\frac{\sin x}{x}=1
385 | \sum_{k=1}^{10} k^2=385
5 | \max(a,b)=5
\sqrt{7} | AC=\sqrt7
50\% | x+y=50\%
7, 12 | m+n=7, mn=12
m+n=7 | m+n=7
m+n=7 | n+m=7
3 | f(f(2))=3
-3 | f(-1)=-3
8 | 2^{a+b}=8
3 | \log_2(ab)=3
120^\circ | \angle A+\angle B=120^\circ
9 | \det(A)=9
9 | \operatorname{tr}(A)=9
13 | P(3)=13
13 | P(x)+Q(x)=13
x^2+1 | g(x)=x^2+1
a_n=2n+1 | a_{n}=2n+1
\frac{\pi}{3} | \arg(z)=\frac{\pi}{3}
\frac{3}{4} | \frac{a}{b}=\frac34
[0,2\pi) | 0\le\theta<2\pi
0\le\theta<2\pi | [0,2\pi)
(-\infty,1) | \lambda<1
(1,2) | 1<\alpha<2
(3,\infty) | \theta > 3
(1,2) | 1<x_1<2
[0, \frac{\pi}{2}] | 0\leq \theta \leq \frac{\pi}{2}
y=-2x+7 | 2x+y=7
y=-2x+7 | 2x + y - 7 = 0
y=\frac{1}{2}x-3 | x-2y=6
y=\frac{1}{2}x-3 | x - 2y - 6 = 0
3x+4y-12=0 | y = -\frac{3}{4}x+3
(x-1)^2+(y+2)^2=9 | x^2+y^2-2x+4y-4=0
(x-1)^2+(y+2)^2=9 | (x-1)^2 + (y+2)^2 - 9 = 0
y=x^2 | x^2-y=0
y = x^2-4x+3 | y+1=(x-2)^2
y^2=4x | x=\frac14 y^2
x^2-y^2=1 | y^2=x^2-1
x=2y+1 | y=\frac{x-1}{2}
2a+3b=c | c=2a+3b
A=\pi r^2 | \pi r^2=A
C=\frac{5}{9}(F-32) | F=\frac{9}{5}C+32
x+y+z=6 | z=6-x-y
f(x)=2x+1 | 2x+1=f(x)
f(x)=2x+1 | 2x+1
a_n=3n-1 | 3n-1
\frac{x}{3}+\frac{y}{4}=1 | 4x+3y=12
x-y=0 | y=x
8 | a+b+c=8
8 | a + b = 8
8 | x^2+y^2 = 8
8 | \text{Answer} = 8
8 | \text{Perimeter} = 8
8 | g(3) = 8
8 | f^{-1}(3)=8
8 | f(g(2))=8
8 | \triangle ABC = 8
8 | [ABCD]=8
8 | \overline{AB}=8
8 | AB+BC=8
8 | AB \cdot CD=8
8 | \frac{m}{n}=8
8 | |x-y|=8
8 | \sqrt{a^2+b^2}=8
8 | S_{10}=8
8 | \phi(15)=8
8 | \phi(15)=\phi(3)\phi(5)=2\cdot4=8
8 | N=2^3=8
8 | 2^3=8
8 | \binom{8}{1}=8
\frac{3}{8} | P(A|B)=\frac{3}{8}
\frac{3}{8} | P(X=2)=\frac{3}{8}
\frac{3}{8} | P(X \ge 2) = \frac38
8 | \mathrm{lcm}(a,b)=8
8 | \operatorname{Var}(X)=8
8 | \text{max value} = 8
8 | \tan\alpha = 8
8 | \cos^2 A+\cos^2B = 8
8 | m\angle ABC = 8^\circ
8 | \angle BAC=8^{\circ}
(2,3) | (x,y)=(2,3)
(2,3) | x=2, y=3
2, 3 | x=2 \text{ or } x=3
2, 3 | x_1=2, x_2=3
\{2,3\} | x\in\{2,3\}
y=2x | 2x = y
x+y=10 | y=10-x
2x-3y+6=0 | y=\frac{2x+6}{3}
x^2+y^2-4x=0 | (x-2)^2+y^2=4
r=2\cos\theta | \cos\theta=\frac{r}{2}
z=\bar{z} | \bar{z}=z
PV = nRT | nRT = PV
\frac{x^2}{16}-\frac{y^2}{9}=1 | 9x^2-16y^2=144
y=e^x | e^x-y=0
a_{n+1}=2a_n+1 | a_{n+1}-2a_n=1
f(x+y)=f(x)+f(y) | f(x)+f(y)=f(x+y)
y = 3 | y=3
x=2, y=3 | y=3, x=2
4x+3y=24 | \frac{x}{6}+\frac{y}{8}=1
1 | \frac{x^2}{x^2}
n! | n \cdot (n-1)!
2n | \frac{(2n)!}{(2n-1)!}
(n-1)! | \frac{n!}{n}
\frac{n!}{n} | (n-1)!
\binom{2n}{n} | \frac{(2n)!}{(n!)^2}
\frac{n^2(n+1)^2}{4} | \left(\sum_{k=1}^n k\right)^2
\frac{n^2(n+1)^2}{4} | \sum_{k=1}^n k^3
3^n | \sum_{k=0}^{n} \binom{n}{k} 2^k
F_{n+1} | F_{n+1}
m!n! | n!m!
\frac{m!}{n!} | \frac{m!}{n!}
\frac{(m+n)!}{m!\,n!} | \binom{m+n}{m}
"""

OTHER = r"""
y=2x | x=2y
y=2x | y=-2x
y=2x | x(y-2x)=0
y=2x | (y-2x)^2=0
y=2x | 0=0
y=2x | x=x
0=0 | x=x
0=0 | 1=1
x-1=0 | (x-1)^2=0
(x-1)^2=0 | x-1=0
x=5 | x+1=6
x=5 | 2x=10
x=5 | y=5
x=5 | x=-5
x+y=5 | 5
x^2+y^2=1 | x^2+y^2=2
y^2=8x | y=\sqrt{8x}
y-4 = 3(x-1) | y=3x-1
7 | m+n=3+5=7
7 | m+n=7=8
7 | m+n=8
7 | 9=7
7 | 7=7
k=3 | (3)=3
3 | (3)=3
4 | x^{2}=4
4 | \frac{1}{x}=4
9 | x_{1}^{2}=9
14 | 2x=14
5 | x+1=5
24 | n!=24
\frac{1}{2} | \cos(30^\circ)=\frac{1}{2}
6 | \gcd(14,21)=6
384 | \sum_{k=1}^{10} k^2=384
x=7 | m+n=7
m+n=7 | m-n=7
x^2+1 | g(x)=x^2-1
[0,2\pi) | 0\le\theta\le 2\pi
[0,2\pi) | 0<\theta<2\pi
(3,\infty) | 2\theta > 6
y=-2x+7 | 2x-y=7
y=-2x+7 | 2x+y=-7
x^2+y^2=9 | x^2+y^2=3
y=x^2 | x=\sqrt{y}
y=x | y^2=x^2
y=x | x(y-x)=0
y=x | \frac{y}{x}=1
x+y=3 | x+y=3+z
x-y=0 | 0=0
y=2x | y-2x
y=x^2 | y=x^3
8 | a+b=9
8 | a+b=2+5=8
8 | 2^3=9
8 | 3+4=8
8 | x^3=8
8 | 3x=8
8 | x+2=8
8 | 8=8
x=8 | y=8
8 | a+b=8, a-b=2
a+b=8 | 8
x+y=10 | x=10-2y
\frac{x^2}{16}-\frac{y^2}{9}=1 | 16x^2-9y^2=144
y=e^x | x=\ln y
f(x+y)=f(x)+f(y) | f(x+y)=f(x)f(y)
x = 3 | x^2=9
x=2, y=3 | x=3, y=2
n! | n^n
\binom{2n}{n} | 4^n
3^n | \sum_{k=0}^{n} \binom{n}{k}
n | \sum_{k=1}^{n^{12}} 1
n^2 | \sum_{k=1}^{2^{n^3}} 1
1 | n!(1-n)!
m^2 | m^5 m!(1-m)!
p | \frac{p!(1-p)!}{1}
k | \binom{1}{k}
2^k | \binom{1}{k}+k
a+b | a!(1-a)!(a+b)
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_the_same_equation_or_the_value_of_a_quantity(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_another_equation_or_a_wrong_chain(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT


QUANTITIES = [
    r"m+n",
    r"a+b+c",
    r"AB^2",
    r"AB",
    r"\overline{AB}",
    r"|AB|",
    r"|\overline{AB}|",
    r"\text{Area}",
    r"\text{area of the triangle}",
    r"\text{Perimeter}",
    r"f(2)",
    r"f(-2)",
    r"f(x+1)",
    r"f'(2)",
    r"f''(0)",
    r"f(g(3))",
    r"(f\circ g)(3)",
    r"g^{-1}(5)",
    r"\angle ABC",
    r"\angle A",
    r"m\angle A",
    r"m\angle ABC",
    r"\triangle ABC",
    r"[ABC]",
    r"S_{ABC}",
    r"S_{\triangle ABC}",
    r"V",
    r"V_{\text{cone}}",
    r"P(A)",
    r"P(A\mid B)",
    r"P(A \cap B)",
    r"P(X=3)",
    r"P(X>3)",
    r"\Pr(X=3)",
    r"\mathbb{P}(A)",
    r"E[X]",
    r"\mathbb{E}[X]",
    r"E(X)",
    r"\operatorname{Var}(X)",
    r"\sigma^2",
    r"\mu",
    r"\lambda",
    r"\lambda_1+\lambda_2",
    r"x+y",
    r"xy",
    r"x^2+y^2",
    r"\frac{x}{y}",
    r"x_1x_2",
    r"x_1+x_2",
    r"|z|",
    r"|z|^2",
    r"|z_1-z_2|",
    r"\operatorname{Re}(z)",
    r"\sin\theta",
    r"\cos A",
    r"\tan(A+B)",
    r"\sin^2 x",
    r"\log_a b",
    r"\gcd(m,n)",
    r"\max f",
    r"\min_{x} f(x)",
    r"\max\{a,b\}",
    r"\lim_{x\to 0} f(x)",
    r"\int_0^1 f(x)\,dx",
    r"\sum_{i=1}^{n} a_i",
    r"a_{10}",
    r"a_n",
    r"S_n",
    r"\det A",
    r"\det(A)",
    r"\dim V",
    r"\|v\|",
    r"\vec{a}\cdot\vec{b}",
    r"\mathbf{a}\cdot\mathbf{b}",
    r"n(A\cup B)",
    r"|A\cup B|",
    r"\#S",
    r"|S|",
    r"\binom{n}{k}",
    r"N",
    r"T_{\max}",
    r"x_{\min}",
    r"a:b",
    r"AB:CD",
    r"\frac{AB}{CD}",
    r"\frac{[ABC]}{[DEF]}",
    r"\text{Total cost}",
    r"\text{probability}",
    r"d(A,B)",
    r"d(P,\ell)",
    r"\phi(12)",
    r"\varphi(n)",
    r"\arg z",
    r"\text{Answer}",
    r"\boxed{x}",
    r"10a+b",
    r"\overline{abc}",
    r"2a+3b",
    r"(a+b)^2",
    r"\sqrt{a^2+b^2}",
    r"a^b",
    r"p(1)",
    r"P(1)+P(-1)",
    r"\theta",
    r"\alpha+\beta",
    r"\cos\alpha\cos\beta",
    r"k_{\max}",
    r"R^2+r^2",
    r"AP\cdot PB",
    r"\frac{1}{a}+\frac{1}{b}",
    r"\text{LCM}(a,b)",
    r"\text{lcm}(4,7)",
    r"F_{7}",
    r"\left|\frac{z}{w}\right|",
    r"\text{slope}",
    r"\text{The remainder}",
    r"y(0)",
]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_on_the_left_claims_each_value_behind_it(quantity):
    for value in ("28", "27+1=28", "28 = 14+14"):
        assert compare("28", f"{quantity} = {value}")[0] is Outcome.CORRECT
    for value in ("29", "26+1=28", "28=29"):
        assert compare("28", f"{quantity} = {value}")[0] is not Outcome.CORRECT
