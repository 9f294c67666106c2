r"""Detects answers that only copy a formula from the question. For example, 99^2+99+1 equals 9901, but the value has
not been computed.

Expression trees are compared (:mod:`outrider.verify.trees`). An answer is a copy if it contains a formula from the
question, or some of the formula's summands or factors. The copied part must have the gold answer's value and still
contain operations. So \frac{2(99^2+99+1)}{2} is a copy. (100-1)^2+99+1 is a copy too, since it only rewrites a number
(:mod:`outrider.verify.rewritten`). An answer is not a copy if it is a number, a list or words, or if the copied formula
is a part of the gold answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from outrider.verify.answers import LONGEST, normalise, number
from outrider.verify.equations import claimed
from outrider.verify.latex import UnreadableError, clean
from outrider.verify.nodes import is_name, read, sides, split
from outrider.verify.points import same_value
from outrider.verify.rewritten import is_rewritten
from outrider.verify.trees import Tree, joined, parts_of, tree_of
from outrider.verify.typography import TEXT, plain

MOST_FORMULAS = 80  # maximum number of formulas that are read from a question; the shortest are dropped first

_OPERATION = re.compile(r"[-+*/^!|\\]")
_FORMULA = re.compile(r"\$\$?([^$]+)\$\$?|\\\[(.*?)\\\]|\\\((.*?)\\\)", re.DOTALL)
_IN_PROSE = re.compile(r"[-(]*[0-9.]+[)!]*(?:\s*[-+*/^]\s*[-(]*[0-9.]+[)!]*)+")  # 99^2 + 99 + 1, without dollar signs
_PROSE = re.compile(rf"{TEXT}\s*\{{[^{{}}]*\}}|\\(?:begin|end)\{{(?:align|equation|gather|split|multline)[a-z]*\*?\}}")
_RELATIONS = ("le", "leq", "ge", "geq", "ne", "neq", "equiv", "approx", "in", "to", "implies")
_BETWEEN = (*"=<>,;:?&", "\\\\", *(f"\\{name}" for name in _RELATIONS))


def copied(prompt: str, answer: str, golds: Sequence[str]) -> bool:
    r"""Return whether a correct answer only copies a formula from the prompt without computing it.

    >>> copied("What is $99^2 + 99 + 1$?", r"\frac{99+99^2+1}{1}", ["9901"])
    True
    >>> copied("Is $x=45^\\circ$?", r"45^\circ", ["45"]), copied("Factor $x^2-1$.", "(x+1)(x-1)", ["(x-1)(x+1)"])
    (False, False)
    """
    if number(answer) is not None:
        return False
    try:
        node = read(answer)
        while len({part.text for part in node.parts}) == 1:  # a one-member set, or the same answer in several boxes
            node = node.parts[0]
        every, answer = sides(node.text), node.text if node.text in answer else answer
    except UnreadableError:
        every = []
    values = next((found for gold in golds if every and (found := claimed(node.text, gold))), [])
    asked = [side for side in every if side not in values and not is_name(side)] if values else []
    values = values or [side for side in every if not is_name(side)] or [answer]
    return _is_given(prompt, asked, golds) or all(_is_copy(prompt, value, golds) for value in values)


def _is_given(prompt: str, asked: Sequence[str], golds: Sequence[str]) -> bool:
    """Return whether the question itself states the gold value of the requested quantity, as in 3x+4y = 10."""
    rights = [tree for gold in golds if (tree := tree_of(gold)) is not None]
    for equation in _equations(prompt) if asked else ():
        others = [side for side in equation if not any(_is_same_side(one, side) for one in asked)]
        trees = [tree for side in others if (tree := tree_of(side)) is not None]
        if len(others) < len(equation) and any(_equal(right.whole, tree.whole) for right in rights for tree in trees):
            return True
    return False


def _is_same_side(side: str, known: str) -> bool:
    """Return whether two sides of equations are the same formula, apart from rewritten numbers. If either cannot be
    parsed, compare their texts."""
    tree, other = tree_of(side), tree_of(known)
    if tree is None or other is None:
        return normalise(side) == normalise(known)
    return is_rewritten(tree, other)


@lru_cache(256)
def _equations(prompt: str) -> tuple[tuple[str, ...], ...]:
    """Return the sides of each equation in a prompt."""
    formulas = (formula for whole in _formulas(prompt) for formula in split(whole, (*",;?&", "\\\\")))
    return tuple(tuple(found) for formula in formulas if len(formula) <= LONGEST and (found := sides(clean(formula))))


def _formulas(prompt: str) -> Iterator[str]:
    """Yield the formulas in a prompt. Words in a formula become commas."""
    for one in _FORMULA.finditer(prompt):
        yield plain(_PROSE.sub(", ", next(filter(None, one.groups()), "")))


def _is_copy(prompt: str, answer: str, golds: Sequence[str]) -> bool:
    """Return whether an answer copies a formula from the question. ``answer`` may also be one side of an equation."""
    text = _bare(answer)
    if not _OPERATION.search(text) or number(text) is not None or any(text == _bare(gold) for gold in golds):
        return False
    tree = tree_of(answer)
    rights = [known for gold in golds if (known := tree_of(gold)) is not None]
    if tree is not None and any(tree.key == right.key for right in rights):
        return False
    if "," not in text and re.search(rf"(?<![0-9.]){re.escape(text)}(?![0-9])", normalise(prompt)):
        return True
    if tree is None:
        return False
    own = {part.key for right in rights for part in parts_of(right)}
    return any(
        shared.key not in own and any(_equal(right.whole, shared.whole) for right in rights)
        for shared in _shared(tree, prompt)
    ) or any(_is_rewriting(known, tree, own, rights) for known in _question(prompt))


def _is_rewriting(known: Tree, tree: Tree, own: set[str], rights: Sequence[Tree]) -> bool:
    """Return whether an answer contains a formula from the question with rewritten numbers. The formula must have the
    value of a gold answer."""
    if known.key in own or not _is_work(known) or not any(is_rewritten(part, known) for part in parts_of(tree)):
        return False
    return any(_equal(right.whole, known.whole) for right in rights)


def _bare(text: str) -> str:
    return normalise(clean(text)).rpartition("=")[2]


def _equal(right: Any, other: Any) -> bool:
    try:
        return bool(same_value(right, other))
    except UnreadableError:
        return False


def _shared(tree: Tree, prompt: str) -> Iterator[Tree]:
    """Yield the parts that the answer has in common with a formula in the prompt. A part may be a whole formula or some
    of its summands or factors."""
    seen: set[str] = set()
    known = list(_question(prompt))
    for part in parts_of(tree):
        for other in known:
            shared = part if part.key == other.key else _in_common(part, other)
            if shared is not None and shared.key not in seen and _is_work(shared):
                seen.add(shared.key)
                yield shared


def _in_common(one: Tree, other: Tree) -> Tree | None:
    """Return the summands (or factors) shared by two sums (or products), as one tree; None if they share fewer than
    two."""
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
    return joined(one.kind, parts)


def _is_work(tree: Tree) -> bool:
    """Return whether an expression contains an operation that must be computed. A number or letter with a sign contains
    none."""
    parts = [part for part in tree.parts if tree.kind != "Mul" or part.key != "-1"]
    return len(parts) > 1 or (tree.kind != "Mul" and bool(parts))


@lru_cache(256)
def _question(prompt: str) -> tuple[Tree, ...]:
    """Return all distinct subexpressions of the formulas in a prompt."""
    formulas = {formula.strip(" .") for whole in _formulas(prompt) for formula in split(whole, _BETWEEN)}
    formulas |= {one[0] for one in _IN_PROSE.finditer(prompt)}
    usable = sorted((p for p in formulas if _OPERATION.search(p) and len(p) <= LONGEST), key=len, reverse=True)
    parts: dict[str, Tree] = {}
    for formula in usable[:MOST_FORMULAS]:
        tree = tree_of(formula)
        for part in parts_of(tree) if tree is not None else ():
            if part.parts:
                parts.setdefault(part.key, part)
    return tuple(parts.values())
