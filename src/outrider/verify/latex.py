r"""Converts the LaTeX of an answer to sympy expressions.

Only worker processes run the parser of math-verify. sympy is imported inside functions, since importing it takes a
second.

Input that the parser would misread is corrected or refused before parsing:

- letters keep their case (by default, the parser converts to lower case, so \frac{M}{m} would be 1);
- decimals are exact (0.1 is 1/10), so that rounding never decides a comparison;
- ``10 000`` and ``1 1/2`` are numbers (the parser would read them as products); x' and x are different symbols; the e
  in 1.5e3 is not Euler's number;
- a single lower-case letter at the end is not a unit (``\frac{1}{2} m`` is not 1/2), but a longer word may be one
  (``\frac{1}{2} cm`` is 1/2).
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import Any

from outrider.verify import bounds, names, prose, units
from outrider.verify.answers import LONGEST, repeating
from outrider.verify.symbols import as_letters
from outrider.verify.typography import FONT, TEXT, THOUSANDS, plain

DEEPEST = 40  # maximum nesting depth of brackets
HIGHEST_TOWER = 3  # maximum number of stacked exponents; a^{b^{c^d}} has three
LONGEST_EXPONENT = 5  # maximum digits of an exponent
MOST_FACTORIALS = 6
LARGEST_DETERMINANT = 4  # maximum rows


class UnreadableError(Exception):
    """The text cannot be read as an answer. The message gives the reason."""


_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BIG_EXPONENT = re.compile(
    rf"(?:\^|\*\*)[\s{{(+-]*(?:[0-9][\s,]*){{{LONGEST_EXPONENT + 1},}}|[0-9.][eE](?:\+?[0-9]{{5}}|-[0-9]{{6}})"
)
_POWER_ABOVE = re.compile(r"\^\s*\{[^{}]*?([0-9]+)[\s)}]*\^[\s{(+]*([0-9]+)")  # a power of two numbers in an exponent
_POWER_OF_POWER = re.compile(
    r"\*\*\s*\(?\s*[-+]?\s*[0-9.]+\s*\*\*|(?:\^|\*\*)\s*\([^()]*[0-9]\s*(?:\^|\*\*)\s*[({]*[0-9]"
)
_BANG = r"(?:[\s})\]]|\\?%|\\[,;: ])*!"
_BIG_FACTORIAL = re.compile(  # of a factorial, a power, a five-digit number, or a four-digit one under a root
    r"!!!|\^\s*(?:\{[^{}]*\}|[0-9]+)[\s})\]]*!" + rf"|[0-9]{{5}}{_BANG}|\\sqrt.*[0-9]{{4}}{_BANG}", re.DOTALL
)
_EAGER = re.compile(  # operations that the parser would compute at once, however long they take
    r"\\operatorname\*?\s*\{\s*(?:eye|zeros|ones|diag|[hv]stack|rank|rref|nullspace|cols|rows|norm|diagonalize|eig\w*|svd|SVD"
    r"|ortho\w*)\b|\\x(?:right|left|R|L)\w*arrow|\\Gamma\D{0,40}[0-9]{5}|\|\s*_"
)
_DEEP_INDEX = re.compile(r"(?:_\s*\{[^{}_]*){4}")
_SIDE_BY_SIDE = re.compile(r"(?<![_^])[0-9.](?:\s|\\[,;: ]|~)+[0-9]")
_AND = re.compile(
    rf",?\s*{TEXT}\s*\{{\s*,?\s*(?:and|or)\s*\}}\s*|,?\s+(?:and|or)\s+|(?<=[)}}])\s*(?:and|or)\s*(?=[(\\])"
)
_TEXT = re.compile(TEXT + r"(?![A-Za-z])")
_STYLED = re.compile(rf"(?:{FONT}|\\operatorname\*?)\s*\{{([^{{}}]*)\}}")
_COMMAND = "max min gcd log ln exp sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh det"
_COMMANDS = frozenset(_COMMAND.split(" "))
_FUNCTIONS = _COMMANDS | {"lcm", "floor", "ceil"}
_MATRIX = re.compile(r"\\(begin|end)\{(?:small|b|B)?matrix\}")
_ARRAY = re.compile(r"\\begin\{array\}\s*\{[lcr ]+\}(.*?)\\end\{array\}", re.DOTALL)
_AROUND_MATRIX = re.compile(r"[(\[]\s*(\\begin\{(?:small)?matrix\}.*?\\end\{(?:small)?matrix\})\s*[)\]]", re.DOTALL)
_E_NOTATION = re.compile(r"(?<=[0-9])e(?=-?[0-9]|\+[0-9]{2})")  # but 2e+3 is 2e + 3 with Euler's number e
_PRIMES = re.compile(r"([A-Za-z])(?:\^\{?\\prime\}?|(''?)(?!'))")
_MISREAD = re.compile(r"\\gamma(?![A-Za-z])|\bE(?=\s*_)")  # would be read as Euler's constant and half an exponent
_MIXED = re.compile(r"[0-9]+\\frac\{[0-9]+\}\{[0-9]+\}$")
_INTEGER = re.compile(r"[-+({]*[0-9]+[)}]*")
_WRAPPED = re.compile(r"(?:\\boxed)?\{")
_MODULO = re.compile(r"\\bmod(?![A-Za-z])")
_BRACED = re.compile(r"\\(max|min|gcd)\s*\\\{([^{}]*)\\\}")
_CHOOSE = re.compile(r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}")
_ANGLED = re.compile(r"\\langle(?![A-Za-z])([^<>]*?)\\rangle(?![A-Za-z])|^\s*<([^<>=]*,[^<>=]*)>\s*$")
_DECADIC = re.compile(r"\\lg(?![A-Za-z])")
_ANGLE = re.compile(  # degrees in the argument of a function (elsewhere, degrees are a unit)
    r"(\\(?:sin|cos|tan|cot|sec|csc)\s*(?:\^\s*\{?[0-9]\}?\s*)?[({]?\s*)([0-9.]+)\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})"
)
_BARE_ANGLE = re.compile(r"(?<![A-Za-z\\])((?:sin|cos|tan|cot|sec|csc)[\s(]*[0-9.]+\s*\^\s*\{?\s*\\circ)")
_TO_T = re.compile(r"(?<=[0-9a-z])\^(?:T(?![A-Za-z])|\{T\})")  # a power, but the parser would transpose a number
_SET_BUILDER = re.compile(  # {x : x > 2} is x > 2
    r"^\\?\{\s*([a-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?:\\mid(?![A-Za-z])|:|\|)\s*([^:{}|,]*\1[^:{}|,]*?)\\?\}$"
)
_BRACED_SETS = re.compile(r"\{[^{}]*\}(?:\s*,\s*\{[^{}]*\})+")  # within outer braces: {{1}, {2}} is not a list
_FACTORIAL_RAISED = re.compile(r"([A-Za-z]|[0-9]+|\([^()]*\))!(?=\s*\^)")
_MATH_E = re.compile(r"\\(?:mathrm|operatorname|text)\{e\}")


def refuse(text: str) -> None:
    """Raise an error for texts on which the parser would run forever or use up all memory. The checks are fast.

    Raises:
        UnreadableError: the text is too long or too deeply nested, or contains a huge number or characters that do not
            occur in answers.
    """
    if len(text) > LONGEST:
        raise UnreadableError(f"{len(text)} characters, at most {LONGEST} are read")
    if _UNSAFE.search(text):
        raise UnreadableError("control characters or half a surrogate pair")
    if name := names.unreadable(text):
        raise UnreadableError(f"{name}() is no function that can be read")
    if _POWER_OF_POWER.search(text):
        raise UnreadableError("a tower of powers")
    depth = deepest = tower = raised = 0  # raised is the number of open braces in exponents
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
    if eager := _EAGER.search(text):
        raise UnreadableError(f"an operation that is not compared: {eager[0][:30]}")
    if _DEEP_INDEX.search(text):
        raise UnreadableError("an index of an index of an index")
    above = (int(power[2]) * math.log10(max(int(power[1]), 1)) for power in _POWER_ABOVE.finditer(text))
    if _BIG_EXPONENT.search(text) or any(digits > LONGEST_EXPONENT for digits in above):
        raise UnreadableError(f"an exponent beyond {LONGEST_EXPONENT} digits")


def clean(text: str) -> str:
    r"""Remove typesetting from a text, and rewrite each construct in a form that the parser reads correctly.

    >>> clean(r"$\left( 1{,}000,\, x' \right)$."), clean(r"3 \text{ and } 4.5e3 \text{ cm}^2")
    ('( 1000, \\dot{x} )', '3, 4.5E3')
    """
    text = as_letters(plain(THOUSANDS.sub("", text)))
    text = _TEXT.sub(r"\\text", _STYLED.sub(_unstyled, text)).replace(" ^", "^").rstrip(".\\ ")
    text = _PRIMES.sub(
        lambda m: rf"\ddot{{{m[1]}}}" if m[2] == "''" else rf"\dot{{{m[1]}}}", _AND.sub(", ", bounds.as_one(text))
    )
    text = _CHOOSE.sub(r"\\binom{\1}{\2}", _ANGLED.sub(lambda m: f"({m[1] or m[2]})", text)).replace(
        "\\varnothing", "\\emptyset"
    )
    text = _DECADIC.sub(r"\\log_{10}", _BRACED.sub(r"\\\1(\2)", text))
    text = _MODULO.sub(r"\\mod", _E_NOTATION.sub("E", _MATH_E.sub("e", text)))
    text = _ANGLE.sub(r"\1(\2\\pi/180)", _BARE_ANGLE.sub(r"\\\1", text))  # before degrees are removed as a unit
    text = _TO_T.sub("^{(T)}", text)
    text = repeating(_MISREAD.sub(lambda m: r"\hat{E}" if m[0] == "E" else r"\hat{g}", text))
    text = _ARRAY.sub(r"\\begin{matrix}\1\\end{matrix}", text)
    text = _MATRIX.sub(lambda m: rf"\{m[1]}{{pmatrix}}", _AROUND_MATRIX.sub(r"\1", text))
    text = _SET_BUILDER.sub(r"\2", text)
    while _WRAPPED.match(text) and _closing(text) == len(text) - 1:
        text = text[text.index("{") + 1 : -1].strip()
        if _BRACED_SETS.fullmatch(text):
            text = text.replace("{", r"\{").replace("}", r"\}")
            return rf"\{{{text}\}}"
    text = _ANGLE.sub(r"\1(\2\\pi/180)", names.latex(units.split(prose.value_of(text))[0]))
    return _FACTORIAL_RAISED.sub(r"(\1!)", text)


def _closing(text: str) -> int:
    """Return the position of the brace that closes the first brace of a text, or -1."""
    depth = 0
    for brace in re.finditer(r"\\.|[{}]", text):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if brace[0] == "}" and depth <= 0:
            return brace.start() if depth == 0 else -1
    return -1


def _unstyled(match: re.Match[str]) -> str:
    """Remove the font command around a number or a function's name; return anything else unchanged."""
    inside = match[1].strip()
    if inside.rstrip(".*") in _FUNCTIONS:
        return f"\\{inside}" if inside in _COMMANDS else f"\\operatorname{{{inside}}}"
    return inside if re.fullmatch(r"[-+0-9.,/ ]*[0-9][-+0-9.,/ ]*", inside) else match[0]


