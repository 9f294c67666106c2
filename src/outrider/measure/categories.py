"""Token categories: formal reasoning, logical structure, metacognition and sentence support."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Ints
from outrider.errors import UserError, nearest

UNMATCHED = "unmatched"
LEXICON = Path(__file__).with_name("lexicon.yaml")
_KEYS = ("words", "patterns")
_SPACE = re.compile(r"\s")
_NEVER = "(?!)"
_MOST = 255  # maximum number of categories: one byte per character

Offsets = NDArray[np.int64]
Expressions = tuple[re.Pattern[str], re.Pattern[str]]


@dataclass(frozen=True)
class Lexicon:
    """Token categories with their words and regular expressions, in order of precedence.

    Attributes:
        expressions: two compiled expressions per category: one for its words, matched in lower-cased text, and one for
            its patterns, matched in the original text.

    Source: STILL report, arXiv 2508.07534, Table 1, for the four categories of the built-in lexicon. The report gives
    only a few examples per category; Outrider's authors chose the words.

    >>> lexicon = Lexicon.of({"metacognitive": {"words": ["wait", "let's check"]}, "formal": {"patterns": ["[0-9]+"]}})
    >>> lexicon.categorise_token_texts(["Wait", ",", " let", "'s", " check", " 12", "3"]).tolist()
    [0, 2, 0, 0, 0, 1, 1]
    >>> lexicon.names
    ('metacognitive', 'formal', 'unmatched')
    """

    expressions: Mapping[str, Expressions]

    @staticmethod
    def load(path: Path | None = None) -> Lexicon:
        """Load the built-in lexicon, or a user's file in the same format, which replaces it completely.

        Raises:
            UserError: the file cannot be read, or is not a lexicon.
        """
        path = path or LEXICON
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: the lexicon cannot be read ({error})") from None
        return Lexicon.of(_read(text, str(path)), str(path))

    @staticmethod
    def of(data: Mapping[str, Any], where: str = "lexicon") -> Lexicon:
        """Create a lexicon from data: ``words`` and ``patterns`` per category, as described in the built-in file.

        Raises:
            UserError: the data have another form, an unknown key, an empty category, or an invalid regular expression.
        """
        if not isinstance(data, Mapping) or not data:
            raise UserError(f"{where}: a lexicon needs at least one category with words or patterns")
        if len(data) > _MOST:
            raise UserError(f"{where}: a lexicon has at most {_MOST} categories, not {len(data)}")
        return Lexicon({name: _expressions(name, entry, where) for name, entry in data.items()})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The category names, then ``"unmatched"``; :meth:`categorise` returns indices into this tuple."""
        return (*self.expressions, UNMATCHED)

    def categorise(self, text: str, offsets_T2: Sequence[tuple[int, int]] | Offsets) -> Ints:
        """The category of every token of one text, as an index into :attr:`names`.

        ``offsets_T2``: start and end of each token, in characters of ``text``. Words are matched in the text rather
        than in single tokens, so all tokens of a word or phrase get its category. A token gets the category of its
        first character that is part of a match. A token that is only white space or has no characters (a special token,
        part of a character) is unmatched, even within a phrase.

        >>> Lexicon.of({"x": {"words": ["in summary"]}}).categorise("In summary", [(0, 2), (2, 3), (3, 10)]).tolist()
        [0, 1, 0]
        """
        unmatched, folded = len(self.expressions), _folded(text)
        kind_of = bytearray([unmatched]) * len(text)
        for kind, (words, patterns) in enumerate(self.expressions.values()):
            for match in (*patterns.finditer(text), *words.finditer(folded)):
                at, size = slice(*match.span()), match.end() - match.start()
                if kind_of[at].count(unmatched) == size:  # a match that overlaps an earlier one is dropped
                    kind_of[at] = bytes([kind]) * size
        for match in _SPACE.finditer(text):
            kind_of[match.start()] = unmatched
        parts = (kind_of[start:end] for start, end in offsets_T2)
        return np.array([next((k for k in part if k != unmatched), unmatched) for part in parts], dtype=np.int64)

    def categorise_token_texts(self, token_texts: Sequence[str]) -> Ints:
        """:meth:`categorise` for separately decoded tokens, which must add up to the text when joined."""
        stops = list(accumulate(map(len, token_texts)))
        return self.categorise("".join(token_texts), list(zip([0, *stops], stops, strict=False)))


def _expressions(name: str, entry: object, where: str) -> Expressions:
    if not isinstance(entry, Mapping):
        raise UserError(f"{where}: category {name!r} must hold words, patterns or both")
    for key in entry:
        if key not in _KEYS:
            raise UserError(f"{where}: category {name!r} has an unknown key {key!r}; {nearest(str(key), _KEYS)}")
    words, patterns = (_strings(entry.get(key, ()), f"{where}: {name}.{key}") for key in _KEYS)
    if not words and not patterns:
        raise UserError(f"{where}: category {name!r} has neither words nor patterns")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(
                f"{where}: {name}.patterns: {pattern!r} is not a valid regular expression ({error})"
            ) from None
    return _words(words), re.compile("|".join(f"(?:{p})" for p in patterns) or _NEVER)


def _words(words: Sequence[str]) -> re.Pattern[str]:
    """Expression that matches whole words and phrases in lower-cased text, longer ones first."""
    ordered = sorted({_folded(word) for word in words}, key=len, reverse=True)
    parts = (r"\s+".join(map(re.escape, word.split())) for word in ordered)
    return re.compile(rf"(?<![\w'])(?:{'|'.join(parts)})(?!\w)" if ordered else _NEVER)


def _folded(text: str) -> str:
    """Lower-case a text and straighten its apostrophes, without changing its length.

    Case-insensitive regular expressions would be slower.
    """
    lower = text.lower()
    if len(lower) != len(text):  # İ becomes two characters
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    return lower.replace("\u2019", "'")


def _strings(value: object, where: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) and v for v in value):
        raise UserError(f"{where} must be a list of strings")
    return list(value)


def _read(text: str, where: str) -> Any:
    """Read YAML with every plain value as a string, since ``no`` and ``on`` are words in a lexicon."""
    import yaml  # imported late: importing measure does not need YAML

    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
        data = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: {' '.join(str(error).split())}") from None
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            if twice := next((key for key in keys if keys.count(key) > 1), None):
                raise UserError(f"{where}: {twice!r} is given twice")
            nodes += [value for _, value in node.value]
    return data
