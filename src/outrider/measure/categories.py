"""Assigns tokens to categories by word lists. The built-in categories are formal reasoning, logical structure,
metacognition (such as "let me check") and semantic support (such as "the").
"""

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
_MOST = 255  # maximum number of categories, since a character's category is stored in one byte

Offsets = NDArray[np.int64]
Expressions = tuple[re.Pattern[str], re.Pattern[str]]


@dataclass(frozen=True)
class Lexicon:
    """Token categories in order of precedence, with the words and regular expressions of each category.

    Attributes:
        expressions: two compiled expressions per category. The first matches the category's words in lower-cased text,
            and the second matches the category's patterns in the original text.

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
        """Load the built-in lexicon, or a user's file in the same format, which replaces the built-in lexicon
        completely.

        Raises:
            UserError: the file cannot be read, or does not contain a lexicon.
        """
        path = path or LEXICON
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: the lexicon cannot be read ({error})") from None
        return Lexicon.of(_read(text, str(path)), str(path))

    @staticmethod
    def of(data: Mapping[str, Any], where: str = "lexicon") -> Lexicon:
        """Create a lexicon from ``words`` and ``patterns`` for each category. The comments at the top of
        ``lexicon.yaml`` describe this format.

        Raises:
            UserError: the data do not have this format, or contain an unknown key, an empty category or an invalid
                regular expression.
        """
        if not isinstance(data, Mapping) or not data:
            raise UserError(f"{where}: a lexicon needs at least one category with words or patterns")
        if len(data) > _MOST:
            raise UserError(f"{where}: a lexicon has at most {_MOST} categories, not {len(data)}")
        return Lexicon({name: _expressions(name, entry, where) for name, entry in data.items()})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the categories, then ``"unmatched"``. :meth:`categorise` returns indices into this tuple."""
        return (*self.expressions, UNMATCHED)

    def categorise(self, text: str, offsets_T2: Sequence[tuple[int, int]] | Offsets) -> Ints:
        """Return the category of every token of one text, as an index into :attr:`names`.

        ``offsets_T2`` has the start and the end of each token, in characters of ``text``. Words and phrases are matched
        in the whole text rather than in individual tokens, so all tokens of a match get the category of this match. If
        a match covers only a part of a token, the token has the category of its first matched character. A white-space
        token is unmatched, even within a phrase. A token without characters (a special token, or a part of a character)
        is also unmatched.

        >>> Lexicon.of({"x": {"words": ["in summary"]}}).categorise("In summary", [(0, 2), (2, 3), (3, 10)]).tolist()
        [0, 1, 0]
        """
        unmatched, folded = len(self.expressions), _folded(text)
        kind_of = bytearray([unmatched]) * len(text)
        for kind, (words, patterns) in enumerate(self.expressions.values()):
            for match in (*patterns.finditer(text), *words.finditer(folded)):
                at, size = slice(*match.span()), match.end() - match.start()
                if kind_of[at].count(unmatched) == size:  # skip a match that overlaps an earlier match
                    kind_of[at] = bytes([kind]) * size
        for match in _SPACE.finditer(text):
            kind_of[match.start()] = unmatched
        parts = (kind_of[start:end] for start, end in offsets_T2)
        return np.array([next((k for k in part if k != unmatched), unmatched) for part in parts], dtype=np.int64)

    def categorise_token_texts(self, token_texts: Sequence[str]) -> Ints:
        """Call :meth:`categorise` for separately decoded tokens. The concatenated ``token_texts`` must be the
        response's text."""
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
    """Return an expression that matches whole words and phrases in lower-cased text; longer phrases have precedence."""
    ordered = sorted({_folded(word) for word in words}, key=len, reverse=True)
    parts = (r"\s+".join(map(re.escape, word.split())) for word in ordered)
    return re.compile(rf"(?<![\w'])(?:{'|'.join(parts)})(?!\w)" if ordered else _NEVER)


def _folded(text: str) -> str:
    """Convert text to lower case and replace curly apostrophes with straight apostrophes, without changing the length
    of the text.

    This is faster than case-insensitive regular expressions.
    """
    lower = text.lower()
    if len(lower) != len(text):  # for example, a lower-cased İ has two characters
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    return lower.replace("\u2019", "'")


def _strings(value: object, where: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) and v for v in value):
        raise UserError(f"{where} must be a list of strings")
    return list(value)


def _read(text: str, where: str) -> Any:
    """Read YAML with every value as a string, because YAML would read the words ``no`` and ``on`` as booleans."""
    import yaml  # imported here, so that importing measure does not need YAML

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
