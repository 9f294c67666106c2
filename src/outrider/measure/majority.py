"""majority@n (also maj@n or cons@n): whether the most frequent answer to a problem is correct."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def majority(answers: Sequence[str], success: Sequence[bool]) -> float:
    """Return the expected success of the most frequent answer to a problem, in [0, 1].

    ``answers`` are compared as strings, so the verifier's answer extraction determines which answers are equal. ``""``
    is *no vote*: truncated and unparseable responses have no answer, so they must not count as equal answers.

    Ties are resolved in expectation, not by order: each of ``m`` tied answers is chosen with probability ``1/m``. The
    verifier may accept one response and reject another with the same answer text, for example because of a wrong
    derivation. The success of this answer is then the share of its responses that were accepted.

    Degenerate cases: if there are no votes, the result is 0. If you average over problems, also report the number of
    problems without votes.

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
    """Return :func:`majority` over the verified responses to a problem; NaN if the answers are unknown.

    ``settled`` marks the responses that were parsed and not truncated. Such a response has an answer, but the verifier
    may not have returned its text. Responses that are not settled must have the answer ``""``. If no response is
    settled, the result is 0. If there are settled responses, but none of them has an answer text, the majority is
    unknown (NaN). The majority is also unknown if a settled successful response has no answer text. A failed response
    without an answer text does not count as a vote if other responses have answer texts.

    Degenerate cases: the result is NaN if there are no responses.

    >>> majority_or_unknown(["", ""], [False, False], settled=[True, True])
    nan
    >>> majority_or_unknown(["", "7"], [False, True], settled=[True, True])
    1.0
    >>> majority_or_unknown(["", ""], [False, False], settled=[False, False])
    0.0
    """
    unnamed = [won for answer, won, done in zip(answers, success, settled, strict=True) if done and not answer]
    # a successful response without an answer text may agree with any of the answers, or with none
    if not answers or any(unnamed) or (unnamed and not any(answers)):
        return math.nan
    return majority(answers, success)
