"""Normalises texts, to find questions that differ only in spacing, case or Unicode variants."""

from __future__ import annotations

import unicodedata


def normalised(text: str) -> str:
    """Return a text without differences in case, spacing and Unicode variants.

    Two questions with equal normalised texts count as duplicates. A training problem is excluded if a held-out problem
    duplicates it, and an example is excluded from the prompt of a duplicate. Some different texts also become equal,
    such as "1 23" and "12 3", or "2²" and "22". This is safe, since it only excludes a few more.

    >>> normalised("Find  X!") == normalised("find x\uff01")
    True
    """
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
