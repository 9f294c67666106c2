"""The section on entropy over training, by outcome, by position in a response, and against success."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats, Ints
from outrider.measure.entropy import by_relative_position
from outrider.report.content import Figure, Section
from outrider.report.data import SAMPLED, RunData
from outrider.report.sections.exchange import exchange
from outrider.report.sections.seen import by, ends, one, query, series, split

_MOST = 2000  # maximum number of responses whose tokens are read, at each end of training
_STEPS = 4  # number of steps at each end of training from which these responses are read

_TEXT = "Entropy of the full next-token distribution, in nats per sampled token. Exploration needs entropy."
_TRAINED = (
    " Training reduces entropy. If entropy falls too early, the rollouts of a group become alike and find nothing "
    "new. The last figure shows success against entropy."
)
_ESTIMATED = (
    " Entropies are missing, so the mean negative log-probability of the sampled tokens is an estimate. Over all "
    "rollouts the estimate is unbiased if sampling used temperature 1 without truncation; by outcome it is biased."
)


def section(run: RunData) -> Section | None:
    """Return a section on entropy over training, by outcome, by relative position in the response, and against success.
    The plot by position compares early and late training.

    Means give each token equal weight. If there are no token counts, means give each rollout equal weight. If no
    entropies are recorded, entropy is estimated from log-probabilities, and the figures call it an estimate. The result
    is None if there are neither entropies nor log-probabilities.
    """
    value = _value(run)
    if not value:
        return None
    trained = split(run) == "train"
    text = _TEXT + _TRAINED * trained + ("" if value == "entropy" else _ESTIMATED) + _excluded(run, value)
    figures = [*over_time(run), *_by_outcome(run, value), *_positions(run, value)]
    bought, law = exchange(run, _mean(value), _name(value)) if trained else ([], [])
    return Section("entropy", "Entropy", text, [*figures, *bought], law)


def _value(run: RunData) -> str:
    """Return SQL for the entropy of a rollout, or for an estimate; "" if neither is available."""
    there = one(query(run, "SELECT count(entropy) AS exact, count(logprob) AS estimated FROM seen"))
    return "entropy" if there["exact"] else "-logprob" if there["estimated"] else ""


def _excluded(run: RunData, value: str) -> str:
    """Return a sentence on the rollouts without a known ``value``; "" if the value is known for all rollouts."""
    result = one(query(run, f"SELECT count(*) AS n, count(*) FILTER (isfinite({value})) AS known FROM seen"))
    missing = result["n"] - result["known"]
    return f" {missing:,} of {result['n']:,} rollouts have no such number and are excluded." if missing else ""


def _mean(value: str) -> str:
    """Return SQL for the mean of ``value`` per token, or per rollout if there are no token counts."""
    # rollout files may have mean entropies without token counts; then every rollout counts once
    weight = "coalesce(tokens, 1)"
    known = f"FILTER (isfinite({value}))"
    return f"sum({value} * {weight}) {known} / nullif(sum({weight}) {known}, 0)"


def over_time(run: RunData) -> list[Figure]:
    """Plot the mean entropy per token over training, exact or estimated; return no figure if neither is available."""
    value = _value(run)
    if not value:
        return []
    columns = query(
        run, f"SELECT upto, {_mean(value)} AS mean FROM seen WHERE isfinite({value}) GROUP BY upto ORDER BY upto"
    )
    lines = [series(_name(value), columns["upto"], columns["mean"])]
    title = f"{_name(value).capitalize()} along training"
    return [Figure("entropy-time", title, "line", "step", "nats per token", lines)]


def _by_outcome(run: RunData, value: str) -> list[Figure]:
    columns = query(
        run,
        f"""
        SELECT upto, CASE success WHEN 1 THEN 'correct' ELSE 'not correct' END AS outcome, {_mean(value)} AS mean
        FROM seen WHERE success IS NOT NULL AND isfinite({value}) GROUP BY ALL ORDER BY upto
        """,
    )
    parts = by(columns, "outcome")
    if len(parts) < 2:
        return []
    lines = [series(name, part["upto"], part["mean"]) for name, part in parts.items()]
    title = f"{_name(value).capitalize()} by outcome"
    return [Figure("entropy-outcome", title, "line", "step", "nats per token", lines)]


def _name(value: str) -> str:
    """Return the name of the plotted quantity."""
    return "entropy" if value == "entropy" else "estimated entropy"


def _positions(run: RunData, value: str) -> list[Figure]:
    """Plot entropy by position in the response, from tokens of a few steps early and late in training. Return no figure
    if there are no token data."""
    if not run.has("traces"):
        return []
    lines = []
    for name, steps in ends(run, _STEPS).items():
        if (sample := _sample(run, steps, value == "entropy")) is not None:
            values_T, lengths_R, starts_R, problems_R = sample
            profile = by_relative_position(values_T, lengths_R, starts_R).over_problems(problems_R, resamples=200)
            means = [m.value for m in profile.means]
            low, high = [m.low for m in profile.means], [m.high for m in profile.means]
            lines.append(series(name, np.array(profile.groups), np.array(means), low=low, high=high))
    if not lines:
        return []
    note = f"At most {_MOST:,} responses of {_STEPS} steps at each end; 95 % intervals over problems."
    title = f"{_name(value).capitalize()} by position in the response"
    x, y = "share of the response", "nats per token"
    return [Figure("entropy-position", title, "line", x, y, lines, note=note, percent="x")]


def _sample(run: RunData, steps: list[int], exact: bool) -> tuple[Floats, Ints, Ints, Ints] | None:
    """Return the token entropies of at most ``_MOST`` responses from ``steps``. The other arrays contain each
    response's length, the position at which it branches off its parent (0 if it has no parent), and its problem. The
    result is None if there are no token data."""
    column = "entropies" if exact else "logprobs"
    columns = run.db.execute(
        f"SELECT {column}, branch_at, problem_id FROM traces "
        f"WHERE split = ? AND step IN (SELECT unnest(?)) AND {SAMPLED} AND {column} IS NOT NULL LIMIT {_MOST}",
        [split(run), steps],
    ).fetchnumpy()
    lists = [np.ma.getdata(values) for values in columns[column]]
    if not sum(map(len, lists)):
        return None
    values_T = np.concatenate(lists).astype(np.float64) * (1 if exact else -1)
    problems_R = np.unique(np.asarray(columns["problem_id"], dtype=str), return_inverse=True)[1].astype(np.int64)
    return values_T, np.array([len(values) for values in lists]), columns["branch_at"], problems_R
