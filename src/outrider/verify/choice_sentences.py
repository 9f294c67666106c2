# ruff: noqa: RUF001 - look-alike characters
r"""Finds the sentence of a response that says which option is right: "The answer is (C).", "B is correct.", 故选B。

Hypothetical sentences ("if the answer is C") and sentences about a wrong answer are ignored. The code is pure Python,
runs in linear time, and never raises an exception.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from outrider.texts import late_pattern

MOST_SENTENCES = 20  # maximum number of sentences that are examined, counted from the end of the response
LONGEST_LINE = 400  # maximum characters that are examined before and after the words that introduce an answer
_NAMED = r"(?:answer|option|choice|letter|alternative|(?<=correct )one|(?<=right )one)"
_SO = r"(?:so|thus|hence|therefore|that|then|is|only|conclude|choose)"
_LETTER = r"[(（\[*【「“\"$\\]*(?:\\?(?:text|mathrm|boxed|\w{2,8})\{)?[(（]?[A-Za-z](?![A-Za-z])"
_SENTENCE = late_pattern(
    rf"(?:^|(?<=[.,:;!?>*\n])|\b{_SO}\b)[\s*]*[(\[]?[A-Z][)\]]?[ *]+is (?:the )?(?:correct|right|best)\b"
    r"|(?<=[\s*])[(\[][A-Z][)\]][ *]+is (?:the )?(?:correct|right|best)\b"
    r"|\b(?:option|choice|answer) [(\[*]*[A-Z][)\]*]* is (?:the )?(?:correct|right|best|answer)\b"
    rf"|\b{_NAMED}s?\b[^.\n]{{0,40}}?\b(?:is|was|would be|should be|must be)\b[ :*]*(?=[^ ])"
    rf"|(?:(?:答案|(?:正确|最佳)的?选项(?=[是为应]))(?:应该|应当|应|就)?(?:是|为|选)?|应选择?|故选择?|(?<![不能可应会该要])(?<!可以)选择?)(?:选项)?[\s:：*]*(?={_LETTER})"
    rf"|选项[\s*]*(?={_LETTER}[)）*\s]*(?:选项)?(?:是|为)?(?:正确|对的))",
    re.IGNORECASE,
)
_DENIED = late_pattern(r"(?:not|neither|none)\b", re.IGNORECASE)
_SUPPOSED = late_pattern(
    r"\b(?:if|suppose|supposing|assume|assuming|unless|whether|imagine)\b(?!.*\bthen\b)[^,]*$"
    r"|\b(?:doubt|deny|untrue|not true|not clear|unlikely|false)\b[^,]*\bthat\b[^,]*$"
    r"|\b(?:wrong|incorrect|false|worst)\s+(?:\w+\s+)?(?:answer|option|choice)s?\b"
    r"|(?:如果|若|假设|假如)[^，,]*$|(?:错误|不正确|不对)的?(?:答案|选项)|(?:不|别|勿|排除)(?:应该?|能|可以?|会|要)?(?:选|答案|应选)",
    re.IGNORECASE,
)
_END = late_pattern(r"[.!?。！？\n]")
_CUT = late_pattern(r"(?<=[^A-Z\s(])[.!?](?:\s|$)|[.!?]\s*$|[。！？，；]")
_CHINESE_AND = late_pattern(r"(?<=[A-Za-z)*])\s*(?:、|或者?|和|与|及|以及)\s*(?=[(*]*[A-Za-z])")
_BEHIND = late_pattern(r"(?:这个|这一|这)?(?:选项|项)?(?:是)?(?:正确|对)?(?:的)?\s*$")


def stating_sentences(text: str, reads: Callable[[str], bool]) -> list[tuple[int, str]]:
    """Return the last answer that a sentence states, with its offset, as a list of one pair. The list is empty if no
    sentence states an answer.

    Args:
        reads: function that returns whether a text can be read as an option.

    >>> stating_sentences("So B is correct. If the answer were A, ...", lambda said: len(said) == 1)
    [(0, 'B')]
    """
    for match in reversed(deque(_SENTENCE.finditer(text), MOST_SENTENCES)):
        front = text[max(match.start() - LONGEST_LINE, 0) : match.start()]
        if _SUPPOSED.search(_END.split(front)[-1] + match[0]) or text[match.end() : match.end() + 1] == "?":
            continue
        if own := _own_letter(match[0]):
            return [(match.start(), own)]
        line = text[match.end() : match.end() + LONGEST_LINE].lstrip().partition("\n")[0]
        said = _CUT.split(_CHINESE_AND.sub(" or ", line))[0].strip()
        said = _BEHIND.sub("", said) or said
        if _DENIED.match(said) or reads(said):
            return [(match.start(), said)]
    return []


def _own_letter(sentence: str) -> str:
    """Return the letter in a sentence such as "(B) is correct" or "option B is the best". Return an empty text if the
    sentence has no such letter."""
    letter = re.search(r"(?:^|[\s(\[*])([A-Z])[)\]*]*\s+is\b.*(?:correct|right|best|answer)$", sentence)
    return letter[1] if letter else ""
