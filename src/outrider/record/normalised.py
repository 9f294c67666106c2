"""When two writings of a question count as the same one."""

from __future__ import annotations

import unicodedata


def normalised(text: str) -> str:
    """What two writings of the same text share: all but case, spacing and Unicode variants.

    It is meant for questions that must not meet: those of training and held-out problems, a question and its own
    solution among the examples of a prompt. Different texts that only spacing, case or a superscript tells apart
    ("1 23" and "12 3", "2²" and "22") come out equal, which there is the safe side.

    >>> normalised("Find  X!") == normalised("find x\uff01")
    True
    """
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
