"""Ratios, sets of sets, vectors, symbols of several signs, and logarithms without a base."""

from __future__ import annotations

import pytest

from outrider.record import Outcome, Problem
from outrider.verify.equality import compare
from outrider.verify.maths import Maths

pytest.importorskip("math_verify")

SAME = r"""
m_{\max}=7 | 7
m_{\max}=7 | m_{\max}=7
m_{\max}=7 | m_{max}=7
7 | m_{\max}=7
7 | m_{\text{max}}=7
m_{\text{max}}=7 | m_{\max} = 7
m_{\mathrm{min}}=3 | m_{\min}=3
10 M_\odot | 10M_{\odot}
2\times 10^{30} M_\odot | 2 \times 10^{30} M_{\odot}
M = 1.4 M_\odot | 1.4 M_\odot
v_{\text{esc}}=\sqrt{2GM/R} | \sqrt{\frac{2GM}{R}}
T_{\infty}=300 | T_\infty = 300
x_{*} = 3 | 3
5 | x^{*}=5
5 | x^* = 5
\ln 2 | \log 2
\log 2 | \ln 2
\frac{\ln 3}{2} | \frac{1}{2}\log 3
x\ln x - x | x\log x - x
2 | \log 100
1 | \log e
\log_{10} 2 | \log 2
\log_{10} 2 | \lg 2
\log 200 | 2+\log 2
1e-5 | 10^{-5}
1e-5 | 0.00001
10^{-5} | 1e-5
1e-5 | 1\times10^{-5}
6.02e23 | 6.02\times 10^{23}
1.5e3 | 1500
3e8 | 3\cdot 10^8
1E6 | 1000000
-2.5e-3 | -0.0025
1:2:3 | 2:4:6
1:2:3 | \frac12:1:\frac32
1:2:3 | 1 : 2 : 3
a:b:c=1:2:3 | 1:2:3
1:2:3 | a:b:c=1:2:3
3:4 | 3/4
6:8 | 3:4
\sqrt2:1:1 | 2:\sqrt2:\sqrt2
1:2:3:4 | 2:4:6:8
12:05 | 12:05
\{\{1\},\{2\}\} | \{\{2\},\{1\}\}
\{5\} | 5
5 | \{5\}
\nabla\cdot \mathbf{E} | \nabla \cdot \mathbf{E}
\nabla\cdot \mathbf{E}=0 | \nabla\cdot\mathbf{E} = 0
\mathbf{a}\cdot\mathbf{b} | \mathbf{b}\cdot\mathbf{a}
3\times 4 | 12
x\times y | xy
2\times\frac{3}{4} | \frac32
2:3:4 | 4:6:8
2:3:4 | 1:1.5:2
2:3 | \frac{2}{3}
2:3 | 2/3
2:3 | 4:6
3 : 4 : 5 | 3:4:5
x:y:z=3:4:5 | 3:4:5
\{\{1\},\{2,3\}\} | \{\{2,3\},\{1\}\}
\{(1,2),(3,4)\} | (3,4),(1,2)
\nabla\times\mathbf{B}=\mu_0\mathbf{J} | \nabla \times \mathbf{B} = \mu_0 \mathbf{J}
\vec{u}\cdot\vec{v} | \vec{v}\cdot\vec{u}
T_{\min}=20 | 20
T_{\text{min}}=20 | T_{\min} = 20
5 M_{\odot} | 5 M_\odot
R_\oplus | R_{\oplus}
F_{\text{net}}=ma | ma
F_{\text{net}} | F_{net}
[0,\pi] | 0 \le x \le \pi
[0,\pi] | 0 \leqslant \phi \leqslant \pi
(0,2\pi] | 0<\theta\le2\pi
\frac{\ln 2}{3} | \frac{\log 2}{3}
\log_2 3 | \frac{\log 3}{\log 2}
3 | \log 1000
1-\ln 2 | 1-\log 2
1e3 | 1000
2.5e-4 | 0.00025
2.5e-4 | 2.5\times 10^{-4}
1e-10 | 10^{-10}
p = 5, q = 2 \quad \text{and} \quad p = 7, q = 2 | p=5,q=2;p=7,q=2
p=5,q=2;p=7,q=2 | (5,2),(7,2)
x=1,y=2,x=3,y=4 | (1,2),(3,4)
x=1,y=2,x=3,y=4 | x=3,y=4,x=1,y=2
x=1, x=2 | x=2, x=1
\begin{pmatrix}1 & 2 \\3 & 4\end{pmatrix} | \left[\begin{array}{cc}1 & 2 \\3 & 4\end{array}\right]
\begin{pmatrix}1 \\3\end{pmatrix} | \left(\begin{array}{c}1\\3\end{array}\right)
\\left(\\frac{1}{5},\\frac{1}{6}\\right) | (1/5,1/6)
"""

