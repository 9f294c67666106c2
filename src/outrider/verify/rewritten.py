r"""Detects formulas that equal another formula except for rewritten numbers, such as \sqrt{243-1} for \sqrt{242}.

Each number of the original formula may be replaced by an expression without variables that has the same value. For
example, 5 may be replaced by (6-1), \frac{5 \cdot 7}{7} or \sqrt{25}. Nested sums and products are flattened in both
formulas, so several summands may replace one number. The rewritten formula may also have additional operands. Nothing
else is evaluated, so 20+5 is not a rewriting of 9+16 although both are 25.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from outrider.verify.latex import UnreadableError
from outrider.verify.points import same_value
from outrider.verify.trees import OF_ANY_ORDER, Tree, joined

MOST_TOGETHER = 4  # maximum number of summands or factors that replace one number
MOST_NUMBERS = 8  # maximum number of summands or factors without letters that are tried in all combinations


def is_rewritten(tree: Tree, known: Tree) -> bool:
    """Return whether an expression tree is the known tree, possibly with rewritten numbers."""
    if tree.key == known.key:
        return True
    if known.kind == "number":
        return _has_value(tree, known)
    if tree.kind != known.kind:
        return _beside_neutral(tree, known)
    if not tree.parts:
        return False
    if known.kind in ("Add", "Mul"):
        return _holds_all(tree.parts, known.parts, known.kind)
    if len(tree.parts) != len(known.parts):
        return False
    if known.kind in OF_ANY_ORDER:
        return _holds_all(tree.parts, known.parts, "")
    return all(is_rewritten(part, other) for part, other in zip(tree.parts, known.parts, strict=True))


def _beside_neutral(tree: Tree, known: Tree) -> bool:
    """Return whether a tree is the known tree with additional terms of value 0 or additional factors of value 1, such
    as (2-1)."""
    if tree.kind not in ("Add", "Mul"):
        return False
    for i, part in enumerate(tree.parts):
        rest = joined(tree.kind, [*tree.parts[:i], *tree.parts[i + 1 :]])
        neutral = joined(tree.kind, [])
        if _has_value(rest, neutral) and is_rewritten(part, known):
            return True
    return False


def _holds_all(parts: Sequence[Tree], known: Sequence[Tree], kind: str) -> bool:
    """Return whether each operand in ``known`` is matched by an equal or rewritten operand in ``parts``, or by several.
    No operand in ``parts`` is used twice."""
    left = list(parts)
    for other in sorted(known, key=lambda part: part.kind == "number"):  # numbers last, since they match most operands
        if (used := _writing(left, other, kind)) is None:
            return False
        left = [part for i, part in enumerate(left) if i not in used]
    return True


def _writing(parts: Sequence[Tree], known: Tree, kind: str) -> tuple[int, ...] | None:
    """Return the indices of the operands in ``parts`` that replace the operand ``known`` of the other formula. An equal
    operand is preferred. If ``parts`` contains no equal operand, as few operands as possible are chosen."""
    exact = next((i for i, part in enumerate(parts) if part.key == known.key), None)
    if exact is not None:
        return (exact,)
    for i, part in enumerate(parts):
        if is_rewritten(part, known):
            return (i,)
    inverse = known.kind == "Pow" and known.parts[0].kind == "number" and known.parts[1].key == "-1"
    if not kind or not (known.kind == "number" or inverse):  # an inverse as well: 7*8 in a denominator replaces 56
        return None
    closed = [i for i, part in enumerate(parts) if _is_closed(part)][:MOST_NUMBERS]
    for size in range(2, MOST_TOGETHER + 1):
        for chosen in combinations(closed, size):
            if _has_value(joined(kind, [parts[i] for i in chosen]), known):
                return chosen
    return None


def _is_closed(tree: Tree) -> bool:
    """Return whether an expression tree has no variables."""
    return tree.kind != "letter" and not getattr(tree.whole, "free_symbols", True)


def _has_value(tree: Tree, known: Tree) -> bool:
    return _is_closed(tree) and _same(tree.whole, known.whole)


@lru_cache(4096)
def _same(one: object, other: object) -> bool:
    try:
        return bool(same_value(one, other))
    except UnreadableError:
        return False
