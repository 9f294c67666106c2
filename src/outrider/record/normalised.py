"""Normalisation of texts, to find questions that differ only in spacing, case or Unicode variants."""

from __future__ import annotations

import unicodedata


def normalised(text: str) -> str:
    """Remove differences of case, spacing and Unicode variants.

    Texts that are equal after normalisation are treated as duplicates and excluded: a training problem that is also
    held out, or a question that is also among the examples in its prompt. Some different texts become equal as well,
    such as "1 23" and "12 3", or "2²" and "22". This is safe, because it only excludes more problems.

    >>> normalised("Find  X!") == normalised("find x\uff01")
    True
    """
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
