r"""Removes words that introduce an answer: ``\text{The answer is }7``, ``\text{Area} = 7``.

The words are kept if one of them changes the value, as in "the answer is not 7" and "at most 7". They are also kept if
the text after them contains words other than a unit: "f is injective" stays unchanged. In this rule, a word has at
least four letters or is inside ``\text``. The rule does not apply to introductions that contain "answer", "result",
"solution" or "conclusion": "the result is increasing" becomes "increasing". The code is pure Python and runs in linear
time.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern
from outrider.verify import units
from outrider.verify.changing_words import changes_value
from outrider.verify.typography import TEXT

_VERB = (
    r"(?:is|are|was|were|be|equals?|gets?|got|has|have|gives?|yields?|contains?|needs?|takes?|costs?|makes?|found|bought|sold"
    r"|remains?|becomes?)"
)
_LEADING = late_pattern(
    rf"\s*(?:{TEXT}\s*\{{\s*([A-Za-z][^{{}}\\$=<>]*?(?:\b{_VERB}|:))\s*:?\s*\}}\s*:?"
    rf"|([A-Za-z][A-Za-z' ,-]*?(?:\b{_VERB}\b(?!\s*=)|[a-z]{{3}}:)))\s*(?=[^\s=<>,])"
)
_NAMED = late_pattern(rf"\s*([^=<>]*{TEXT}\s*\{{[^{{}}]*[A-Za-z]{{2}}[^{{}}]*\}}[^=<>]*)=\s*([^<>]+)$")
_TO_READ = late_pattern(rf"[A-Za-z]{{2}}\s*:|{TEXT}\s*\{{|\b{_VERB}\b")
_ANSWER = late_pattern(r"\b(?:answer|result|solution|conclusion)\b", re.IGNORECASE)
_IN_TEXT = late_pattern(rf"{TEXT}\s*\{{[^{{}}]*[A-Za-z][^{{}}]*\}}")
_WHOLE = late_pattern(rf"{TEXT}\s*\{{([^{{}}]*)\}}")
_COUNTED = late_pattern(r"^([^A-Za-z ]*[0-9]) ([A-Za-z]{3,}(?: [A-Za-z]+)*)$")  # the "7 ways" of a sentence
_A_WORD = late_pattern(r"(?<![A-Za-z\\{])[A-Za-z]{4,}(?![A-Za-z(])")


def value_of(text: str) -> str:
    r"""Remove the words that introduce the value in a text.

    >>> value_of(r"\text{The answer is }7"), value_of("The answer is yes"), value_of(r"\text{Area} = 7\text{ cm}")
    ('7', 'yes', '7\\text{ cm}')
    >>> value_of(r"\text{The answer is not }7"), value_of(r"\text{n is }\text{even}"), value_of("x is 7")
    ('\\text{The answer is not }7', '\\text{n is }\\text{even}', '7')
    """
    if not _TO_READ.search(text):
        return text
    if (whole := _WHOLE.fullmatch(text)) and (inner := value_of(whole[1])) != whole[1]:
        return rf"\text{{{inner}}}" if _in_words(inner) else inner
    for pattern in (_LEADING, _NAMED):
        if (match := pattern.match(text)) is None:
            continue
        words = " ".join(filter(None, match.groups()[:2])) if pattern is _LEADING else match[1]
        rest = text[match.end() :] if pattern is _LEADING else match[2]
        if rest.strip() and not changes_value(_spoken(words)) and (_ANSWER.search(words) or not _in_words(rest)):
            return _COUNTED.sub(r"\1\\text{ \2}", rest.strip())
    return text


def _spoken(words: str) -> str:
    return re.sub(r"\\[A-Za-z]+|[{}]", " ", words)


def _in_words(text: str) -> bool:
    """Return whether a text contains words other than a unit at the end."""
    quantity, _ = units.split(_COUNTED.sub(r"\1\\text{ \2}", text))
    return bool(_IN_TEXT.search(quantity) or _A_WORD.search(quantity))
