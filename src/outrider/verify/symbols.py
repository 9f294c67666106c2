r"""Replaces each multi-character symbol with one letter, since the parser rejects such symbols or reads them as
products.

Such symbols are m_{\max}, M_\odot and x^*. \nabla\cdot and \nabla\times are two different operators, not products. The
cross product of two vectors differs from their dot product, and depends on the order of the vectors.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern
from outrider.verify.typography import FONT

GREEK = (
    "alpha|beta|gamma|delta|(?:var)?epsilon|zeta|eta|(?:var)?theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|(?:var)?phi"
    "|chi|psi|omega|Gamma|Delta|Theta|Lambda|Sigma|Phi|Psi|Omega"
)
_WORD = rf"(?:{FONT}|\\operatorname)\s*\{{\s*([A-Za-z][A-Za-z0-9 ,.-]*?)\s*\}}"
_INDEX = late_pattern(
    rf"((?<![A-Za-z\\])[A-Za-z]|\\(?:{GREEK})|(?<=[A-Za-z])\}})\s*_\s*"
    rf"(?:\{{\s*(?:\\([A-Za-z]+)|{_WORD}|([A-Za-z]{{3,}}|\*))\s*\}}|\\(odot|oplus|max|min|infty|sup|inf|perp|parallel))"
)
_STAR = late_pattern(
    r"(?<![A-Za-z\\])([A-Za-z])\s*\^\s*(?:\{\s*(?:\*|\\ast|\\star)\s*\}|\*(?!\*)|\\(?:ast|star)(?![A-Za-z]))"
)
_NABLA = late_pattern(r"\\nabla\s*\\(cdot|times)(?![A-Za-z])\s*")
_VECTOR = r"\\(?:vec|hat|overrightarrow|mathbf|boldsymbol|bm)\s*\{[^{}]*\}"
_CROSS = late_pattern(rf"({_VECTOR})\s*\\times\s*({_VECTOR})")
_BASIS = late_pattern(  # \hat{\mathbf{i}}, \mathbf{i} and \hat{\imath} are the same vector
    r"\\(?:hat|mathbf|boldsymbol|bm)\s*\{\s*\\(?:hat|mathbf|boldsymbol|bm)\s*\{\s*\\?([ijk])(?:math)?\s*\}\s*\}"
    r"|\\(?:hat|vec|mathbf|boldsymbol|bm)\s*\{\s*\\?([ijk])(?:math)?\s*\}"
)
_ANGLE = late_pattern(r"\\(?:measured)?angle\s*([A-Z])\s*([A-Z])\s*([A-Z])(?![A-Za-z])")
_PARSED = late_pattern(rf"\\(?:{GREEK})")


def letter(word: str) -> str:
    r"""Write a word as one letter with a numeric index, since the parser splits other indices into letters.

    >>> letter("max")
    '\\vartheta_{109097120}'
    """
    return rf"\vartheta_{{{_digits(word)}}}"


def as_letters(text: str) -> str:
    r"""Replace the multi-character symbols in a text with letters.

    >>> as_letters(r"m_{\max} = m_{\text{max}}"), as_letters(r"\angle CBA"), as_letters(r"x_{12} + y_\alpha")
    ('m_{109097120} = m_{109097120}', '\\vartheta_{ABC}', 'x_{12} + y_\\alpha')
    """
    text = (
        _STAR.sub(lambda m: f"{m[1]}_{{{_digits('*')}}}", _INDEX.sub(_index, text))
        if "_" in text or "^" in text
        else text
    )
    if len({match[1] or match[2] for match in _BASIS.finditer(text)}) > 1:
        text = _BASIS.sub(lambda match: rf"\hat{{{match[1] or match[2]}}}", text)
    if "\\nabla" in text or "\\times" in text or "angle" in text:
        text = _CROSS.sub(rf"{letter('cross')}(\1,\2)".replace("\\v", "\\\\v"), text)
        text = _ANGLE.sub(_angle, _NABLA.sub(lambda m: letter(f"nabla {m[1]}") + " ", text))
    return text


def _index(match: re.Match[str]) -> str:
    base, command, *words = match.groups()
    if command and _PARSED.fullmatch("\\" + command):
        return match[0]
    word = command or next(filter(None, words))
    return f"{base}_{{{word if len(word) == 1 and word.isalpha() else _digits(word)}}}"


def _angle(match: re.Match[str]) -> str:
    """Write an angle as one letter, not as a product of three letters. The angle ABC equals only CBA."""
    first, last = sorted((match[1], match[3]))
    return rf"\vartheta_{{{first}{match[2]}{last}}}"


def _digits(word: str) -> str:
    return "".join(f"{ord(sign):03d}" for sign in word)
