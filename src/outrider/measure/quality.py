r"""Uses rules to detect four kinds of faulty responses: format violations, repetition, garbled text and mixed
languages.

The STILL report (arXiv 2508.07534, section 3.2.2, Figure 3d) tracks three kinds of faults over training. The report
counts ``\boxed{`` to detect format violations, asks a language model to detect irrelevant content, and looks for
Chinese characters to detect mixed languages. Outrider detects every kind with rules (:data:`RULES`) that need no model.
Outrider's reports print the definition of each rule next to its results. A rule examines a single response and ignores
whether it is correct.

Only one threshold is published: 0.31 for the redundancy of 3-grams (STILL report, section 4.4.1). The report defines
this redundancy only in words. Outrider's authors chose the other thresholds. Among 1,200 reference solutions of GSM8K
and MATH, the rules find one repetition, and no garbled text or mixed languages. Limitation: the rules detect scripts,
not languages, so Spanish words in an English response are not detected.
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
    """One response, which is the input of a rule.

    Attributes:
        text: the response text without special tokens.
        outcome: the verifier's outcome, such as ``"correct"``; None if the response was never verified.
        stop: stop reason; None if unknown.
        marker: text that starts every answer (``\\boxed{``, ``####``); ``""`` if answers have no marker.
    """

    text: str
    outcome: str | None = None
    stop: str | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A rule that computes a number for a response, and the threshold above which the response is faulty.

    Attributes:
        name, kind: name of the rule in reports, and kind of fault.
        definition: text that defines the number and says when it is unknown; reports print this text verbatim.
        threshold: number above which a response is faulty.
        number: function that computes the number; NaN if the rule cannot decide.
    """

    name: str
    kind: FaultKind
    definition: str
    threshold: float
    number: Callable[[Response], float]


@dataclass(frozen=True, slots=True, eq=False)
class Faults:
    """The results of one rule for all responses.

    Attributes:
        rule: the rule, including its definition.
        number_R: the number that the rule computed for each response; NaN if the rule could not compute a number.
        faulty_R: whether each response is faulty, which means that its number is above the threshold.
    """

    rule: FaultRule
    number_R: Floats
    faulty_R: NDArray[np.bool_]

    @property
    def decided(self) -> int:
        """Number of responses for which the rule computed a number."""
        return int((~np.isnan(self.number_R)).sum())

    @property
    def share(self) -> float:
        """Share of faulty responses among the responses for which the rule computed a number; NaN if there are no such
        responses.
        """
        return float(self.faulty_R.sum() / self.decided) if self.decided else np.nan


def faults(
    texts: Sequence[str],
    outcomes: Sequence[str | None] | None = None,
    stops: Sequence[str | None] | None = None,
    marker: str = "",
) -> list[Faults]:
    r"""Apply every rule of :data:`RULES` to every response; a response may break several rules.

    ``outcomes`` has the verifier's outcome for each response, and ``stops`` the reason why the response ended. Either
    argument is None if the values are unknown for all responses. If only the value of one response is unknown, the
    entry for this response is None. ``marker`` is the start of an answer, such as ``\boxed{``. The cost is about 0.3 ms
    per 1,000 characters, so a report on a million responses should use a sample of a few thousand.

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
    """Return 1 if the response has no answer, and 0 if it has one; NaN if unknown."""
    if response.marker:
        return float(response.marker not in response.text)
    if response.outcome in (None, Outcome.TIMEOUT, Outcome.ERROR):
        return np.nan
    return float(response.outcome == Outcome.UNPARSEABLE)


def answers_marked(response: Response) -> float:
    """Return the number of occurrences of the answer marker; NaN if there is no marker."""
    return float(response.text.count(response.marker)) if response.marker else np.nan


def truncated(response: Response) -> float:
    """Return 1 if the token limit or the context limit ended the response, and 0 if not; NaN if unknown."""
    return np.nan if response.stop is None else float(StopReason(response.stop).truncates)


def repeated(response: Response) -> float:
    """Return the redundancy of the text (:func:`outrider.texts.redundancy`); NaN for short texts."""
    found = redundancy(response.text)
    return np.nan if found is None else found


def compression(response: Response, least: int = 300) -> float:
    """Return the compression ratio: the number of bytes before compression with zlib (level 6), divided by the number
    after. Return NaN for texts of fewer than ``least`` bytes.
    """
    data = response.text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data)) if len(data) >= least else np.nan


def garbled(response: Response) -> float:
    """Return the share of garbled characters; NaN if the text is empty.

    >>> garbled(Response("ab\\ufffd\\x07\\n"))
    0.4
    """
    bad = sum(response.text.count(character) for character in set(response.text) if _is_garbage(character))
    return bad / len(response.text) if response.text else np.nan


def foreign(response: Response) -> float:
    r"""Return the share of letters outside the response's main script; NaN if there are no letters.

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

_DOLLARS = r"\$\$.*?\$\$|\$(?=[^\s$])[^$\n]*(?<=\S)\$(?!\d)"  # not the text between two amounts in dollars
_BRACKETS = r"\\\(.*?\\\)|\\\[.*?\\\]|\\begin\{(\w+\*?)\}.*?\\end\{\1\}"
_FORMULA = re.compile(rf"{_DOLLARS}|{_BRACKETS}|\\[A-Za-z]+", re.DOTALL)
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_LONE_GREEK = re.compile(f"(?<![{_GREEK}])[{_GREEK}](?![{_GREEK}])")
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "IDEOGRAPHIC"}
_NO_SCRIPT = {"MICRO", "FEMININE", "MASCULINE", "MODIFIER"}


@cache
def _script(character: str) -> str:
    """Return the script of a letter, which is the first word of its Unicode name; ``""`` for all other characters."""
    # mathematical symbols count as letters in Unicode, but belong to no language
    symbol = "\u2100" <= character <= "\u214f" or "\U0001d400" <= character <= "\U0001d7ff"  # symbol blocks
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
