r"""Compares two answers as mathematical objects. Use this module only in worker processes that can be killed, since
sympy may be slow or never return.

Lists, sets, tuples and intervals are compared member by member. Expressions are compared by their values
(:mod:`outrider.verify.points`), and equations by the values of left side minus right side. Only inequalities and
certain sets are compared by ``math_verify.verify``.
"""

# ``math_verify.verify`` has errors: it treats numbers that differ by less than 1e-15 as equal (for example 1e-20 and
# 2e-20), {1, 2} as the point (1, 2), and the equation 9 = 1 as the answer 1. Its simplification may also hang.

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from outrider.verify.answers import number
from outrider.verify.equations import claimed, last_of_chain, letters, relates_letters, same_equation
from outrider.verify.latex import UnreadableError, clean, expression
from outrider.verify.nodes import Node, node_of, read, related, sides
from outrider.verify.points import same_value, within_use

MOST_MEMBERS = 20  # maximum number of members of a set that math_verify compares

_SETS = re.compile(r"\\(?:mathbb|emptyset|varnothing|setminus|cap)(?![A-Za-z])")
_OF_X = re.compile(r"[a-z]\(x\)")
_INEQUALITY = re.compile(r"[<>]|\\(?:leq?|geq?|lt|gt)(?:slant)?(?![A-Za-z])")
_BARE_LOG = re.compile(r"\\log(?![A-Za-z])(?!\s*_)")
_BASED = re.compile(r"([-+]?[0-9A-Za-z.]+)_\{?(?:\\text\{)?([0-9]{1,2}|[A-Za-z]+)\}*")


def equal(gold: str, answer: str, tolerance: float = 0.0) -> bool:
    r"""Return whether an answer equals the gold answer, in any notation.

    Args:
        gold: the gold answer.
        answer: the answer taken from the response.
        tolerance: allowed relative error; used only if the gold answer has a decimal point.

    Raises:
        UnreadableError: the answer or the gold answer cannot be read.
    """
    tolerance = tolerance if "." in gold else 0.0
    right, other = read(gold), read(answer)
    if _same(right, other, tolerance):
        return True
    if _BARE_LOG.search(right.text + other.text):  # first, \log was base 10; now it is natural in both answers
        right_natural, other_natural = (node_of(_BARE_LOG.sub(r"\\ln ", clean(text))) for text in (gold, answer))
        if _same(right_natural, other_natural, tolerance):
            return True
    spaced = answer.replace(",", ", ")  # 132,999 is one number, unless the gold answer is a list
    return bool(right.parts and not other.parts and read(spaced).parts) and _same(right, read(spaced), tolerance)


@lru_cache(4096)
def readable(text: str) -> bool:
    """Return whether the parser can read every part of a gold answer. Other gold answers are compared only as text."""
    try:
        _read_all(read(text))
    except UnreadableError:
        return False
    return True


def _read_all(node: Node) -> None:
    for part in _parts(node) or ():
        _read_all(part)
    if _parts(node) is None and _same_base(node.text, "") is None:
        expression(last_of_chain(node.text) or node.text)


def _same(gold: Node, answer: Node, tolerance: float, inside: bool = False) -> bool:
    """Return whether two answers are equal. ``inside`` is True for members of a list."""
    if gold.name and answer.name and gold.name != answer.name and not _is_graph(gold.name, answer.name):
        return _same_solved(gold, answer)
    if not (answer.name or answer.parts or related(gold.text)) and sides(answer.text):
        return _same_chain(gold, answer, tolerance) or _same_solved(gold, answer)
    if gold.rounded or answer.rounded:
        return _same_rounded(gold, answer, tolerance)
    if gold.percent != answer.percent:  # 50% may mean 50 or 0.5, since answer keys use both
        bare, other = gold._replace(percent=False), answer._replace(percent=False)
        return _same(bare, other, tolerance) or _same(*_hundredth(gold, answer), tolerance)
    golds, answers = _parts(gold), _parts(answer)
    if golds is None and answers is None:
        return _same_expression(gold, answer, tolerance)
    if golds is None or answers is None:
        return _same_alone(gold, answer, golds or answers or (), tolerance, inside)
    if not _ordered(gold, golds, answer, answers):
        answers = _without_repetitions(golds, answers)
    if "cup" in (gold.brackets, answer.brackets):
        return _match(golds, answers, tolerance) or _as_a_whole(gold, answer)
    for one, members, other in ((gold, golds, answer), (answer, answers, gold)):
        if one.brackets == "{}" and len(members) == 1 and (members[0].brackets, other.brackets) == ("()", "()"):
            return _same(
                *((members[0], other) if one is gold else (other, members[0])), tolerance
            )  # a set with one point
    if len(golds) != len(answers) or not _same_kind(gold.brackets, answer.brackets):
        return False
    if _ordered(gold, golds, answer, answers):
        if gold.brackets == ":":
            return _same_ratio(golds, answers)
        return all(_same(g, a, tolerance, inside=True) for g, a in zip(golds, answers, strict=True))
    return _match(golds, answers, tolerance)


