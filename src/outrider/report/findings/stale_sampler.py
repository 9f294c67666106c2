"""Stale sampler: rollouts are sampled from a policy that differs from the learner's policy."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import MIN_STEPS, Lacking, Level, Proportion, level, percent, share
from outrider.report.findings.view import splits

NEEDS = f"off-policy metrics of at least {MIN_STEPS} steps in metrics.jsonl, or weight versions of the rollouts"

# At PPO's clip bound, the k3 estimate of the KL is 1.2 - 1 - log 1.2 = 0.018. If the mean is larger, the average token
# is beyond the bound.
KL_OLD = 0.02
# With the same weights, sampler and learner differ by rounding: 1e-4 to 1e-3 nats are usual. At 1e-2, runs have become
# unstable (Yao et al. 2025; Liu et al. 2025, "When speed kills stability").
KL_SAMPLER = 0.01
ESS = 0.5  # minimum relative effective sample size; below 0.5, importance weights waste more than half of the samples
LAG, LATE = 4, 0.1  # AReaL's guide allows a lag of 4 versions; at most a tenth of the rollouts may have a larger lag

_GAUGES = (  # metric name, words for the sentence, threshold, whether the threshold is a lower bound
    ("kl_old", "the KL divergence from the sampling policy", KL_OLD, False),
    ("sampler_kl_k3", "the KL divergence between sampler and learner", KL_SAMPLER, False),
    ("weight_ess", "the effective sample size of the importance weights, as a share,", ESS, True),
)
_SHOWN = ("weight_p99", "weight_max", "weight_clamped", "clip_low", "clip_high", "log_ratio_bounded")


def find(run: RunData) -> Finding | None:
    """Check the off-policy metrics in the last quarter of the steps, and the age of the weights used for sampling.

    A rollout's lag is its step minus its weight version. The run's minimum of this difference is subtracted, so that
    versions may start at any number. The lag is not checked if a step has more than one weight version. A constant lag
    cannot be detected.

    Raises:
        Lacking: see ``NEEDS``.
    """
    gauges = [name for name, *_ in _GAUGES if _known(run, name)]
    lag = _lag(run)
    if not gauges and lag is None:
        raise Lacking(NEEDS)
    numbers = {name: _level(run, name).value for name in (*gauges, *_SHOWN) if _known(run, name)}
    signs = list(_broken(run))
    if lag is not None:
        late, worst = lag
        numbers |= {"late": late.value, "late_low": late.low, "lag_max": worst}
        if late.low > LATE:
            signs.append(
                f"{percent(late.value)} of the rollouts are more than {LAG} weight versions old (maximum {worst:.0f})"
            )
    if not signs:
        return None
    sentence = "; ".join(signs)
    return Finding(
        name="stale sampler",
        severity="act" if numbers.get("log_ratio_bounded", 0.0) > 0 or len(signs) > 1 else "watch",
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        numbers=numbers,
        threshold=f"In the last quarter of the steps, significantly (3-SE interval): kl_old above {KL_OLD}, "
        f"sampler_kl_k3 above {KL_SAMPLER}, weight_ess below {ESS}, or more than {percent(LATE)} of the rollouts "
        f"more than {LAG} weight versions old. The metrics are means over tokens: a few extreme tokens are not "
        "found.",
        advice=[
            "Make fewer updates per batch: learn.minibatches=1 and learn.epochs=1.",
            "Correct by importance sampling: objective.correction.truncate.cap=2, or objective.correction.mask.high=2.",
            "Sync weights to the sampler more often, or drop rollouts of old weight versions.",
            "Compare log-probabilities at the same temperature and top-p, and of the same token ids: decoding and "
            "re-encoding a text changes its tokens.",
        ],
    )


def _known(run: RunData, name: str) -> bool:
    values = run.metrics.get(f"learn/{name}", np.zeros(0))
    return int((~np.isnan(np.asarray(values, dtype=np.float64))).sum()) >= MIN_STEPS


def _level(run: RunData, name: str) -> Level:
    return level(run.metrics[f"learn/{name}"])


def _broken(run: RunData) -> Iterator[str]:
    """Yield a clause of the report's sentence, such as "the KL divergence … is 0.1 nats per token", for each metric
    that is significantly beyond its threshold."""
    for name, words, limit, lower in _GAUGES:
        if _known(run, name):
            seen = _level(run, name)
            if seen.high < limit if lower else seen.low > limit:
                yield f"{words} is {seen.value:.3g}{'' if lower else ' nats per token'}"


def _lag(run: RunData) -> tuple[Proportion, float] | None:
    """Return the share of rollouts with a lag above ``LAG``, and the maximum lag, both for the last quarter of the
    steps. Returns None if versions are unknown."""
    rows = run.query(
        f"SELECT step, policy_version AS version, count(*) AS n FROM {run.numbers} "
        "WHERE split = 'train' AND policy_version IS NOT NULL GROUP BY step, policy_version ORDER BY step"
    )
    step, version, n = (np.asarray(rows[name], dtype=np.float64) for name in ("step", "version", "n"))
    if len(np.unique(step)) < 2 or version.max() - version.min() > step.max() - step.min():
        return None
    lag = step - version
    lag -= lag.min()
    late = step >= splits(run)["train"].late
    steps = np.unique(step[late])
    old_S, all_S = (
        np.array([n[(step == s) & extra].sum() for s in steps]) for extra in (lag > LAG, np.ones(len(lag), dtype=bool))
    )
    worst = float(lag[late].max())
    return share(old_S, all_S), worst if math.isfinite(worst) else 0.0
