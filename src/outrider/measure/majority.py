"""majority@n (maj@n, cons@n): whether the most frequent answer to a problem is correct."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def majority(answers: Sequence[str], success: Sequence[bool]) -> float:
    """Expected success of the most frequent answer of one problem: a number in [0, 1].

    ``answers`` are compared as strings, so answer extraction determines which are equal. ``""`` is *no vote*: truncated
    and unparseable responses have no answer, and must not count as a common answer.

    Ties are resolved in expectation, not by order: each of ``m`` answers with the most votes is chosen with probability
    ``1/m``. If an answer text got both verdicts (correct result, wrong derivation), its success is the share of its
    votes that were successes.

    Degenerate cases: without votes the result is 0; report the number of such problems with it.

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
    """:func:`majority` of the verified responses to one problem; NaN if there are no answers to vote on.

    ``settled`` responses were parsed and not truncated, so they have an answer, even if the verifier returned no text.
    With a verifier that only accepts or rejects, the majority is unknown, as it is if a response succeeded with an
    unknown answer. It is 0 if no response settled. A failure without an answer text is no vote if others have one.

    Degenerate cases: NaN without a response.

    >>> majority_or_unknown(["", ""], [False, False], settled=[True, True])
    nan
    >>> majority_or_unknown(["", "7"], [False, True], settled=[True, True])
    1.0
    >>> majority_or_unknown(["", ""], [False, False], settled=[False, False])
    0.0
    """
    unnamed = [won for answer, won, done in zip(answers, success, settled, strict=True) if done and not answer]
    # a success without text might be any of the answers, or another one
    if not answers or any(unnamed) or (unnamed and not any(answers)):
        return math.nan
    return majority(answers, success)