def _is_graph(name: str, other: str) -> bool:
    """Return whether one name is y and the other name is a function of x, such as f(x)."""
    return "y" in (name, other) and any(map(_OF_X.fullmatch, (name, other)))


def _same_rounded(gold: Node, answer: Node, tolerance: float) -> bool:
    r"""Return whether two answers are equal, where at least one of them contains \approx.

    The answer's part before \approx is compared with both parts of the gold answer, before and after \approx. The
    answer's part after \approx is used only if the gold answer is a decimal number.
    """
    right, other = gold._replace(rounded=""), answer._replace(rounded="")
    if _same(right, other, tolerance) or (gold.rounded and _same(Node(gold.rounded), other, tolerance)):
        return True
    decimal = number(answer.rounded)
    if "." not in gold.text or decimal is None or not _same(right, Node(answer.rounded), 0.0):
        return False
    half = 0.5 * 10.0 ** -len(answer.rounded.partition(".")[2])
    return bool(decimal) and _same(Node(answer.rounded), other, half / abs(float(decimal)))


def _same_alone(gold: Node, answer: Node, parts: Sequence[Node], tolerance: float, inside: bool) -> bool:
    r"""Compare a single expression with a collection. They may be equal if the collection has one member, or if both
    denote the same set, as (1, 2) and 1 < x < 2 do."""
    one, other = (gold, answer) if gold.parts or gold.brackets else (answer, gold)
    if len(parts) == 1 and one.brackets in ("", "{}"):
        # {\emptyset} is not the empty set, and {{1}, {2}} is not the set {1, 2}
        if "\\emptyset" in other.text or (inside and not one.name):
            return False
        return _same(*((parts[0], other) if one is gold else (other, parts[0])), tolerance, inside=True)
    return bool(related(other.text) or _SETS.search(other.text)) and _as_a_whole(gold, answer)


def _parts(node: Node) -> Sequence[Node] | None:
    r"""Return the members of a list, set, tuple or interval (1 \pm 2 has two members); None if the node is a single
    expression."""
    if node.parts or node.brackets:
        if node.brackets == "":
            return [inner for part in node.parts for inner in (_plus_minus(part) or [part])]
        return node.parts
    return _plus_minus(node)


def _plus_minus(node: Node) -> list[Node] | None:
    r"""Return the two readings of an expression with \pm: one with the upper signs, and one with the lower signs.
    Return None if the expression has no \pm."""
    if node.parts or node.brackets or not re.search(r"\\(?:pm|mp)(?![A-Za-z])", node.text):
        return None
    both = [(r"\pm", "+"), (r"\mp", "-")], [(r"\pm", "-"), (r"\mp", "+")]
    readings = []
    for signs in both:
        text = node.text
        for command, sign in signs:
            text = re.sub(rf"\{command}(?![A-Za-z])", sign, text)
        readings.append(node._replace(text=text.strip().removeprefix("+"), whole=""))
    return readings


