"""majority@n (maj@n, cons@n): whether the most frequent answer of a problem is right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def majority(answers: Sequence[str], success: Sequence[bool]) -> float:
    """Expected success of the most frequent answer of one problem: a number in [0, 1].

    ``answers`` are compared as text, so their extraction decides which are equal. ``""`` is *no vote*: a response
    that was truncated or could not be parsed has not settled on an answer, and such responses must not elect one
    together.

    Ties are resolved in expectation, not by order: of ``m`` answers that share the most votes each is chosen with
    probability ``1/m``. If one answer text got both verdicts (right result, wrong derivation), it counts with the
    share of its votes that were successes.

    Degenerate cases: no votes gives 0, since nothing was elected; count such problems beside the number.

    Raises:
        ValueError: the two sequences differ in length.

    Source: self-consistency, Wang et al. 2023, arXiv 2203.11171.

    >>> majority(["7", "7", "3"], [True, True, False])
    1.0
    >>> majority(["7", "3", "", ""], [True, False, False, False])
    0.5
    """
    votes = Counter(answer for answer in answers if answer)
    if not votes:
        return 0.0
    most = max(votes.values())
    winners = {answer for answer, count in votes.items() if count == most}
    won = sum(s for answer, s in zip(answers, success, strict=True) if answer in winners)
    return won / (most * len(winners))


def majority_or_unknown(answers: Sequence[str], success: Sequence[bool], settled: Sequence[bool]) -> float:
    """:func:`majority` of the verified responses to one problem; NaN where nothing can be voted over.

    ``settled`` responses were parsed and not truncated, so they have an answer, whether or not anybody has named it. A
    verifier that only says yes or no names none: then the majority is unknown, and so it is where a response succeeded
    with an unknown answer. It is 0 where no response settled: these elect nothing. A failure without an
    answer beside others that have one is no vote.

    Degenerate cases: NaN without a response.

    >>> majority_or_unknown(["", ""], [False, False], settled=[True, True])
    nan
    >>> majority_or_unknown(["", "7"], [False, True], settled=[True, True])
    1.0
    >>> majority_or_unknown(["", ""], [False, False], settled=[False, False])
    0.0
    """
    unnamed = [won for answer, won, done in zip(answers, success, settled, strict=True) if done and not answer]
    # an unnamed success might be any of the answers, or another one
    if not answers or any(unnamed) or (unnamed and not any(answers)):
        return math.nan
    return majority(answers, success)
