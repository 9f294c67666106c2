"""Normalisation of texts, to find questions that are written differently but are the same."""

from __future__ import annotations

import unicodedata


def normalised(text: str) -> str:
    """Remove differences of case, spacing and Unicode variants.

    The function finds duplicates that must be excluded: a training problem among held-out problems, or a question
    among the examples in its own prompt. Different texts that differ only in spacing, case or a superscript ("1 23" and
    "12 3", "2²" and "22") become equal, which is the safe side here.

    >>> normalised("Find  X!") == normalised("find x\uff01")
    True
    """
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