def _hundredth(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both answers, after dividing the one that is a percentage by 100."""

    def plain(node: Node) -> Node:
        return node._replace(text=f"({node.text})/100", percent=False)

    return (plain(gold), answer) if gold.percent else (gold, plain(answer))


def _same_kind(gold: str, answer: str) -> bool:
    """Return whether two collections have matching brackets. A list without brackets may mean a set or a tuple."""
    return gold == answer or (gold == "" and answer in ("{}", "()")) or (answer == "" and gold in ("{}", "()"))


def _ordered(gold: Node, golds: Sequence[Node], answer: Node, answers: Sequence[Node]) -> bool:
    """Return whether the order of the members matters. The order matters in tuples and intervals. In lists, the order
    matters if only the gold answer names the members, as in x = 1, y = 2."""
    if (gold.brackets or answer.brackets) not in ("", "{}", "cup"):
        return True
    names = {g.name for g in golds}
    return "" not in names and len(names) == len(golds) > 1 and not any(a.name for a in answers)


def _without_repetitions(golds: Sequence[Node], answers: Sequence[Node]) -> Sequence[Node]:
    """Return the answer's members without repetitions, or all members if the gold answer repeats a member."""
    once = list({re.sub(r"\s", "", answer.whole or answer.text): answer for answer in answers}.values())
    return answers if len({gold.text for gold in golds}) < len(golds) else once


def _match(golds: Sequence[Node], answers: Sequence[Node], tolerance: float) -> bool:
    """Return whether each member of one list can be paired with an equal member of the other list."""
    left = list(answers)  # equality is transitive, so the first equal partner is as good as any other
    for gold in golds:
        partner = next((i for i, a in enumerate(left) if _same(gold, a, tolerance, inside=True)), None)
        if partner is None:
            return False
        del left[partner]
    return not left


def _same_ratio(golds: Sequence[Node], answers: Sequence[Node]) -> bool:
    """Return whether the terms of two ratios are proportional."""
    both = [(gold.text, answer.text) for gold, answer in zip(golds, answers, strict=True)]
    return all(
        bool(same_value(expression(f"({gold})({other})"), expression(f"({answer})({right})")))
        for (gold, answer), (right, other) in combinations(both, 2)
    )


def _same_expression(gold: Node, answer: Node, tolerance: float) -> bool:
    if (based := _same_base(gold.text, answer.text)) is not None:
        return based
    if related(gold.text):
        return _same_relation(gold, answer, tolerance)
    if related(answer.text):
        return False
    return bool(same_value(expression(gold.text), expression(answer.text), tolerance))


def _same_chain(gold: Node, answer: Node, tolerance: float) -> bool:
    """Return whether every value that a chain of equations states equals the gold answer. In x = 2 + 3 = 5, for
    example, 2 + 3 and 5 are values. If no value is stated, return False."""
    values = claimed(answer.text, gold.text, gold.name)
    return bool(values) and all(_same(gold, node_of(value), tolerance) for value in values)


def _same_solved(gold: Node, answer: Node) -> bool:
    """Return whether an equation is equivalent to the gold equation, even if the two are solved for different letters.
    For example, 3x - y = 2 is equivalent to y = 3x - 2."""
    right, other = sides(gold.whole), sides(answer.whole or answer.text)
    if len(right) != 2 or len(other) != 2:
        return False
    try:
        return relates_letters(right) and same_equation(right, other)
    except UnreadableError:
        return False


def _same_relation(gold: Node, answer: Node, tolerance: float) -> bool:
    """Compare an answer with a gold answer that is an equation or inequality. If the answer is neither, compare it with
    the last part of the gold answer, such as the 3 of 1 + 2 = x = 3."""
    right, other = sides(gold.text), sides(answer.whole or answer.text)
    if not related(answer.whole or answer.text):
        last = last_of_chain(gold.text)
        return bool(last) and _same_expression(Node(last), answer, tolerance)
    if len(right) == 2 == len(other):
        return same_equation(right, other)
    return bool(right) == bool(other) and _as_a_whole(gold, answer)


def _same_base(gold: str, answer: str) -> bool | None:
    """Return whether two numbers with a base (101_2) are the same; None if neither number has a base. The parser drops
    the base."""
    right, other = _BASED.fullmatch(gold.replace(" ", "")), _BASED.fullmatch(answer.replace(" ", ""))
    numbers = [m for m in (right, other) if m and m[1].lstrip("+-")[0].isdigit()]
    if not numbers:
        return None
    if right is None:
        return False
    digits, base = (other[1], other[2]) if other else (answer.replace(" ", ""), right[2])
    return digits.upper() == right[1].upper() and base == right[2]


def _as_a_whole(gold: Node, answer: Node) -> bool:
    """Return whether ``math_verify`` accepts the answer."""
    import math_verify

    if answer.text.count(",") > MOST_MEMBERS:
        return False
    right, other = expression(gold.whole or gold.text), expression(answer.whole or answer.text)
    for one in (right, other):
        within_use(one)
    bounds = _is_bounds(answer.text)
    # no time limit of math_verify, which is an alarm signal and does not stop C code: the pool kills the process
    return bool(math_verify.verify(right, other, timeout_seconds=None, allow_set_relation_comp=bounds))


def _is_bounds(text: str) -> bool:
    r"""Return whether a text is a solved inequality: it compares a single letter with numbers, unlike 2x > 6."""
    every = [side.strip() for side in _INEQUALITY.split(text)]
    lettered = [side for side in every if letters(side)]
    return len(every) > 1 and len(lettered) == 1 and {lettered[0]} == letters(lettered[0])
