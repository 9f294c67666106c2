"""Parses the structure of an answer: lists, sets, tuples, intervals, names, and the expressions in them.

This module interprets brackets and commas, so that a set is never read as a point, nor a list as a number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from outrider.verify.latex import UnreadableError, clean, refuse


class Node(NamedTuple):
    r"""An answer, which is either a collection of ``parts`` in ``brackets``, or one expression without parts.

    ``brackets`` is "" for a list without brackets, ``cup`` for a union, ``:`` for a ratio of three or more terms, and
    ``clock`` for a time such as 12:05. Otherwise, it is two characters such as ``()``, ``[)`` or ``{}``. ``name`` is
    the text before ``=`` or ``\in``. ``whole`` is the text with the name. ``rounded`` is the text after ``\approx``.
    """

    text: str
    name: str = ""
    brackets: str = ""
    parts: tuple[Node, ...] = ()
    percent: bool = False
    rounded: str = ""
    whole: str = ""


_TOKEN = re.compile(r"\\begin|\\end|\\cup(?![A-Za-z])|\\[{}]|\\(?:[A-Za-z]+|.)|[(){}\[\],;:=<>?&]", re.DOTALL)
_OPEN, _CLOSE = {"(", "{", "[", "\\{", "\\begin"}, {")", "}", "]", "\\}", "\\end"}
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])[^,;]*|[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?")
_INDEX = re.compile(r"_\s*\{[^{}]*\}")
_DOTS = re.compile(r"\\(?:[lcvd]?dots[cbmio]?)(?![A-Za-z])|\.\.\.")
_PERCENT = re.compile(r"\s*\\?%$")
_APPROXIMATELY = ("\\approx", "\\simeq", "\\doteq")
_NO_LETTER = r"sqrt|sum|prod|int|lim|pi|infty|log|ln|exp|sin|cos|tan|max|min|gcd|binom|times|div|pm|mp|cup|cap|begin"
_TERM = re.compile(
    rf"(?:[A-Za-z|:/(){{}}_^', ]|\\(?!(?:{_NO_LETTER})(?![A-Za-z]))[A-Za-z]+|_\{{?[0-9]+|\^\{{?-1\}}?(?=\())+"
)
_RELATION = re.compile(r"[=<>]|\\(?:leq?|geq?|neq?|lt|gt|equiv|approx|sim)(?![A-Za-z])|\\leqslant|\\geqslant")
_NO_EQUATION = re.compile(r"[<>]|\\(?:leq?|geq?|neq?|lt|gt|equiv|approx|sim|leqslant|geqslant|in)(?![A-Za-z])")
_CLOCK = re.compile(r"[0-9]{1,2}:(?:0[0-9](?::[0-5][0-9])?|[0-5][0-9]:0[0-9])")
_EXCEPT = re.compile(r"\s*([a-zA-Z])\s*\\n(?:e|eq)(?![A-Za-z])\s*((?:[-+0-9./{} ]|\\frac|\\pi(?![A-Za-z])|\\sqrt)+)")
_COORDINATES = re.compile(r"\(\s*[xyz](?:\s*,\s*[xyz])+\s*\)")
_CALLED = re.compile(r"(?<=[A-Za-z])\([^()=]*\)")
_MEMBER = re.compile(r"(\\?[A-Za-z]+(?:_\{\w+\})?)\s*\\in(?![A-Za-z])\s*")


@lru_cache(4096)
def read(text: str) -> Node:
    """Parse the structure of an answer.

    Raises:
        UnreadableError: :func:`outrider.verify.latex.refuse` rejects the text, or an ellipsis makes the text ambiguous.
    """
    refuse(text)
    if _DOTS.search(text):
        raise UnreadableError("an ellipsis")
    return node_of(clean(text))


def split(text: str, separators: tuple[str, ...] = (",", ";")) -> list[str]:
    r"""Split a text at separators that are outside all brackets.

    >>> split(r"1, (2, 3), \{4, 5\}")
    ['1', '(2, 3)', '\\{4, 5\\}']
    """
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in _OPEN:
            depth += 1
        elif token[0] in _CLOSE:
            depth -= 1
        elif depth == 0 and token[0] in separators:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    return [*parts, text[start:].strip()]


def related(text: str) -> bool:
    r"""Return whether a text has a relation such as = or <. A relation in an index does not count: \sum_{k=1}^n k.

    >>> related("x < 3"), related(r"\sum_{k=1}^{n} k")
    (True, False)
    """
    return bool(_RELATION.search(_INDEX.sub("_", text)))


def sides(text: str) -> list[str]:
    """Return the sides of an equation or of a chain of equations. The list is empty if the text contains any other
    relation.

    >>> sides("x = 2 + 3 = 5"), sides("x + 1"), sides("x < y = 1")
    (['x', '2 + 3', '5'], [], [])
    """
    parts = [] if _NO_EQUATION.search(_CALLED.sub("", text)) else split(text, ("=",))  # P(X < 2) = 0.5 is an equation
    return parts if len(parts) > 1 and all(parts) else []


def is_name(text: str) -> bool:
    r"""Return whether one side of an equation is only the name of a quantity. A name consists of letters with indices,
    or of quotients and products of such letters.

    >>> [is_name(text) for text in ("x_{1}", r"\angle APC", r"\frac{AB}{CD}", "f(x)", "2x", "x+y", "")]
    [True, True, True, True, False, False, False]
    """
    return bool(_TERM.fullmatch(text) and re.search("[A-Za-z]", text))


def node_of(text: str) -> Node:
    """Parse the structure of a text that :func:`clean` has already cleaned, such as a side of an equation."""
    if _THOUSANDS.fullmatch(text):
        text = re.sub("[, ](?=[0-9]{3})", "", text)
    parts = split(text)
    if len(parts) > 1:
        lists = split(text, (";",))
        if len(lists) > 1 and any(len(split(one)) > 1 for one in lists):
            parts = lists  # p=5, q=2; p=7, q=2
        return Node(text, "", "", _grouped([node_of(p) for p in parts if p]))
    exact, *rounded = split(text, _APPROXIMATELY)
    if rounded and not exact:
        exact, *rounded = rounded
    if not rounded:
        text = exact
    elif all(rounded):
        return _named(exact, rounded[0]) if is_name(exact) else node_of(exact)._replace(rounded=rounded[-1])
    if member := _MEMBER.match(text):
        return _named(member[1], text[member.end() :], text)
    if without := _EXCEPT.fullmatch(text):  # x \ne 0 means all numbers except 0
        letter, point = without.groups()
        return node_of(rf"(-\infty,{point})\cup({point},\infty)")._replace(name=letter)
    if len(both := sides(text)) == 2 and _COORDINATES.fullmatch(both[0]) and len((point := node_of(both[1])).parts) > 1:
        names = re.findall("[xyz]", both[0])  # (y,x) = (3,4) is the point (4,3)
        if sorted(names) != names and len(names) == len(point.parts) == len({*names}):
            ordered = sorted(zip(names, point.parts, strict=True), key=lambda pair: pair[0])
            return point._replace(parts=tuple(part for _, part in ordered), whole=text)
    if len(both) == 2 and is_name(both[0]) and not related(both[1]):
        return _named(both[0], both[1], text)
    if (percent := _PERCENT.search(text)) and percent.start():
        if _PERCENT.search(text[: percent.start()]):
            raise UnreadableError("a percentage of a percentage")
        return node_of(text[: percent.start()])._replace(percent=True)
    if len(united := split(text, ("\\cup",))) > 1 and not both:  # |A \cup B| = 7 is not a union
        return Node(text, "", "cup", tuple(map(node_of, united)))
    if (len(ratio := split(text, (":",))) > 2 and not both) or _CLOCK.fullmatch(text):
        return Node(text, "", "clock" if _CLOCK.fullmatch(text) else ":", tuple(Node(part) for part in ratio))
    if (brackets := _around(text)) is None:
        return Node(text)
    inner = text[2:-2] if brackets == "{}" else text[1:-1]
    inside = split(inner)
    if len(inside) == 1 and brackets == "()":
        return node_of(inner.strip())
    return Node(text, "", brackets, tuple(map(node_of, inside)) if inner.strip() else ())


def _grouped(parts: list[Node]) -> tuple[Node, ...]:
    """Group the members of a list whose names repeat: p=5, q=2, p=7, q=3 are two pairs."""
    names = [part.name for part in parts]
    for size in range(2, len(parts) // 2 + 1):
        if names[:size] * (len(parts) // size) == names and len({*names}) == size and all(names):
            groups = [parts[i : i + size] for i in range(0, len(parts), size)]
            return tuple(Node(", ".join(p.whole or p.text for p in group), "", "", tuple(group)) for group in groups)
    return tuple(parts)


def _named(name: str, value: str, text: str = "") -> Node:
    return node_of(value)._replace(name=re.sub(r"[\s{}]", "", name), whole=text)


def _around(text: str) -> str | None:
    """Return the first and the last bracket if they belong together and enclose the whole text; otherwise None."""
    opening = 2 if text.startswith("\\{") else 1
    if text[:1] not in ("(", "[") and opening == 1:
        return None
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _OPEN) - (token[0] in _CLOSE)
        if depth == 0:
            if token.end() != len(text) or token[0] not in (")", "]", "\\}"):
                return None
            return text[opening - 1] + token[0][-1]
    return None