@lru_cache(4096)
def expression(text: str) -> Any:
    r"""Parse a LaTeX text that states one expression, not several separated by commas, into a sympy object.

    Raises:
        UnreadableError: the parser does not understand the text.
    """
    from antlr4.atn.PredictionMode import PredictionMode
    from latex2sympy2_extended import NormalizationConfig, normalize_latex

    if _SIDE_BY_SIDE.search(text) or not text:
        raise UnreadableError("two numbers side by side" if text else "nothing to read")
    if "'" in text:
        raise UnreadableError("a prime behind what is no letter")  # the parser would drop the prime
    config = NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=False, boxed="none", equations=False
    )
    latex = normalize_latex(text, config)
    # two passes, as ANTLR recommends: first the fast prediction mode, and the full mode only after an error
    for mode in (PredictionMode.SLL, PredictionMode.LL):
        try:
            return _reader()(mode).parse(latex)
        except Exception as error:  # noqa: BLE001 - the parser raises Exception, sympy nearly any type
            failure = f"{type(error).__name__}: {error}".partition("\n")[0]
    raise UnreadableError(f"not understood ({failure[:80]})")


@cache
def _reader() -> Any:
    """Return the parser class, modified so that numbers are exact and letters are case-sensitive."""
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

        def convert_matrix(self, matrix: Any) -> Any:
            result = super().convert_matrix(matrix)
            if matrix.getText().startswith(("\\begin{v", "\\begin{V", "|")) and result.rows > LARGEST_DETERMINANT:
                raise UnreadableError("a large determinant")
            return result

        def convert_func(self, func: Any) -> Any:
            if func.getText().startswith("\\det") and func.getText().count("\\\\") >= LARGEST_DETERMINANT:
                raise UnreadableError("a large determinant")
            return super().convert_func(func)

        def convert_postfix(self, postfix: Any) -> Any:
            result = super().convert_postfix(postfix)
            marks = postfix.postfix_op()
            if sum(mark.BANG() is not None for mark in marks) > 1:
                raise UnreadableError("a double factorial")
            if not getattr(result, "is_Matrix", False) and any(mark.transpose() for mark in marks):
                raise UnreadableError("a transpose, or a prime, of what is no matrix")  # the parser would drop it
            return result

        def convert_binom(self, binom: Any) -> Any:
            top, bottom = self.convert_expr(binom.upper), self.convert_expr(binom.lower)
            return sympy.binomial(top, bottom, evaluate=False)

        def convert_postfix_list(self, arr: Any, i: int = 0) -> Any:
            """Parse factors without a multiplication sign between them. 2(1/2) is a product, 2 1/2 a mixed number."""
            if i + 1 == len(arr) or not _INTEGER.fullmatch(arr[i].getText()):
                return super().convert_postfix_list(arr, i)
            number = self.convert_postfix(arr[i])
            if _MIXED.match(arr[i].getText() + arr[i + 1].getText()):
                number, i = number + self.convert_postfix(arr[i + 1]), i + 1
            if i + 1 == len(arr):
                return number
            rest = self.convert_postfix_list(arr, i + 1)
            return (self.mat_mul_flat if getattr(rest, "is_Matrix", False) else self.mul_flat)(number, rest)

        def handle_gcd_lcm(self, name: str, args: Any) -> Any:
            return sympy.Function(name)(*args)  # sympy's gcd treats letters as polynomials: gcd(m, n) would be 1

        def parse_number(self, text: str) -> Any:
            return sympy.Rational(text.replace(",", ""))  # sympy.Number would evaluate the text first

    return Reader
