# ruff: noqa: RUF001 - look-alike characters
r"""Reads the letter of the chosen option from an answer, in any formatting: B, (B), ``\textbf{(B)}\ 12``, B: 12.

A letter is a choice if it is alone, in brackets, or followed by punctuation that ends a label, such as a colon. The "A"
of "A train leaves" and the "I" of "I think" are not choices. The code is pure Python, runs in linear time, and never
raises an exception.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from outrider.texts import late_pattern

LONGEST = 1000  # maximum characters of an answer; longer answers are not choices

_FONTS = (
    "text(?:bf|rm|it|sf|tt|normal|up)?|[mhf]box|boxed|emph|math(?:bf|rm|it|sf|normal)|boldsymbol|bm|underline|rm|bf"
)
_COMMAND = late_pattern(rf"\\(?:{_FONTS}|left|right|displaystyle)(?![A-Za-z])")
_SPACE = late_pattern(r"\\(?:[ ,;:!>]|q?quad(?![A-Za-z])|\\)|~|\s+")
_SIGNS = late_pattern(r"\*\*|__|`|(?<!\\)\$|\\[()\[\]]|(?<!\\)[{}]|<[^<>\n]{1,20}>")
_NAMED = r"(?:answer|option|choice|letter|alternative)"
_IS = r"(?:is|was|would be|should be|must be|:|=|is:)"
_LEAD = late_pattern(
    r"(?:(?:so|thus|hence|therefore|then|and so)\b,? +)?"
    r"(?:(?:i(?:'d| would|'ll| will)? (?:choose|pick|select|go with|say)|it(?:'s| is)|that(?:'s| is))\b:? *)?"
    rf"(?:(?:the|my|our)? *(?:(?:final|correct|right|best|most \w+)\b,? *)*"
    rf"{_NAMED}s?\b *(?:choice|option)? *{_IS}? *){{0,3}}",
    re.IGNORECASE,
)
_DASH = r"\s*[-–—]\s+(?=[^\W\d_]{2})"  # a dash before a word (before a number, a dash is a minus sign)
_ASIDE = r"\s+(?=\((?!\s*(?:or|and|not|maybe|perhaps|[A-Z]\))\b)[^()]*\)\.?$)"  # B (12), but not B (or C)
_BEHIND_BRACKETS = late_pattern(
    rf"\s*[-.:,;]*\s*$|\s*[.:,;]\s*(?![+*/^=<>_-])|\s+(?![-+*/^=<>_!'])|\s+(?=-[0-9.\\])|(?=[0-9\\])|{_DASH}"
)
_BEHIND_LETTER = late_pattern(rf"\s*$|[.:)\]]\s*(?![\^_!=]|[A-Z]\s*$)|{_DASH}|,\s+(?=[^\W\d_]|\()|{_ASIDE}")
_REASON = late_pattern(
    r"\s+(?:because|since|as|for|due|which|with)\b|\s+is (?:the )?(?:correct|right|best|answer|true)\b(?!\s*\?)",
    re.IGNORECASE,
)
_AND = r"^[\s,)\].:]*(?:and|or|nor|&|/|,)\s*(?:option |choice )?[(\[]?({labels})(?![\w'^+*=])"
_LISTED = r"(?<!\S)(?<![Aa]nd )(?<!or )(?<![Bb]oth )(?<!, )[(\[]({labels})[)\]]"  # not: D. both (A) and (C)
_PAIRS = {"*": "*", "_": "_", "'": "'", '"': '"', "“": "”", "‘": "’"}


class StatedChoice(NamedTuple):
    """The chosen option that a text states.

    Attributes:
        label: the option's label, which is a capital letter or one of the given labels.
        text: the text after the label: the option's text, another remark, or an empty text.
        other: the second label if the text states two labels; otherwise empty.
    """

    label: str
    text: str = ""
    other: str = ""


def read_choice(text: str, labels: Sequence[str] = ()) -> StatedChoice | None:
    r"""Return the choice that a text states; None if the text states no choice.

    Args:
        labels: the labels of the options, if they are not capital letters.

    >>> [read_choice(t).label for t in (r"\textbf{(B) }12", "Option B", "B: 12", "**B**", "the answer is b.", "[B]")]
    ['B', 'B', 'B', 'B', 'B', 'B']
    >>> [read_choice(t) for t in ("B^2", "2B", "B + 1", "A train leaves", "I think so", "Bob")]
    [None, None, None, None, None, None]
    >>> read_choice("B or C"), read_choice("C. 12 joules")
    (StatedChoice(label='B', text='', other='C'), StatedChoice(label='C', text='12 joules', other=''))
    """
    if len(text) > LONGEST:
        return None
    plain = bare(text)
    lead = _LEAD.match(plain)
    at = lead.end() if lead else 0
    said = plain[at:].lstrip(" \"'“‘:*-–—" if at else "")
    named = at > 0 or len(plain) < 2
    known = "|".join([*sorted(map(re.escape, labels), key=len, reverse=True), "[A-Z]"])
    wrapped = re.match(rf"[(\[]{{1,2}}\s*({known})\s*[)\]]{{1,2}}", said, re.IGNORECASE)
    found = wrapped or re.match(rf"({known})(?![A-Za-z0-9])", said, re.IGNORECASE if named else 0)
    if found is None:
        found = re.match(rf"({known})(?=[).:])", said, re.IGNORECASE)
    if found is None:
        return None
    rest = said[found.end() :]
    behind = (_BEHIND_BRACKETS if wrapped else _BEHIND_LETTER).match(rest)
    label = _label(found[1], labels)
    beside = re.search(_AND.format(labels=known), rest)
    other = beside or re.search(_LISTED.format(labels=known), rest)
    second = "" if other is None else _label(other[1], labels)
    second = "" if second == label else second
    if behind is None and beside is not None:
        return StatedChoice(label, "", second)
    if behind is None:
        reason = _REASON.match(rest)
        if reason is None or (not named and not wrapped and "is" not in reason[0].split()):
            return None  # "A for effort" begins with an article
    return StatedChoice(label, rest[behind.end() if behind else len(rest) :].strip(), second)


def bare(text: str) -> str:
    """Return a text without typesetting commands and enclosing quotation marks."""
    text = unicodedata.normalize("NFKC", text)
    for pattern, sign in ((_COMMAND, ""), (_SPACE, " "), (_SIGNS, "")):
        text = pattern.sub(sign, text)
    text = " ".join(text.split())
    while len(text) > 2 and _PAIRS.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    return text


def same_choice(gold: str, answer: str) -> bool | None:
    r"""Return whether the answer names the same option as the gold answer; None if one of the two is not a choice.

    A gold answer is a choice if it is one capital letter, either alone, in brackets or before the option's text.

    >>> same_choice("B", r"\boxed{B) 12}"), same_choice("C. 12", "C"), same_choice("B", "(C)")
    (True, True, False)
    >>> same_choice("B", "B^2"), same_choice("AB", "A"), same_choice("x", "(x)"), same_choice("B", "12")
    (None, None, None, None)
    """
    right = gold_choice(gold)
    given = None if right is None else read_choice(answer)
    if right is None or given is None:
        return None
    return given.label == right.label and not given.other


def gold_choice(gold: str) -> StatedChoice | None:
    """Read a gold answer as a choice; return None if the gold answer is not a choice.

    >>> gold_choice("(B)"), gold_choice("C. 12"), gold_choice("A train"), gold_choice("b"), gold_choice("2")
    (StatedChoice(label='B', text='', other=''), StatedChoice(label='C', text='12', other=''), None, None, None)
    """
    plain = bare(gold)
    if not _GOLD.match(plain):
        return None
    choice = read_choice(plain)
    return None if choice is None or choice.other else choice


# A:B=1:2 is a ratio, not option A
_GOLD = late_pattern(r"[(\[][A-Z][)\]](?:\s*$|[.:]?\s+[^\s=+*/^])|[A-Z](?:$|[.)]$|[.)]\s+[^=:]*$|:\s+[^=:]*$)")


def option_text(gold: str) -> str:
    """Return the option's text if the gold answer begins with the option's label, otherwise the whole gold answer.

    >>> option_text("C. 12"), option_text("C"), option_text("x + 1")
    ('12', 'C', 'x + 1')
    """
    choice = gold_choice(gold)
    return choice.text if choice is not None and choice.text else gold


def _label(found: str, labels: Sequence[str]) -> str:
    return next((label for label in labels if label.casefold() == found.casefold()), found.upper())
