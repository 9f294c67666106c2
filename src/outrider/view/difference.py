"""Compares two texts word by word, to show the texts side by side."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONGEST = 4000  # maximum words of a text that is compared word by word, since the comparison takes a moment
_REPEATED = 500  # above this number of words, frequent words are not used as anchors, since responses may loop


class Stretch(NamedTuple):
    """Consecutive words of one of two texts. If ``shared`` is True, these words also occur in the other text."""

    text: str
    shared: bool


def difference(first: str, second: str) -> tuple[list[Stretch], list[Stretch]]:
    """Split both texts into stretches of shared and of unshared words. Very long texts are compared by line.

    >>> difference("3 + 4 = 7", "3 + 5 = 8")[0]
    [Stretch(text='3 + ', shared=True), Stretch(text='4', shared=False), Stretch(text=' = ', shared=True), \
Stretch(text='7', shared=False)]
    """
    words = [_WORDS.findall(text) for text in (first, second)]
    if max(map(len, words)) > _LONGEST:
        words = [text.splitlines(keepends=True) for text in (first, second)]
    sides: tuple[list[Stretch], list[Stretch]] = ([], [])
    for what, a, b, c, d in SequenceMatcher(
        None, words[0], words[1], autojunk=max(map(len, words)) > _REPEATED
    ).get_opcodes():
        for side, own in zip(sides, (words[0][a:b], words[1][c:d]), strict=True):
            if own:
                side.append(Stretch("".join(own), what == "equal"))
    return sides
