"""Measures the diversity of the responses to a problem, using distinct answers and the overlap of token n-grams."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrider.arrays import Floats, Ints
from outrider.measure.passk import pass_at_k

TokenSequence = Sequence[Hashable] | Ints


def distinct_at_k(answers: Sequence[str], k: int) -> float:
    r"""Estimate distinct@k, the expected number of distinct answers among ``k`` answers to one problem.

    .. math:: \sum_a \Big[ 1 - \binom{n - n_a}{k} \Big/ \binom{n}{k} \Big]

    Here, ``n`` is the number of answers, and ``n_a`` is the number of answers equal to ``a``. The formula sums, over
    the distinct answers ``a``, the probability that ``a`` occurs among ``k`` answers. The estimate is unbiased for
    every ``k <= n``, so models with different numbers of rollouts are comparable. The result is NaN if ``n < k``.
    ``""`` does not count as an answer.

    Raises:
        ValueError: ``k < 1``.

    Source: rarefaction, Hurlbert 1971, Ecology 52(4), Eq. for E(S_n).

    >>> round(distinct_at_k(["7", "7", "3", ""], k=2), 4)  # two of the three pairs contain both answers
    1.6667
    """
    votes = list(Counter(answer for answer in answers if answer).values())
    return float(pass_at_k(sum(votes), votes, k).sum()) if votes else np.nan


@dataclass(frozen=True, slots=True, eq=False)
class TextDiversity:
    """n-gram statistics of responses, with one entry per problem (suffix ``_P``) or per response (suffix ``_R``).

    Attributes:
        problems: sorted labels of the problems, in the same order as the entries of ``_P`` arrays.
        responses_P: number of responses per problem.
        duplicates_P: number of responses with the same tokens as an earlier response to the problem.
        overlap_P, novelty_P: mean overlap and mean novelty of the responses to each problem, without NaN values; NaN if
            all values are NaN.
        overlap_R, novelty_R: overlap and novelty of each response, in the given order. See :func:`text_diversity` for
            the cases in which a value is NaN.
    """

    problems: NDArray[np.generic]
    responses_P: Ints
    duplicates_P: Ints
    overlap_P: Floats
    novelty_P: Floats
    overlap_R: Floats
    novelty_R: Floats


def text_diversity(
    responses: Sequence[TokenSequence], problem_R: ArrayLike | None = None, order: int = 4
) -> TextDiversity:
    r"""Compute n-gram overlap and novelty of each response relative to the other responses to the same problem.

    Let :math:`c_i(g)` be the count of n-gram ``g`` in response ``i``, and let ``j`` run over the other responses:

    .. math::
        p_n(i) &= \sum_g \min\big(c_i(g), \max_{j \ne i} c_j(g)\big) \Big/ \sum_g c_i(g) \\
        \text{overlap}(i) &= \Big( \prod_{n=1}^{N} p_n(i) \Big)^{1/N} \qquad
        \text{novelty}(i) = \sum_{g:\, c_j(g) = 0\, \forall j} c_i(g) \Big/ \sum_g c_i(g) \quad (n = N)

    ``N`` is the parameter ``order``, the length of the longest n-grams. Overlap is the BLEU score of a response with
    all other responses as references, as in self-BLEU. Overlap has no brevity penalty, since one of many references
    usually has a similar length. Overlap has no smoothing: if one :math:`p_n` is 0, the overlap is 0. Overlap is 1 if
    another response contains the whole response. Overlap is 0 if none of the response's n-grams of length ``order``
    occurs in another response. Novelty is the share of the response's n-grams of length ``order`` that occur in no
    other response.

    ``responses`` are token ids (arrays or lists) or words (lists of strings, see :func:`words`). ``problem_R`` contains
    the problem of each response. If None, all responses are to one problem. The time is O(tokens log tokens) for each
    n, since the n-grams of all responses are sorted instead of compared in pairs.

    Degenerate cases: for a response with fewer than ``order`` tokens, the overlap is computed without the longer
    n-grams. The overlap is NaN for an empty response. Novelty is NaN for a response with fewer than ``order`` tokens.
    Overlap and novelty are NaN if a problem has only one response.

    Raises:
        ValueError: ``order < 1``, or the numbers of labels and responses differ.

    Source: self-BLEU: Zhu et al. 2018 (Texygen), arXiv 1802.01886; modified precision: Papineni et al. 2002.

    >>> found = text_diversity([[1, 2, 3], [1, 2, 4], [1, 2, 3]], order=2)
    >>> found.overlap_R.round(3).tolist(), found.novelty_R.tolist()
    ([1.0, 0.577, 1.0], [0.0, 0.5, 0.0])
    >>> found.duplicates_P.tolist()
    [1]
    """
    if order < 1:
        raise ValueError(f"n-grams need an order >= 1, not {order}")
    R = len(responses)
    labels_R = np.zeros(R, np.int64) if problem_R is None else np.asarray(problem_R)
    if labels_R.shape != (R,):
        raise ValueError(f"problem_R must have one label for each of {R} responses, not the shape {labels_R.shape}")
    problems, of_R, responses_P = np.unique(labels_R, return_inverse=True, return_counts=True)
    P, length_R, code_T = len(problems), np.array([len(r) for r in responses], np.int64), _codes(responses)
    log_R, orders_R = np.zeros(R), np.zeros(R)
    novelty_R = np.full(R, np.nan)
    for gram_T, owner_T in _grams(code_T, length_R, of_R, order):
        total_R, shared_R, own_R = _counts(gram_T, owner_T, R)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_R += np.where(total_R > 0, np.log(shared_R / total_R), 0.0)  # log 0 = -inf gives an overlap of 0
            novelty_R = own_R / total_R
        orders_R += total_R > 0
    compared_R = responses_P[of_R] > 1
    overlap_R = np.where(compared_R & (orders_R > 0), np.exp(log_R / np.maximum(orders_R, 1)), np.nan)
    novelty_R = np.where(compared_R, novelty_R, np.nan)
    return TextDiversity(
        problems=problems,
        responses_P=responses_P,
        duplicates_P=responses_P - _distinct_responses(code_T, length_R, of_R, P),
        overlap_P=_means(overlap_R, of_R, P),
        novelty_P=_means(novelty_R, of_R, P),
        overlap_R=overlap_R,
        novelty_R=novelty_R,
    )


def words(text: str) -> list[str]:
    """Split a text into words and numbers. Every ideograph and every other symbol is a separate word.

    >>> words("So 12+x = 7, 答案")
    ['So', '12', '+', 'x', '=', '7', ',', '答', '案']
    """
    return _WORD.findall(text)


_WORD = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|\S")


def _codes(responses: Sequence[TokenSequence]) -> Ints:
    """Map the tokens of all responses, concatenated, to small integers."""
    if all(isinstance(r, np.ndarray) for r in responses):
        flat_T = np.concatenate([np.zeros(0, np.int64), *map(np.asarray, responses)])
        # ids are renumbered from 0, so that products in _grams cannot overflow int64
        return np.unique(flat_T, return_inverse=True)[1]
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(token, len(number)) for r in responses for token in r], np.int64)


def _grams(code_T: Ints, length_R: Ints, of_R: Ints, order: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield, for n = 1 … order, the id of every n-gram occurrence and the index of its response.

    Two n-grams have the same id if they are equal and from the same problem. An n-gram is an (n-1)-gram plus one token,
    so its id is computed from two integers for any n.
    """
    owner_T = np.repeat(np.arange(len(length_R)), length_R)
    left_T = np.cumsum(length_R)[owner_T] - np.arange(len(code_T))  # tokens from this one to the response's end
    # ids start from the problem's index, so that n-grams of different problems never have the same id
    start_T, gram_T = np.arange(len(code_T)), of_R[owner_T]
    for n in range(1, order + 1):
        fits_T = left_T[start_T] >= n
        start_T, gram_T = start_T[fits_T], gram_T[fits_T]
        gram_T = np.unique(gram_T * (code_T.max(initial=0) + 1) + code_T[start_T + n - 1], return_inverse=True)[1]
        yield gram_T, owner_T[start_T]


