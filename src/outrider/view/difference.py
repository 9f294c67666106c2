"""Compares two texts word by word, so that a page can show both texts side by side."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONGEST = 4000  # maximum words per text for a comparison by word; longer texts would take too long
_REPEATED = 500  # above this number of words, frequent words do not serve as anchors, since responses may loop


class Stretch(NamedTuple):
    """Consecutive words in one of two texts. ``shared`` is True if the other text has the same words."""

    text: str
    shared: bool


def difference(first: str, second: str) -> tuple[list[Stretch], list[Stretch]]:
    """Split both texts into stretches of shared words and stretches of different words.

    Very long texts are compared line by line.

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
