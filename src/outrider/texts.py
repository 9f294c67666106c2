"""Finds ``\\boxed{…}`` answers and repetition in a response, lists reasoning tags, and compiles patterns on first
use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, cast

MARKS: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<thoughts>": "</thoughts>",
    "<reason>": "</reason>",
    "<reasoning>": "</reasoning>",
    "<scratchpad>": "</scratchpad>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
"""Opening and closing tags around reasoning in chat templates and prompts. Upper and lower case are equivalent."""

_TOKENS = re.compile(r"\\{1,2}(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


def box_spans(text: str) -> Iterator[tuple[int, int]]:
    r"""Yield the start and end of the content of each closed ``\boxed{…}`` or ``\fbox{…}``, ordered by end.

    Escaped braces, ``\{`` and ``\}``, are ignored.

    >>> list(box_spans(r"\boxed{1} or \boxed{x}, not \boxed{3"))
    [(7, 8), (20, 21)]
    """
    if "\\boxed" not in text and "\\fbox" not in text:
        return
    opened: list[int | None] = []  # per open brace, the start of a box's content; None if the brace opens no box
    for token in _TOKENS.finditer(text):
        if len(token[0]) > 2:
            opened.append(token.end())
        elif token[0] == "{":
            opened.append(None)
        elif token[0] == "}" and opened and (start := opened.pop()) is not None:
            yield start, token.start()


def first_box_end(text: str) -> int | None:
    r"""Return the index after the closing brace of the first closed box; None if there is no closed box. For nested
    boxes, return the end of the outer box.

    >>> first_box_end(r"\boxed{\frac{1}{2}}, or \boxed{3}"), first_box_end(r"\boxed{3")
    (19, None)
    """
    spans = list(box_spans(text))
    return min(spans)[1] + 1 if spans else None


def tokens_until_box(token_texts: Sequence[str]) -> int:
    r"""Return the number of tokens up to and including the token that closes the first box. If there is no closed box,
    return the total number of tokens.

    >>> tokens_until_box(["so ", "\\boxed{", "4", "}.", "<end>"])
    4
    """
    end = first_box_end("".join(token_texts))
    if end is None:
        return len(token_texts)
    begins = [0, *accumulate(len(text) for text in token_texts)]
    return sum(begin < end for begin in begins[:-1])


def redundancy(text: str, n: int = 3, least: int = 50) -> float | None:
    r"""Return the share of repeated word n-grams, 1 - (distinct n-grams)/(n-grams). If there are fewer than ``least``
    n-grams, return None.

    >>> round(redundancy("one two three four " * 25), 2)  # 98 trigrams, 4 distinct
    0.96
    """
    words = text.split()
    grams = list(zip(*(words[i:] for i in range(n)), strict=False))
    return 1 - len(set(grams)) / len(grams) if len(grams) >= least else None


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern as ``re.compile`` does, but compile it only on first use, because compilation would slow down
    imports.

    >>> digits = late_pattern("[0-9]+")
    >>> digits.findall("1, 22"), digits.sub("n", "1, 22")
    (['1', '22'], 'n, n')
    >>> import pickle
    >>> pickle.loads(pickle.dumps(digits)).findall("3")
    ['3']
    """
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))


class _LatePattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern = pattern
        self._flags = flags

    def __reduce__(self) -> tuple[Any, ...]:
        return late_pattern, (self._pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        """Return a method of the compiled pattern. The method is cached, so that later calls are as fast as those of an
        ordinary compiled pattern."""
        value = getattr(re.compile(self._pattern, self._flags), name)
        setattr(self, name, value)
        return value
