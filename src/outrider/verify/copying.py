r"""Whether a right answer is only a formula of the question, copied: 99^2+99+1 is 9901, but not worked out.

Structures are compared without brackets, the order of summands and factors, + 0, times 1, / 1, to the power of 1, and
two minus signs. A copy is an answer that contains a formula of the question, or some of its summands or factors, not
worked out, with the value of the right answer: so \frac{2(99^2+99+1)}{2} is one too. Parts of the right answer itself
are no copies, and neither are numbers, lists and words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from outrider.verify.answers import LONGEST, normalise, number
from outrider.verify.latex import UnreadableError, clean, expression
from outrider.verify.nodes import is_name, read, sides, split
from outrider.verify.points import same_value
from outrider.verify.typography import TEXT, plain

MOST_PIECES = 80  # formulas of a question that are read, the shortest ones left out first

_OPERATION = re.compile(r"[-+*/^!|\\]")
_FORMULA = re.compile(r"\$\$?([^$]+)\$\$?|\\\[(.*?)\\\]|\\\((.*?)\\\)", re.DOTALL)
_IN_PROSE = re.compile(r"[-(]*[0-9.]+[)!]*(?:\s*[-+*/^]\s*[-(]*[0-9.]+[)!]*)+")  # 99^2 + 99 + 1, without dollars
_PROSE = re.compile(rf"{TEXT}\s*\{{[^{{}}]*\}}|\\(?:begin|end)\{{(?:align|equation|gather|split|multline)[a-z]*\*?\}}")
_OF_ANY_ORDER = {"gcd", "lcm", "Max", "Min"}
_RELATIONS = ("le", "leq", "ge", "geq", "ne", "neq", "equiv", "approx", "in", "to", "implies")
_BETWEEN = (*"=<>,;:?&", "\\\\", *(f"\\{name}" for name in _RELATIONS))


class Tree(NamedTuple):
    """An expression in one canonical form. ``key`` is its structure as text, ``parts`` are its operands."""

    key: str
    kind: str
    parts: tuple[Tree, ...]
    whole: Any


def copied(prompt: str, answer: str, golds: Sequence[str]) -> bool:
    r"""Whether a right answer is a formula of the prompt that is still to be worked out.

    >>> copied("What is $99^2 + 99 + 1$?", r"\frac{99+99^2+1}{1}", ["9901"])
    True
    >>> copied("Is $x=45^\\circ$?", r"45^\circ", ["45"]), copied("Factor $x^2-1$.", "(x+1)(x-1)", ["(x-1)(x+1)"])
    (False, False)
    """
    try:
        node = read(answer)
        while len(node.parts) == 1:  # a set of one
            node = node.parts[0]
        every, answer = sides(node.text), node.text if node.text in answer else answer
    except UnreadableError:
        every = []
    values = [side for side in every if not is_name(side)] or [answer]
    return all(_is_copy(prompt, value, golds) for value in values)


def _is_copy(prompt: str, answer: str, golds: Sequence[str]) -> bool:
    """Whether an answer without a name, or one side of it, is a copy."""
    text = _bare(answer)
    if not _OPERATION.search(text) or number(text) is not None or any(text == _bare(gold) for gold in golds):
        return False
    if "," not in text and re.search(rf"(?<![0-9.]){re.escape(text)}(?![0-9])", normalise(prompt)):
        return True
    tree = _tree_of(answer)
    if tree is None:
        return False
    rights = [known for gold in golds if (known := _tree_of(gold)) is not None]
    own = {part.key for right in rights for part in _parts(right)}
    return any(
        shared.key not in own and any(_equal(right.whole, shared.whole) for right in rights)
        for shared in _shared(tree, prompt)
    )


def _bare(text: str) -> str:
    return normalise(clean(text)).rpartition("=")[2]


def _equal(right: Any, other: Any) -> bool:
    try:
        return bool(same_value(right, other))
    except UnreadableError:
        return False


def _shared(tree: Tree, prompt: str) -> Iterator[Tree]:
    """Parts of the answer that occur in a formula of the prompt, each once: whole ones, then summands or factors."""
    seen: set[str] = set()
    known = list(_question(prompt))
    for part in _parts(tree):
        for other in known:
            shared = part if part.key == other.key else _in_common(part, other)
            if shared is not None and shared.key not in seen and _is_work(shared):
                seen.add(shared.key)
                yield shared


def _in_common(one: Tree, other: Tree) -> Tree | None:
    """The summands, or factors, that two sums or products share, where there are two or more."""
    if one.kind != other.kind or one.kind not in ("Add", "Mul"):
        return None
    left = Counter(part.key for part in one.parts) & Counter(part.key for part in other.parts)
    if left.total() < 2:
        return None
    parts = []
    for part in one.parts:
        if left[part.key] > 0:
            left[part.key] -= 1
            parts.append(part)
    return _joined(one.kind, parts)


def _is_work(tree: Tree) -> bool:
    """Whether something is left to work out: not just a number or a letter, with or without a sign."""
    parts = [part for part in tree.parts if tree.kind != "Mul" or part.key != "-1"]
    return len(parts) > 1 or (tree.kind != "Mul" and bool(parts))


@lru_cache(256)
def _question(prompt: str) -> tuple[Tree, ...]:
    """All parts of all formulas of a prompt, each once."""
    pieces = {
        piece.strip(" .")
        for one in _FORMULA.finditer(prompt)
        for piece in split(plain(_PROSE.sub(", ", next(filter(None, one.groups()), ""))), _BETWEEN)
    }
    pieces |= {one[0] for one in _IN_PROSE.finditer(prompt)}
    usable = sorted((p for p in pieces if _OPERATION.search(p) and len(p) <= LONGEST), key=len, reverse=True)
    parts: dict[str, Tree] = {}
    for piece in usable[:MOST_PIECES]:
        tree = _tree_of(piece)
        for part in _parts(tree) if tree is not None else ():
            if part.parts:
                parts.setdefault(part.key, part)
    return tuple(parts.values())


@lru_cache(4096)
def _tree_of(text: str) -> Tree | None:
    """The structure of one expression; None for anything else."""
    from sympy import Expr

    try:
        node = read(text)
        whole = None if node.parts or node.brackets else expression(node.text)
    except UnreadableError:
        return None
    return _tree(whole) if isinstance(whole, Expr) else None


def _parts(tree: Tree) -> Iterator[Tree]:
    yield tree
    for part in tree.parts:
        yield from _parts(part)


def _tree(expr: Any) -> Tree:
    from sympy import Symbol

    name = type(expr).__name__
    if name == "UnevaluatedExpr":
        return _tree(expr.args[0])
    if name in ("Add", "Mul"):
        return _joined(name, [_tree(arg) for arg in expr.args])
    if name == "Pow":
        return _power(*(_tree(arg) for arg in expr.args))
    if not expr.args:
        return Tree(str(expr), "letter" if expr.is_Symbol else "number", (), expr)
    if name in ("Sum", "Product"):  # the name of the index does not matter
        expr = expr.xreplace({limit[0]: Symbol("index", real=True) for limit in expr.limits})
    parts = tuple(
        _tree(arg) if hasattr(arg, "args") and hasattr(arg, "is_Symbol") else _bounds(arg) for arg in expr.args
    )
    if name in _OF_ANY_ORDER:
        parts = tuple(sorted(parts, key=lambda part: part.key))
    return Tree(f"{name}({','.join(part.key for part in parts)})", name, parts, expr)


def _bounds(arg: Any) -> Tree:
    return Tree(str(arg), "number", (), arg)


def _joined(kind: str, parts: Sequence[Tree]) -> Tree:
    """A sum or product of parts: flat, without neutral elements, sorted, with one sign."""
    import sympy

    neutral = "0" if kind == "Add" else "1"
    flat, minus = [inner for part in parts for inner in (part.parts if part.kind == kind else (part,))], 0
    if kind == "Mul":
        flat = [inner for part in flat for inner in _unsigned(part)]
        minus = sum(part.key == "-1" for part in flat) % 2
        flat = [part for part in flat if part.key != "-1"] + [_tree(sympy.Integer(-1))] * minus
    flat = sorted((part for part in flat if part.key != neutral), key=lambda part: part.key)
    if len(flat) == 1:
        return flat[0]
    if not flat:
        return _tree(sympy.Integer(int(neutral)))
    # of a rational number alone: minus pi is a product of two, to sympy as well
    if kind == "Mul" and len(flat) == 2 and minus and flat[1].whole.is_Rational:
        return _tree(-flat[1].whole)
    # not evaluated: sympy would work out what the answer has left to do
    whole = getattr(sympy, kind)(*(part.whole for part in flat), evaluate=False)
    return Tree(f"{kind}({','.join(part.key for part in flat)})", kind, tuple(flat), whole)


def _unsigned(part: Tree) -> list[Tree]:
    """A negative number as two factors."""
    import sympy

    if part.kind == "number" and part.key.startswith("-") and part.key != "-1":
        return [_tree(sympy.Integer(-1)), _tree(-part.whole)]
    return [part]


def _power(base: Tree, exponent: Tree) -> Tree:
    """A power. Of 1, or to the power of 1, it is the base; the inverse of a product is the product of inverses."""
    import sympy

    if "1" in (base.key, exponent.key):
        return base
    if exponent.key == "-1":
        if base.kind == "Mul":
            return _joined("Mul", [_power(part, exponent) for part in base.parts])
        if base.kind == "Pow" and base.parts[1].key == "-1":
            return base.parts[0]
        if base.key in ("1", "-1"):
            return base
    whole = sympy.Pow(base.whole, exponent.whole, evaluate=False)
    return Tree(f"Pow({base.key},{exponent.key})", "Pow", (base, exponent), whole)
