"""Normalises texts, so that questions that differ only in spacing, case or Unicode variants can be found."""

from __future__ import annotations

import unicodedata


def normalised(text: str) -> str:
    """Return a form of a text that is independent of case, spacing and Unicode variants.

    Two questions with equal normalised texts count as duplicates. A training problem is excluded if it duplicates a
    held-out problem. A solved problem is not used as an example in the prompt of a problem that it duplicates. Some
    different texts also become equal, such as "1 23" and "12 3", or "2²" and "22". This is safe, since it only excludes
    a few more problems or examples.

    >>> normalised("Find  X!") == normalised("find x\uff01")
    True
    """
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
