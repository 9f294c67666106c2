r"""Faults of responses by explicit rules: format, repetition, garbling, language mixing.

STILL (arXiv 2508.07534, section 3.2.2, Figure 3d) follows three kinds over training: format violations by counting
``\boxed{``, irrelevant content by asking a language model, mixed languages by looking for Chinese characters. Here
every kind is found by rules that need no model and are printed with their results (:data:`RULES`), so that reports are
comparable. Rules see single responses, without correctness.

STILL's only published threshold is used: 0.31 for the redundancy of 3-grams (section 4.4.1, which defines it in words
only). The other thresholds are ours; of 1,200 worked solutions of GSM8K and MATH one has a fault of repetition, none is
garbled or mixed. Limitation: rules detect scripts, not languages, so Spanish within English is not found.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats
from outrider.record import Outcome, StopReason
from outrider.texts import redundancy

FaultKind = Literal["format", "repetition", "garbling", "language"]


@dataclass(frozen=True, slots=True)
class Response:
    """One response, the input of the rules.

    Attributes:
        text: the response, special tokens excluded.
        outcome: outcome of the verdict, None if never verified.
        stop: stop reason, None if unknown.
        marker: start of every answer (a box, ``####``); ``""`` if answers have no marker.
    """

    text: str
    outcome: str | None = None
    stop: str | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A number per response, and the threshold above which it is a fault.

    Attributes:
        name, kind: name in reports; which of STILL's types it belongs to, with irrelevant content split in two.
        definition: description of the number and of when it is unknown; reports print it verbatim.
        threshold: a larger number is a fault.
        number: NaN where the rule cannot decide.
    """

    name: str
    kind: FaultKind
    definition: str
    threshold: float
    number: Callable[[Response], float]


@dataclass(frozen=True, slots=True, eq=False)
class Faults:
    """The result of one rule.

    Attributes:
        rule: with its definition.
        number_R: the rule's number for each response, NaN where it could not decide.
        faulty_R: whether the number lies above the threshold.
    """

    rule: FaultRule
    number_R: Floats
    faulty_R: NDArray[np.bool_]

    @property
    def decided(self) -> int:
        """Responses that the rule could decide."""
        return int((~np.isnan(self.number_R)).sum())

    @property
    def share(self) -> float:
        """Faulty ones among those that the rule could decide; NaN where it could decide none."""
        return float(self.faulty_R.sum() / self.decided) if self.decided else np.nan


def faults(
    texts: Sequence[str],
    outcomes: Sequence[str | None] | None = None,
    stops: Sequence[str | None] | None = None,
    marker: str = "",
) -> list[Faults]:
    r"""Apply every rule of :data:`RULES` to every response; a response may break several.

    ``outcomes`` and ``stops`` are those of verdicts and rollouts, None (as a whole or per response) if unknown;
    ``marker`` is the start of an answer, such as ``\boxed{``. The cost is about 0.3 ms per 1,000 characters, so a
    report of a million responses should sample some thousands.

    Raises:
        ValueError: the sequences differ in length.

    >>> found = faults([r"So \boxed{7}.", r"\boxed{7} or \boxed{8}", "I do not know"], marker=r"\boxed{")
    >>> [(f.rule.name, f.faulty_R.tolist()) for f in found[:2]]
    [('no answer', [False, False, True]), ('several answers', [False, True, False])]
    """
    size = len(texts)
    rows = zip(texts, outcomes or [None] * size, stops or [None] * size, strict=True)
    responses = [Response(text, outcome, stop, marker) for text, outcome, stop in rows]
    results = []
    for rule in RULES:
        number_R = np.array([rule.number(response) for response in responses], dtype=np.float64)
        results.append(Faults(rule, number_R, number_R > rule.threshold))  # False for NaN
    return results


def answers_missing(response: Response) -> float:
    """1 without an answer, else 0."""
    if response.marker:
        return float(response.marker not in response.text)
    if response.outcome in (None, Outcome.TIMEOUT, Outcome.ERROR):
        return np.nan
    return float(response.outcome == Outcome.UNPARSEABLE)


def answers_marked(response: Response) -> float:
    """Number of occurrences of the marker."""
    return float(response.text.count(response.marker)) if response.marker else np.nan


def truncated(response: Response) -> float:
    """1 if a limit ended the response, else 0."""
    return np.nan if response.stop is None else float(StopReason(response.stop).truncates)


def repeated(response: Response) -> float:
    """The redundancy of the text (:func:`outrider.texts.redundancy`)."""
    found = redundancy(response.text)
    return np.nan if found is None else found


def compression(response: Response, least: int = 300) -> float:
    """Bytes of the text over bytes after zlib (level 6)."""
    data = response.text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data)) if len(data) >= least else np.nan


