r"""Whether two answers are the same mathematical object. In worker processes only: sympy may take long, or for ever.

Lists, sets, tuples and intervals are compared part by part. Two expressions, and the two sides of equations, are
compared by their values (:mod:`outrider.verify.points`). Only inequalities and sets go to ``math_verify.verify``.

Why values, and not ``verify`` for all: it takes numbers that differ by less than 1e-15 for equal, as 1/2^98 and
1/2^99, any two answers of 1e-20 and the like; {1, 2} for the point (1, 2); the equation 9 = 1 for the answer 1; and
its simplification is where it hangs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from outrider.verify.latex import Node, UnreadableError, expression, read, related, split
from outrider.verify.points import proportional, same_value

_SETS = re.compile(r"\\(?:mathbb|emptyset|varnothing|setminus|cap)(?![A-Za-z])")
_INEQUALITY = re.compile(r"[<>]|\\(?:leq?|geq?|lt|gt)(?:slant)?(?![A-Za-z])")
_OTHER_RELATION = re.compile(r"[<>]|\\(?:leq?|geq?|neq?|lt|gt|equiv|approx|sim|leqslant|geqslant|in)(?![A-Za-z])")
_NAMING = r"frac|angle|triangle|vec|overline|cdot|[a-z]*pi|alpha|beta"
_TERM = re.compile(rf"(?:[A-Za-z|:/(){{}}_^']|\\(?:{_NAMING})(?![A-Za-z])|[0-9](?=\}}))+")  # S_{AB}:S and the like
_BASED = re.compile(r"([-+]?[0-9A-Za-z.]+)_\{?(?:\\text\{)?(\w+)\}*")


def equal(gold: str, answer: str, tolerance: float = 0.0) -> bool:
    r"""Whether an answer is what the right one is, in any form.

    Args:
        gold: the right answer.
        answer: the other one.
        tolerance: relative error that counts as none where the right answer has a decimal point.

    Raises:
        UnreadableError: the answer, or both, cannot be read.
    """
    return _same(read(gold), read(answer), tolerance if "." in gold else 0.0)


@lru_cache(4096)
def readable(text: str) -> bool:
    """Whether the parser reads all parts of a right answer; what it does not read is compared as text only."""
    try:
        _read_all(read(text))
    except UnreadableError:
        return False
    return True


def _read_all(node: Node) -> None:
    for part in _parts(node) or ():
        _read_all(part)
    if _parts(node) is None and _same_base(node.text, "") is None:
        expression(_value(node))


def _same(gold: Node, answer: Node, tolerance: float) -> bool:
    if gold.name and answer.name and gold.name != answer.name:
        return False
    if gold.percent != answer.percent:  # 50% is 50 as well as 0.5: answer keys have both
        bare, other = gold._replace(percent=False), answer._replace(percent=False)
        return _same(bare, other, tolerance) or _same(*_hundredth(gold, answer), tolerance)
    golds, answers = _parts(gold), _parts(answer)
    if golds is None and answers is None:
        return _same_expression(gold, answer, tolerance)
    if golds is None or answers is None:
        return _same_alone(gold, answer, golds or answers or (), tolerance)
    if "cup" in (gold.brackets, answer.brackets):
        return _match(golds, answers, tolerance) or _as_a_whole(gold, answer)
    if len(golds) != len(answers) or not _same_kind(gold.brackets, answer.brackets):
        return False
    if _ordered(gold, golds, answer, answers):
        return all(_same(g, a, tolerance) for g, a in zip(golds, answers, strict=True))
    return _match(golds, answers, tolerance)


def _same_alone(gold: Node, answer: Node, parts: Sequence[Node], tolerance: float) -> bool:
    r"""One expression and something with parts: a set of one; or a set in two writings, as 1 < x < 2 and (1, 2)."""
    one, other = (gold, answer) if gold.parts or gold.brackets else (answer, gold)
    if len(parts) == 1 and one.brackets in ("", "{}"):
        return _same(parts[0], other, tolerance) if one is gold else _same(other, parts[0], tolerance)
    return bool(related(_value(other)) or _SETS.search(other.text)) and _as_a_whole(gold, answer)


def _parts(node: Node) -> Sequence[Node] | None:
    r"""The members of a list, set, tuple or interval, those of 1 \pm 2 among them; None for one expression."""
    if node.parts or node.brackets:
        if node.brackets == "":
            return [inner for part in node.parts for inner in (_plus_minus(part) or [part])]
        return node.parts
    return _plus_minus(node)


def _plus_minus(node: Node) -> list[Node] | None:
    r"""Both readings of an expression with one or more \pm, the upper signs together."""
    if node.parts or node.brackets or not re.search(r"\\(?:pm|mp)(?![A-Za-z])", node.text):
        return None
    both = [(r"\pm", "+"), (r"\mp", "-")], [(r"\pm", "-"), (r"\mp", "+")]
    found = []
    for signs in both:
        text = node.text
        for command, sign in signs:
            text = re.sub(rf"\{command}(?![A-Za-z])", sign, text)
        found.append(node._replace(text=text.strip().removeprefix("+")))
    return found


def _hundredth(gold: Node, answer: Node) -> tuple[Node, Node]:
    """The one of the two that is a percentage as the number that it is."""

    def plain(node: Node) -> Node:
        return node._replace(text=f"({node.text.strip().removesuffix('%').rstrip(chr(92))})/100", percent=False)

    return (plain(gold), answer) if gold.percent else (gold, plain(answer))


def _same_kind(gold: str, answer: str) -> bool:
    """A bare list may stand for a set or a tuple; other brackets are what they are."""
    return gold == answer or (gold == "" and answer in ("{}", "()")) or (answer == "" and gold in ("{}", "()"))


def _ordered(gold: Node, golds: Sequence[Node], answer: Node, answers: Sequence[Node]) -> bool:
    """Tuples and intervals are; so are values without names for a list that names each of its own."""
    if (gold.brackets or answer.brackets) not in ("", "{}", "cup"):
        return True
    names = {g.name for g in golds}
    return "" not in names and len(names) == len(golds) > 1 and not any(a.name for a in answers)


def _match(golds: Sequence[Node], answers: Sequence[Node], tolerance: float) -> bool:
    """Whether each of the right ones has its own partner. Equality is transitive, so the first partner will do."""
    left = list(answers)
    for gold in golds:
        partner = next((i for i, a in enumerate(left) if _same(gold, a, tolerance)), None)
        if partner is None:
            return False
        del left[partner]
    return not left


def _same_expression(gold: Node, answer: Node, tolerance: float) -> bool:
    if (based := _same_base(gold.text, answer.text)) is not None:
        return based
    if related(_value(gold)):
        return _same_relation(gold, answer, tolerance)
    if related(_value(answer)):  # 2 + 3 = 5: every side has to be the answer
        sides = _sides(_value(answer))
        return len(sides) > 1 and all(_same_expression(gold, Node(side), tolerance) for side in sides)
    return bool(same_value(expression(_value(gold)), expression(_value(answer)), tolerance))


def _same_relation(gold: Node, answer: Node, tolerance: float) -> bool:
    """Equations: whether the differences of their sides are proportional. Inequalities, as a whole."""
    right, other = _sides(_value(gold)), _sides(answer.text)
    if not related(answer.text):
        return _same_last(right, gold, answer, tolerance)
    if len(right) == 2 == len(other):
        one, two = (expression(f"({left})-({last})") for left, last in (right, other))
        return bool(proportional(one, two))
    return bool(right) == bool(other) and _as_a_whole(gold, answer)


def _same_last(sides: Sequence[str], gold: Node, answer: Node, tolerance: float) -> bool:
    """Whether an answer is the last side of a right answer such as AB:CD = 7:32 or 1 + 2 = 3; 2x + y names no 3."""
    if gold.name or len(sides) < 2:
        return False
    named = all(_TERM.fullmatch(side) for side in sides[:-1])
    letters = any(re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", side)) for side in sides)
    return (named or not letters) and _same_expression(Node(sides[-1]), answer, tolerance)


def _sides(text: str) -> list[str]:
    """The sides of an equation, or of a chain of them; none of another relation."""
    if _OTHER_RELATION.search(text):
        return []
    sides = split(text, ("=",))
    return sides if len(sides) > 1 else []


def _value(node: Node) -> str:
    """The text without the name before it."""
    if not node.name:
        return node.text
    return re.split(r"=|\\in(?![A-Za-z])", node.text, maxsplit=1)[-1].strip()


def _same_base(gold: str, answer: str) -> bool | None:
    """For numbers in another base, which the parser drops: whether digits and base are the same; None for others."""
    right, other = _BASED.fullmatch(gold.replace(" ", "")), _BASED.fullmatch(answer.replace(" ", ""))
    numbers = [m for m in (right, other) if m and m[1].lstrip("+-")[0].isdigit()]
    if not numbers:
        return None
    if right is None:
        return False
    digits, base = (other[1], other[2]) if other else (answer.replace(" ", ""), right[2])
    return digits == right[1] and base == right[2]


def _as_a_whole(gold: Node, answer: Node) -> bool:
    """What ``math_verify`` says, with its own clock off: it is a signal, and hangs end with the process here."""
    import math_verify

    right, other = expression(gold.text), expression(answer.text)
    bounds = _is_bounds(answer.text)
    return bool(math_verify.verify(right, other, timeout_seconds=None, allow_set_relation_comp=bounds))


def _is_bounds(text: str) -> bool:
    r"""Whether it is x between numbers, the one inequality that is an answer: 2x > 6 repeats the question."""
    sides = [re.sub(r"\\[A-Za-z]+", "", side).strip() for side in _INEQUALITY.split(text)]
    lettered = [side for side in sides if re.search(r"[A-Za-z]", side)]
    return len(sides) > 1 and len(lettered) == 1 and len(lettered[0]) == 1
