"""Computes statistics of response lengths: by outcome, over training steps, and for responses whose advantage was
increased by a shaper (such as a novelty bonus).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrider.arrays import Flags, Floats

REFERENCES = ("correct", "group", "unshaped")


class Lengths(NamedTuple):
    """Lengths of the responses with one outcome, in tokens.

    Attributes:
        outcome: the verifier's outcome, such as ``"correct"``; ``"all"`` for all responses together, and
            ``"unverified"`` for responses that were not verified.
        responses: number of responses, including responses of unknown length.
        mean, std: mean and population standard deviation of known lengths; NaN if there are no known lengths.
        p10, median, p90, longest: interpolated quantiles and the maximum; NaN if there are no known lengths.
        truncated: share of truncated responses, among the responses for which truncation is known; NaN if truncation is
            not known for any response.
    """

    outcome: str
    responses: int
    mean: float
    std: float
    p10: float
    median: float
    p90: float
    longest: float
    truncated: float


def lengths_by_outcome(
    tokens_R: ArrayLike, outcome_R: Sequence[str | None], truncated_R: ArrayLike | None = None
) -> list[Lengths]:
    """Return length statistics and the share of truncated responses. The first entry is for all responses; one entry
    for each outcome follows, the most frequent outcome first.

    ``tokens_R`` is the number of tokens of each response, or NaN if unknown. ``outcome_R`` is the verifier's outcome
    for each response, such as ``"correct"``, or None if the response was not verified. ``truncated_R`` is 1 for a
    truncated response, 0 for a complete response, and NaN if unknown. If ``truncated_R`` is None, truncation is unknown
    for all responses. Truncated responses count with their truncated length, so a mean over many truncated responses
    mostly reflects the token limit.

    Raises:
        ValueError: the three sequences differ in length.

    >>> for row in lengths_by_outcome([10, 30, 50], ["correct", "incorrect", "incorrect"], [0, 0, 1]):
    ...     print(row.outcome, row.responses, row.mean, row.truncated)
    all 3 30.0 0.3333333333333333
    incorrect 2 40.0 0.5
    correct 1 10.0 0.0
    """
    tokens = np.asarray(tokens_R, dtype=np.float64)
    truncated = np.full(len(tokens), np.nan) if truncated_R is None else np.asarray(truncated_R, dtype=np.float64)
    outcome = np.array(["unverified" if o is None else o for o in outcome_R], dtype=np.str_)
    if not tokens.shape == truncated.shape == outcome.shape:
        raise ValueError(
            f"lengths, outcomes and truncations differ in number: {len(tokens)}, {len(outcome)}, {len(truncated)}"
        )
    names, counts = np.unique(outcome, return_counts=True)
    names = names[np.argsort(-counts, kind="stable")]
    rows = [_lengths(str(name), tokens[outcome == name], truncated[outcome == name]) for name in names]
    return [_lengths("all", tokens, truncated), *rows]


def _lengths(outcome: str, tokens_R: Floats, truncated_R: Floats) -> Lengths:
    known_R, ended_R = tokens_R[~np.isnan(tokens_R)], truncated_R[~np.isnan(truncated_R)]
    share = float(ended_R.mean()) if len(ended_R) else np.nan
    if not len(known_R):
        return Lengths(outcome, len(tokens_R), *(np.nan,) * 6, share)
    p10, median, p90 = np.quantile(known_R, [0.1, 0.5, 0.9]).tolist()
    return Lengths(
        outcome=outcome,
        responses=len(tokens_R),
        mean=float(known_R.mean()),
        std=float(known_R.std()),
        p10=p10,
        median=median,
        p90=p90,
        longest=float(known_R.max()),
        truncated=share,
    )


class Shaped(NamedTuple):
    """Lengths of responses whose advantage was increased, for example by a novelty bonus, compared with lengths in
    their groups. These responses are called *shaped*.

    Attributes:
        reference: which responses of the group are used for comparison: ``correct``, ``group`` or ``unshaped``; see
            :func:`shaped_lengths`.
        z: mean z-score; NaN if no response has a z-score.
        z_error: standard error of ``z`` over shaped responses, which ignores the correlation within a group.
        z_responses: number of shaped responses with a z-score. A z-score needs reference responses of different
            lengths.
        ratio: mean ratio of a shaped response's length to the mean length of its reference responses.
        ratio_responses: number of shaped responses with a ratio. A ratio needs reference responses whose mean length is
            above 0.
    """

    reference: str
    z: float
    z_error: float
    z_responses: int
    ratio: float
    ratio_responses: int


def shaped_lengths(
    tokens_R: ArrayLike, group_R: ArrayLike, success_R: ArrayLike, shaped_R: ArrayLike
) -> dict[str, Shaped]:
    r"""Measure whether an advantage shaper prefers long or short responses, by comparing the lengths of shaped
    responses with lengths in their groups.

    .. math:: z_i = \frac{L_i - \mu_{\mathrm{ref}(i)}}{\sigma_{\mathrm{ref}(i)}}, \qquad
              \text{ratio}_i = L_i / \mu_{\mathrm{ref}(i)}

    The results are averages over the shaped responses ``i``, whose advantage a shaper increased (for example for
    novelty). The caller marks these responses. Each response ``i`` is compared with three sets of reference responses
    from its group: ``correct`` (the successes), ``group`` (all responses) and ``unshaped`` (the successes that were not
    shaped). ``correct`` and ``group`` are columns of XRPO's Table 7. These two references include the shaped responses
    themselves, which biases z and ratio towards no difference. The bias grows with the share of shaped responses. The
    reference ``unshaped`` has no such bias. The paper leaves three choices open: Outrider uses the population standard
    deviation, gives equal weights to all shaped responses, and compares a response only with its group in the same
    step.

    ``success_R`` is 1 or 0, or NaN if the response could not be verified. NaN lengths are excluded everywhere.
    Degenerate cases: a reference with zero deviation (one response, or equal lengths) gives no z-score. A reference
    without responses gives neither z-score nor ratio. ``z_responses`` counts the responses with a z-score, and
    ``ratio_responses`` those with a ratio.

    Raises:
        ValueError: the arrays differ in length.

    Source: XRPO, arXiv 2510.06672, appendix D.1 and Table 7. The table reports z = 0.257 and ratio = 1.040 for
    ``correct``, and z = -0.280 and ratio = 0.991 for ``group``.

    >>> found = shaped_lengths([30, 20, 10, 60], [0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0])
    >>> {name: (round(row.z, 3), row.ratio) for name, row in found.items()}
    {'correct': (1.225, 1.5), 'group': (0.0, 1.0), 'unshaped': (3.0, 2.0)}
    """
    tokens, success = np.asarray(tokens_R, dtype=np.float64), np.asarray(success_R, dtype=np.float64)
    shaped, group = np.asarray(shaped_R, dtype=np.bool_), np.asarray(group_R)
    if not tokens.shape == success.shape == shaped.shape == group.shape:
        raise ValueError("lengths, groups, successes and shaped flags must have equal lengths")
    known = ~np.isnan(tokens)
    chosen = shaped & known
    of_group = np.unique(group, return_inverse=True)[1]
    members = {"correct": known & (success == 1), "group": known, "unshaped": known & (success == 1) & ~shaped}
    results = {}
    for name in REFERENCES:
        mean, std = _moments(tokens, of_group, members[name])
        mean, std = mean[of_group[chosen]], std[of_group[chosen]]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = ((tokens[chosen] - mean) / std)[std > 0]
            ratio = (tokens[chosen] / mean)[mean > 0]
        error = z.std(ddof=1) / np.sqrt(len(z)) if len(z) > 1 else np.nan
        results[name] = Shaped(name, _mean(z), float(error), len(z), _mean(ratio), len(ratio))
    return results


def _moments(values_R: Floats, of_group_R: NDArray[np.int64], used_R: Flags) -> tuple[Floats, Floats]:
    """Return the mean and the population standard deviation of the used values in each group; NaN for a group without
    used values.
    """
    groups = int(of_group_R.max(initial=-1)) + 1
    of_used, values = of_group_R[used_R], values_R[used_R]
    counts = np.bincount(of_used, minlength=groups).astype(np.float64)
    counts[counts == 0] = np.nan
    means = np.bincount(of_used, values, groups) / counts
    # a second pass over the values, since a difference of two large sums would lose the digits of a small deviation
    return means, np.sqrt(np.bincount(of_used, (values - means[of_used]) ** 2, groups) / counts)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else np.nan


class Drift(NamedTuple):
    """Change of a metric per doubling of the training steps, and its standard error; NaN if undefined."""

    per_doubling: float
    error: float


def drift(step_S: ArrayLike, value_S: ArrayLike) -> Drift:
    r"""Fit a line to a metric, such as mean length, over :math:`\log_2` of the training step, by least squares.

    A line in the logarithm of the step fits a metric that changes fast early in training and slowly later. The standard
    error assumes independent residuals. Residuals of neighbouring steps are correlated, so the true standard error may
    be about twice as large.

    Degenerate cases: NaN values and step 0, which has no logarithm, are excluded. The result is NaN for fewer than
    three points, or if all points belong to one step.

    Raises:
        ValueError: the two arrays differ in length, or a step is negative.

    >>> [round(number, 6) for number in drift([1, 2, 4, 8], [10, 20, 30, 44])]
    [11.2, 0.69282]
    """
    step, value = np.asarray(step_S, dtype=np.float64), np.asarray(value_S, dtype=np.float64)
    if step.shape != value.shape or (step < 0).any():
        raise ValueError("steps must be >= 0, one for every value")
    known = ~np.isnan(value) & (step > 0)
    doublings = np.log2(step[known])
    if len(doublings) < 3 or np.ptp(doublings) == 0:
        return Drift(np.nan, np.nan)
    line, covariance = np.polyfit(doublings, value[known], 1, cov=True)
    return Drift(float(line[0]), float(np.sqrt(covariance[0, 0])))