OTHER = r"""
m_{\max}=7 | m_{\min}=7
10 M_\odot | 10 M_\oplus
10 M_\odot | 10 M
\ln 2 | \lg 2
\ln 2 | \log_{10} 2
1+\ln 2 | \log 10 + \log 2 + 1 - 1
2 + \ln 2 | \log 100 + \log 2
\ln 2 | \log 3
1e-5 | 1e-6
1e-5 | e-5
1:2:3 | 1:3:2
1:2:3 | \frac{1}{6}
1:2:3 | 3:2:1
\frac16 | 1:2:3
1:2:3 | 1:2
1:2 | 1:2:3
1:2:3 | 1,2,3
1:2:3 | a:b:c=1:3:2
3:4 | 4:3
1:2:3:4 | 1:2:4:3
12:05 | 12:5
\{1,2\} | \{\{1\},\{2\}\}
{1,2} | {{1},{2}}
\{1,2\} | \{1,\{2\}\}
\{\{1\},\{2\}\} | \{1,2\}
5 | \{\{5\}\}
(1,2) | (\{1\},\{2\})
\nabla\cdot E | \nabla\times E
\nabla \cdot \mathbf{E} | \nabla \times \mathbf{E}
\nabla\times \vec{E} | \nabla\cdot\vec{E}
\nabla\cdot \mathbf{E}=0 | \nabla\times\mathbf{E} = 0
\nabla \phi | \nabla\cdot\phi
\vec{a}\cdot\vec{b} | \vec{a}\times\vec{b}
\mathbf{a}\times\mathbf{b} | \mathbf{a}\cdot\mathbf{b}
\mathbf{a}\times\mathbf{b} | \mathbf{b}\times\mathbf{a}
2:3:4 | 2:4:3
2:3:4 | \frac{1}{6}
2:3:4 | 2:3
2:3 | 3:2
3:4:5 | 5:4:3
3:4:5 | 3,4,5
3:4:5 | (3,4,5)
9:05 | 9:5
9:05\text{ a.m.} | 9:05\text{ p.m.}
\{\{1\},\{2,3\}\} | \{1,2,3\}
\{1,2,3\} | \{\{1,2,3\}\}
\{1,2,3\} | \{\{1\},\{2\},\{3\}\}
\{\emptyset\} | \emptyset
\{(1,2),(3,4)\} | \{1,2,3,4\}
\nabla\times\mathbf{B} | \nabla\cdot\mathbf{B}
\nabla\times\mathbf{B}=\mu_0\mathbf{J} | \nabla \cdot \mathbf{B} = \mu_0 \mathbf{J}
\nabla^2\phi | \nabla\phi
\vec{u}\times\vec{v} | \vec{u}\cdot\vec{v}
R_\oplus | R_\odot
(0,2\pi] | 0\le\theta<2\pi
\ln 10 | 1
\log 10 + \ln 10 | 2
1e-10 | 1e10
p=5,q=2;p=7,q=3 | p=5,q=3,p=7,q=2
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_the_same_structure(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_a_structure_that_only_looks_alike(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT


BOXES = [
    ("-2,-2", r"\boxed{-2} and \boxed{-2}", "last", True),
    ("-2", r"\boxed{-2} and \boxed{-2}", "last", True),
    ("-2,-2", r"\boxed{-2}", "last", False),
    ("1,2", r"\boxed{1}, \boxed{2}, \boxed{1}", "all", True),
    ("7", r"\boxed{7} then \boxed{7} so \boxed{7} \boxed{7} \boxed{7} and \boxed{7}", "all", True),
    ("1,1,2", r"\boxed{1}, \boxed{1} and \boxed{2}", "last", True),
    ("1,1,2", r"\boxed{1} and \boxed{2}", "last", False),
    ("1,1,2", r"\boxed{1}, \boxed{2} and \boxed{2}", "last", False),
    (r"\text{Evelyn}", r"\boxed{\text{Evelyn}} and \boxed{Evelyn}", "last", True),
    ("(1,1)", r"\boxed{1}, \boxed{1}", "last", True),
    ("x=1,y=1", r"$x=\boxed{1}$ and $y=\boxed{1}$", "last", True),
    (r"111, \!111", r"\boxed{111, \!111}", "last", True),
    ("A, B", r"\boxed{A}, \boxed{B}, \boxed{A}", "all", True),
]


@pytest.mark.parametrize(("gold", "text", "boxes", "right"), BOXES)
def test_equal_boxes_are_one_answer_unless_the_right_one_repeats(gold, text, boxes, right):
    assert Maths(boxes=boxes).verify(Problem("p", "", answer=gold), text, True).success is right
