r"""Builds expression trees in a canonical form, so that two notations of a formula have equal trees.

Nothing is computed: 1 + 2 and 3 have different trees. Expressions have equal trees if they differ only in brackets, in
the order of summands and factors, or in operations without effect: plus 0, times 1, divided by 1, first powers and
double minus signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from outrider.verify.latex import UnreadableError, expression
from outrider.verify.nodes import read

OF_ANY_ORDER = frozenset({"gcd", "lcm", "Max", "Min"})


class Tree(NamedTuple):
    """An expression in canonical form. ``key`` is its structure as text, and ``parts`` are its operands."""

    key: str
    kind: str
    parts: tuple[Tree, ...]
    whole: Any


@lru_cache(4096)
def tree_of(text: str) -> Tree | None:
    """Return the tree of a single expression; None for any other text."""
    from sympy import Expr

    try:
        node = read(text)
        whole = None if node.parts or node.brackets else expression(node.text)
    except UnreadableError:
        return None
    return _tree(whole) if isinstance(whole, Expr) else None


def parts_of(tree: Tree) -> Iterator[Tree]:
    """Yield the tree itself and all its subtrees."""
    yield tree
    for part in tree.parts:
        yield from parts_of(part)


def _tree(expr: Any) -> Tree:
    from sympy import Symbol

    name = type(expr).__name__
    if name == "UnevaluatedExpr":
        return _tree(expr.args[0])
    if name in ("Add", "Mul"):
        return joined(name, [_tree(arg) for arg in expr.args])
    if name == "Pow":
        return _power(*(_tree(arg) for arg in expr.args))
    if not expr.args:
        return Tree(str(expr), "letter" if expr.is_Symbol else "number", (), expr)
    if name in ("Sum", "Product"):  # the name of the index has no meaning, so every index gets the same name
        expr = expr.xreplace({limit[0]: Symbol("index", real=True) for limit in expr.limits})
    parts = tuple(
        _tree(arg) if hasattr(arg, "args") and hasattr(arg, "is_Symbol") else _bounds(arg) for arg in expr.args
    )
    if name in OF_ANY_ORDER:
        parts = tuple(sorted(parts, key=lambda part: part.key))
    return Tree(f"{name}({','.join(part.key for part in parts)})", name, parts, expr)


def _bounds(arg: Any) -> Tree:
    return Tree(str(arg), "number", (), arg)


def joined(kind: str, parts: Sequence[Tree]) -> Tree:
    """Join parts into a flat, sorted sum or product without neutral elements and with at most one minus sign."""
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
    # only for rational numbers: for sympy as well, minus pi is a product of two factors
    if kind == "Mul" and len(flat) == 2 and minus and flat[1].whole.is_Rational:
        return _tree(-flat[1].whole)
    # without evaluation, since sympy would compute what the answer has left uncomputed
    whole = getattr(sympy, kind)(*(part.whole for part in flat), evaluate=False)
    return Tree(f"{kind}({','.join(part.key for part in flat)})", kind, tuple(flat), whole)


def _unsigned(part: Tree) -> list[Tree]:
    """Split a negative number into two factors, -1 and the absolute value; return other parts whole."""
    import sympy

    if part.kind == "number" and part.key.startswith("-") and part.key != "-1":
        return [_tree(sympy.Integer(-1)), _tree(-part.whole)]
    return [part]


def _power(base: Tree, exponent: Tree) -> Tree:
    """Build a power. A first power becomes its base, and the inverse of a product becomes a product of inverses."""
    import sympy

    if "1" in (base.key, exponent.key):
        return base
    if exponent.key == "-1":
        if base.kind == "Mul":
            return joined("Mul", [_power(part, exponent) for part in base.parts])
        if base.kind == "Pow" and base.parts[1].key == "-1":
            return base.parts[0]
        if base.key in ("1", "-1"):
            return base
    whole = sympy.Pow(base.whole, exponent.whole, evaluate=False)
    return Tree(f"Pow({base.key},{exponent.key})", "Pow", (base, exponent), whole)
