r"""From the LaTeX of an answer to what it is made of: lists, sets, tuples and intervals, and expressions as sympy's.

The brackets and commas are read here, so that a set is never taken for a point; what stands between them is read by
math-verify's parser, in worker processes only. Every import of sympy is inside a function: it takes a second.

What the parser would get wrong is put right or refused before it:

- letters keep their case (the parser's default lowers it: \frac{M}{m} would be 1);
- decimals are exact (0.1 is 1/10), so no rounding decides;
- ``10 000`` and ``1 1/2`` would be products (0 and 1); x' would be x; 1.5e3 would be a multiple of Euler's number;
- a trailing letter is no unit (``\frac{1}{2} m`` is not 1/2): units are those in ``\text{…}``, and a few by name.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

from outrider.verify.answers import SCALES

LONGEST = 1000  # characters; the longest right answer of the usual maths sets has some two hundred
DEEPEST = 40  # brackets inside brackets
HIGHEST_TOWER = 3  # a^{b^{c^d}} stands on three
LONGEST_EXPONENT = 5  # digits
MOST_FACTORIALS = 6


class UnreadableError(Exception):
    """The text is no answer that can be compared: its message says why."""


class Node(NamedTuple):
    r"""An answer: ``parts`` between ``brackets``, or one expression without parts.

    ``brackets`` is "" for a bare list, else two characters such as ``()``, ``[)`` or ``{}``, or ``cup`` for a union.
    ``name`` is what stands before ``=`` or ``\in``.
    """

    text: str
    name: str = ""
    brackets: str = ""
    parts: tuple[Node, ...] = ()
    percent: bool = False


_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BIG_EXPONENT = re.compile(
    rf"(?:\^|\*\*)[\s{{(+-]*(?:[0-9][\s,]*){{{LONGEST_EXPONENT + 1},}}|[0-9.][eE](?:\+?[0-9]{{5}}|-[0-9]{{6}})"
)
_BANG = r"(?:[\s})\]]|\\?%|\\[,;: ])*!"
_BIG_FACTORIAL = re.compile(  # of a factorial, of a power, of five digits, or of four under a root
    r"!!!|\^\s*(?:\{[^{}]*\}|[0-9]+)[\s})\]]*!" + rf"|[0-9]{{5}}{_BANG}|\\sqrt.*[0-9]{{4}}{_BANG}", re.DOTALL
)
_SIDE_BY_SIDE = re.compile(r"(?<![_^])[0-9.](?:\s|\\[,;: ]|~)+[0-9]")
_TOKEN = re.compile(r"\\begin|\\end|\\cup(?![A-Za-z])|\\[{}]|\\(?:[A-Za-z]+|.)|[(){}\[\],;=]", re.DOTALL)
_OPEN, _CLOSE = {"(", "{", "[", "\\{", "\\begin"}, {")", "}", "]", "\\}", "\\end"}

_DROPPED = re.compile(
    r"(?<!\\)\\[,!]|\\?\$|\\(?:left|right|bigl|bigr|Bigl|Bigr|big|Big|displaystyle|textstyle|limits)(?![A-Za-z])"
)
_SPACES = re.compile(r"(?<!\\)\\(?:[;: ]|q?quad(?![A-Za-z]))|~|\s+")
_AND = re.compile(r",?\s*\\(?:text|mbox|textrm)\s*\{\s*,?\s*(?:and|or)\s*\}\s*|,?\s+(?:and|or)\s+")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])[^,;]*")
_INDEX = re.compile(r"_\s*\{[^{}]*\}")
_E_NOTATION = re.compile(r"(?<=[0-9])e(?=[-+]?[0-9])")
_SHORT_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:([0-9])\s*([0-9])(?![0-9]))?")
_DOTS = re.compile(r"\\(?:[lcvd]?dots[cbmio]?)(?![A-Za-z])|\.\.\.")
_PRIMES = re.compile(r"([A-Za-z])(?:\^\{?\\prime\}?|(''?)(?!'))")
_MISREAD = re.compile(r"\\gamma(?![A-Za-z])|\bE(?=\s*_)")  # as Euler's constant or function; as half an exponent
_MODULO = re.compile(r"\\bmod(?![A-Za-z])")
_MATH_E = re.compile(r"\\(?:mathrm|operatorname|text)\{e\}")
_WORDS_UNIT = (
    r"(?:degrees?|dollars?|cents?|cm|mm|km|kg|mi|ft|in|inches|inch|feet|foot|yards?|miles?|mph|met(?:er|re)s?|centimet(?:er|re)s?"
    r"|hours?|minutes?|seconds?|days?|weeks?|months?|years?|units?|points?|grams?|pounds?|lit(?:er|re)s?)"
)
_UNIT = re.compile(
    rf"(?<=[0-9}})\]A-Za-z])\s*(?:\\(?:text|mbox|textrm|mathrm|textbf)\s*\{{(?![^{{}}]*\b{SCALES})[^{{}}0-9,;]*\}}"
    rf"|(?<=[0-9}}\s])\s*(?:(?:square|cubic|sq\.?|cu\.?)\s+)?{_WORDS_UNIT})(?:\s*\^\s*\{{?[23]\}}?)?$"
)
_PERCENT = re.compile(r"\s*(?:\\?%|\\text\s*\{\s*(?:%|\\%|percent)\s*\}|percent)$")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?$")
_NAME = re.compile(
    r"((?:\\?[A-Za-z]+|\([A-Za-z](?:,\s*[A-Za-z])+\))(?:_(?:\w|\{\w+\}))?(?:\([A-Za-z](?:,\s*[A-Za-z])*\))?)"
    r"\s*(?:=|\\in(?![A-Za-z]))\s*(?=[^=\s])"
)
_RELATION = re.compile(r"[=<>]|\\(?:leq?|geq?|neq?|lt|gt|equiv|approx|sim)(?![A-Za-z])|\\leqslant|\\geqslant")


def refuse(text: str) -> None:
    """Bounds that cost next to nothing and keep from the parser what it could not end or hold.

    Raises:
        UnreadableError: too long, too deep, a number beyond all use, or characters that no answer has.
    """
    if len(text) > LONGEST:
        raise UnreadableError(f"{len(text)} characters, at most {LONGEST} are read")
    if _UNSAFE.search(text):
        raise UnreadableError("control characters or half a surrogate pair")
    if "**" in text.strip("*"):
        raise UnreadableError("a power in Python's writing")
    depth = deepest = tower = raised = 0  # raised: how many open braces stand in an exponent
    before = ""
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        deepest = max(deepest, abs(depth))
        raised += (character == "{" and (before == "^" or raised > 0)) - (character == "}" and raised > 0)
        if character == "!" and raised:
            raise UnreadableError("a factorial in an exponent")
        before = before if character.isspace() else character
    if deepest > DEEPEST:
        raise UnreadableError(f"brackets {deepest} deep, at most {DEEPEST} are read")
    if text.count("!") > MOST_FACTORIALS or _BIG_FACTORIAL.search(text):
        raise UnreadableError("factorials beyond all use")
    for step in re.findall(r"\^|\*\*|[-+=,;&]", text):
        tower = tower + 1 if step in ("^", "**") else 0
        if tower > 2 * HIGHEST_TOWER:
            raise UnreadableError("a tower of powers")
    if _BIG_EXPONENT.search(text):
        raise UnreadableError(f"an exponent beyond {LONGEST_EXPONENT} digits")


def clean(text: str) -> str:
    r"""The text without what only sets it in type, with each construct in the one writing that the parser reads right.

    >>> clean(r"$\left( 1{,}000,\, x' \right)$."), clean(r"3 \text{ and } 4.5e3 \text{ cm}^2")
    ('( 1000, \\dot{x} )', '3, 4.5E3')
    """
    text = _SPACES.sub(" ", _DROPPED.sub("", text.replace("{,}", "").replace("\u2212", "-"))).replace(" ^", "^")
    text = text.strip().rstrip(".")
    text = _SHORT_FRACTION.sub(lambda m: rf"\frac{{{m[1]}}}{{{m[2]}}}" if m[1] else r"\frac", text)
    text = _PRIMES.sub(lambda m: rf"\ddot{{{m[1]}}}" if m[2] == "''" else rf"\dot{{{m[1]}}}", _AND.sub(", ", text))
    text = _MODULO.sub(r"\\mod", _E_NOTATION.sub("E", _MATH_E.sub("e", text)))
    text = _MISREAD.sub(lambda m: r"\hat{E}" if m[0] == "E" else r"\hat{g}", text)
    while (inner := text.removeprefix("\\boxed{")) != text and inner.endswith("}"):
        text = inner[:-1].strip()
    shorter = _UNIT.sub("", text).strip()
    return _DEGREES.sub("", shorter or text).strip()


@lru_cache(4096)
def read(text: str) -> Node:
    """What an answer is made of.

    Raises:
        UnreadableError: see :func:`refuse`.
    """
    refuse(text)
    if _DOTS.search(text):
        raise UnreadableError("an ellipsis")
    return _node(clean(text))


def split(text: str, separators: tuple[str, ...] = (",", ";")) -> list[str]:
    r"""The parts between separators that stand outside all brackets.

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
    r"""Whether a relation stands in a text outside the braces of an index, as in \sum_{k=1}^n k.

    >>> related("x < 3"), related(r"\sum_{k=1}^{n} k")
    (True, False)
    """
    return bool(_RELATION.search(_INDEX.sub("_", text)))