def garbled(response: Response) -> float:
    """Share of garbled characters.

    >>> garbled(Response("ab\\ufffd\\x07\\n"))
    0.4
    """
    bad = sum(response.text.count(character) for character in set(response.text) if _is_garbage(character))
    return bad / len(response.text) if response.text else np.nan


def foreign(response: Response) -> float:
    r"""Share of letters that are not of the response's main script.

    >>> round(foreign(Response("Also 因此 $\\alpha$")), 3), foreign(Response("β = 2π, привет"))
    (0.333, 0.0)
    """
    text = _FORMULA.sub(" ", response.text)
    counts: Counter[str] = Counter()
    for character, times in Counter(_LONE_GREEK.sub(" ", text)).items():
        if script := _script(character):
            counts[script] += times
    return 1 - max(counts.values()) / counts.total() if counts else np.nan


RULES: tuple[FaultRule, ...] = (
    FaultRule(
        "no answer",
        "format",
        "1 if the answer's marker does not occur; without a marker, 1 if the verdict is unparseable"
        " (unknown without a verdict, and after a timeout or an error of the verifier)",
        0,
        answers_missing,
    ),
    FaultRule(
        "several answers",
        "format",
        "how often the answer's marker occurs (unknown without a marker)",
        1,
        answers_marked,
    ),
    FaultRule(
        "no end",
        "format",
        "1 if the response was truncated by a limit on tokens or context (unknown without a stop reason)",
        0,
        truncated,
    ),
    FaultRule(
        "repeated words",
        "repetition",
        "1 - distinct/all 3-grams of words separated by blanks (unknown below 50 3-grams)",
        0.31,
        repeated,
    ),
    FaultRule(
        "compressible text",
        "repetition",
        "bytes of the text over its bytes compressed by zlib (unknown below 300 bytes)",
        5,
        compression,
    ),
    FaultRule(
        "garbled text",
        "garbling",
        "share of characters that are U+FFFD, control characters other than tab and line ends, unassigned,"
        " surrogates or of private use (unknown for an empty text)",
        0.01,
        garbled,
    ),
    FaultRule(
        "mixed languages",
        "language",
        "share of letters that are not of the most frequent script; excluded are formulas ($…$, \\(…\\), \\[…\\]),"
        " commands (\\name), and Greek letters without a Greek neighbour; Chinese and Japanese scripts count as one"
        " (unknown without letters)",
        0.01,
        foreign,
    ),
)

_DOLLARS = r"\$\$.*?\$\$|\$(?=[^\s$])[^$\n]*(?<=\S)\$(?!\d)"  # does not match between two amounts of money
_BRACKETS = r"\\\(.*?\\\)|\\\[.*?\\\]|\\begin\{(\w+\*?)\}.*?\\end\{\1\}"
_FORMULA = re.compile(rf"{_DOLLARS}|{_BRACKETS}|\\[A-Za-z]+", re.DOTALL)
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_LONE_GREEK = re.compile(f"(?<![{_GREEK}])[{_GREEK}](?![{_GREEK}])")
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "IDEOGRAPHIC"}
_NO_SCRIPT = {"MICRO", "FEMININE", "MASCULINE", "MODIFIER"}


@cache
def _script(character: str) -> str:
    """The script of a letter, by the first word of its Unicode name; "" for characters that are not letters of a
    language."""
    # mathematical letters are alphabetic in Unicode, but belong to no language
    symbol = "\u2100" <= character <= "\u214f" or "\U0001d400" <= character <= "\U0001d7ff"  # letterlike, mathematical
    if symbol or not character.isalpha():
        return ""
    name = unicodedata.name(character, "").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    first = re.split("[ -]", name)[0]
    return "EAST ASIAN" if first in _EAST_ASIAN else "" if first in _NO_SCRIPT else first


@cache
def _is_garbage(character: str) -> bool:
    return character == "\ufffd" or (
        character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cn", "Cs", "Co")
    )