def _counts(gram_T: Ints, owner_T: Ints, R: int) -> tuple[Floats, Floats, Floats]:
    """Count three things for each response: all its n-grams, the n-grams that other responses share (clipped as in
    BLEU), and the n-grams that no other response has.

    Clipping needs, for every n-gram of a response, the largest count of the n-gram in any *other* response. For this,
    the two largest counts of each n-gram are enough: the response that has the largest count needs the second largest.
    """
    if not len(gram_T):
        return np.zeros(R), np.zeros(R), np.zeros(R)
    pair_K, count_K = np.unique(gram_T * R + owner_T, return_counts=True)
    gram_K, owner_K = np.divmod(pair_K, R)
    last_U = np.flatnonzero(np.append(np.diff(gram_K) != 0, True))  # U: distinct n-grams
    holders_U = np.diff(last_U, prepend=-1)
    # sorted by n-gram, then by count: the last entry of each n-gram has the largest count
    by_count_K = np.lexsort((count_K, gram_K))
    top_U = by_count_K[last_U]
    others_K = np.repeat(count_K[top_U], holders_U)
    # the response with the largest count needs the second largest count
    others_K[top_U] = np.where(holders_U > 1, count_K[by_count_K[last_U - 1]], 0)

    def per_response(weight_K: NDArray[np.generic]) -> Floats:
        return np.bincount(owner_K, weight_K.astype(np.float64), R).astype(np.float64)

    return (
        per_response(count_K),
        per_response(np.minimum(count_K, others_K)),
        per_response(count_K * np.repeat(holders_U == 1, holders_U)),
    )


def _distinct_responses(code_T: Ints, length_R: Ints, of_R: Ints, P: int) -> Ints:
    ends_R = np.cumsum(length_R)
    seen = {
        (problem, code_T[end - length : end].tobytes())
        for problem, end, length in zip(of_R.tolist(), ends_R.tolist(), length_R.tolist(), strict=True)
    }
    return np.bincount([problem for problem, _ in seen], minlength=P)


def _means(values_R: Floats, of_R: Ints, P: int) -> Floats:
    """Return, for each problem, the mean of the values that are not NaN; NaN if the problem has no such values."""
    known_R = ~np.isnan(values_R)
    counted_P = np.bincount(of_R[known_R], minlength=P)
    sums_P = np.bincount(of_R[known_R], values_R[known_R], P)
    return np.where(counted_P > 0, sums_P / np.maximum(counted_P, 1), np.nan)