def _node(text: str) -> Node:
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    parts = split(text)
    if len(parts) > 1:
        return Node(text, "", "", tuple(_node(p) for p in parts if p))
    if (named := _NAME.match(text)) and not related(text[named.end() :]):
        return _node(text[named.end() :])._replace(name=named[1].replace(" ", ""), text=text)
    if (percent := _PERCENT.search(text)) and percent.start():
        return _node(text[: percent.start()])._replace(percent=True)
    if len(united := split(text, ("\\cup",))) > 1:
        return Node(text, "", "cup", tuple(map(_node, united)))
    if (brackets := _around(text)) is None:
        return Node(text)
    inner = text[2:-2] if brackets == "{}" else text[1:-1]
    inside = split(inner)
    if len(inside) == 1 and brackets == "()":
        return _node(inner.strip())
    return Node(text, "", brackets, tuple(map(_node, inside)) if inner.strip() else ())


def _around(text: str) -> str | None:
    """The first bracket and the last, where they belong together and enclose all the rest."""
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


@lru_cache(4096)
def expression(text: str) -> Any:
    r"""The sympy object of a text without lists.

    Two passes, as ANTLR advises: the fast prediction, then, where that finds an error, the full one.

    Raises:
        UnreadableError: the parser does not understand it.
    """
    from antlr4.atn.PredictionMode import PredictionMode
    from latex2sympy2_extended import NormalizationConfig, normalize_latex

    if _SIDE_BY_SIDE.search(text) or not text:
        raise UnreadableError("two numbers side by side" if text else "nothing to read")
    config = NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=False, boxed="none", equations=False
    )
    latex = normalize_latex(text, config)
    for mode in (PredictionMode.SLL, PredictionMode.LL):
        try:
            return _reader()(mode).parse(latex)
        except Exception as error:  # noqa: BLE001 - the parser raises plain Exception, and sympy whatever it meets
            failure = f"{type(error).__name__}: {error}".partition("\n")[0]
    raise UnreadableError(f"not understood ({failure[:80]})")


@cache
def _reader() -> Any:
    """The parser's class, with exact numbers and the case of letters."""
    import sympy
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy

    class Reader(_Latex2Sympy):  # type: ignore[misc]
        def __init__(self, mode: Any) -> None:
            super().__init__(is_real=True, config=ConversionConfig(lowercase_symbols=False))
            self.mode = mode

        def create_parser(self, latex: str) -> Any:
            parser = super().create_parser(latex)
            parser._interp.predictionMode = self.mode
            return parser

        def convert_binom(self, binom: Any) -> Any:
            top, bottom = self.convert_expr(binom.upper), self.convert_expr(binom.lower)
            return sympy.binomial(top, bottom, evaluate=False)

        def handle_gcd_lcm(self, name: str, args: Any) -> Any:
            return sympy.Function(name)(*args)  # sympy's own is of polynomials: of m and n it would be 1

        def parse_number(self, text: str) -> Any:
            return sympy.Rational(text.replace(",", ""))  # sympy.Number would take the detour of evaluating the text

    return Reader
