"""Synthetic runs with a known illness: a healthy run of 40 steps of 16 groups of 8, and one change for each finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from outrider.importers.plain import PLAIN
from outrider.measure import Evaluation, Interval, Summary, Tally, pass_at_k, powers_of_two
from outrider.report.data import RunData

STEPS, GROUPS, SIZE = 40, 16, 8
POOL = 160  # problems; each comes up four times
LIMIT = 1024
ROWS = (STEPS, GROUPS, SIZE)

_PROBLEMS = np.array([f"p{i}" for i in range(POOL)], object)
_GROUPS = np.array([f"g{i // SIZE}" for i in range(STEPS * GROUPS * SIZE)], object)
_TEXTS = np.array([f"response {i}" for i in range(STEPS * GROUPS * SIZE)], object).reshape(ROWS)

Logits = Callable[[Any, Any], Any]  # of difficulty and of the time of the run in [0, 1]


@dataclass
class Draft:
    """A run in the making: arrays [S, G, N], so that an illness is a line or two. ``rng`` draws what it needs."""

    rng: np.random.Generator
    problem: Any
    success: Any
    tokens: Any
    entropy: Any
    logprob: Any
    text: Any
    answer: Any
    reward: Any = None  # None: 1 for a success, else 0
    cut: Any = None
    unparseable: Any = None
    timeout: Any = None
    stops: bool = True
    version: Any = None
    metrics: dict[str, Any] = field(default_factory=dict)
    evaluations: dict[int, Evaluation] = field(default_factory=dict)
    time: Any = field(default_factory=lambda: np.linspace(0, 1, STEPS)[:, None, None])


def rising(difficulty: Any, time: Any) -> Any:
    return 1.6 * time - difficulty


def draft(seed: int, logits: Logits = rising, easy: float = -0.6, spread: float = 1.5) -> Draft:
    rng = np.random.default_rng(seed)
    epochs = np.concatenate([rng.permutation(POOL) for _ in range(STEPS * GROUPS // POOL)])
    problem = np.repeat(epochs.reshape(STEPS, GROUPS, 1), SIZE, axis=2)
    difficulty = rng.normal(-easy, spread, POOL)
    time = np.linspace(0, 1, STEPS)[:, None, None]
    success = rng.random(ROWS) < _sigmoid(logits(difficulty[problem], time))
    tokens = np.exp(5 + 0.1 * difficulty[problem] + rng.normal(0, 0.3, ROWS)) * np.where(success, 1.0, 1.1)
    entropy = (0.35 - 0.1 * time) * np.exp(rng.normal(0, 0.1, ROWS))
    wrong = rng.integers(1, 50, ROWS)  # another problem's answer
    d = Draft(
        rng=rng,
        problem=problem,
        success=success,
        tokens=np.minimum(tokens, LIMIT - 1),
        entropy=entropy,
        logprob=-entropy + rng.normal(0, 0.04, ROWS),
        text=_TEXTS.copy(),
        answer=_PROBLEMS[np.where(success, problem, (problem + wrong) % POOL)],
        cut=rng.random(ROWS) < 0.005,
        unparseable=rng.random(ROWS) < 0.02,
        timeout=rng.random(ROWS) < 0.001,
        version=np.broadcast_to(np.arange(STEPS)[:, None, None], ROWS).copy(),
        metrics=_metrics(rng),
    )
    held_out = rng.normal(-easy, spread, 100)
    d.evaluations = {0: evaluation(rng, -held_out), STEPS: evaluation(rng, 1.2 - held_out)}
    return d


def finish(d: Draft, config: dict[str, Any] | None = None) -> RunData:
    """The plain table, metrics and evaluations of a draft."""
    cut = d.cut & ~d.timeout
    unparseable = (d.unparseable & ~d.success) | cut
    success = d.success & ~cut & ~d.timeout
    outcome = np.where(success, "correct", np.where(unparseable, "unparseable", "incorrect"))
    outcome = np.where(d.timeout, "timeout", outcome)
    reward = success.astype(float) if d.reward is None else d.reward
    step = np.broadcast_to(np.arange(1, STEPS + 1)[:, None, None], ROWS).ravel()
    n = success.size
    columns: dict[str, Any] = {
        "split": "train",
        "step": step,
        "problem_id": _PROBLEMS[d.problem.ravel()],
        "group_id": _GROUPS,
        "member": np.tile(np.arange(SIZE), STEPS * GROUPS),
        "stream": "main",
        "stage": "0-uniform",
        "context": "plain",
        "branch_at": np.zeros(n, int),
        "text": d.text.ravel(),
        "tokens": np.where(cut, LIMIT, d.tokens.astype(int)).ravel(),
        "entropy": None if d.entropy is None else d.entropy.ravel(),
        "logprob": None if d.logprob is None else d.logprob.ravel(),
        "outcome": outcome.ravel(),
        "reward": np.where(d.timeout, np.nan, reward).ravel(),
        "answer": np.where(unparseable | d.timeout, "", d.answer).ravel(),
        "detail": "",
        "seconds": np.full(n, 0.01),
        "stop": np.where(cut, "length", "stop").ravel() if d.stops else None,
        "policy_version": None if d.version is None else d.version.ravel(),
        "unused": "",
    }
    return run_of(columns, config, d.metrics, d.evaluations)


_DATABASE = duckdb.connect(config={"threads": 1})


def run_of(columns: dict[str, Any], config: Any = None, metrics: Any = None, evaluations: Any = None) -> RunData:
    """``RunData.of`` a plain table, without a new database each time: that takes longer than all the rest."""
    db = _DATABASE.cursor()
    db.register("rollouts", table(columns))
    return RunData("synthetic", db, config or {}, metrics or {}, evaluations or {})


def table(columns: dict[str, Any]) -> pa.Table:
    """A plain table from some of its columns, a text standing for all rows; the others are null."""
    n = len(columns["step"])
    arrays = []
    for column in PLAIN:
        values = columns.get(column.name)
        if values is None or isinstance(values, str):
            arrays.append(pa.repeat(pa.scalar(values, column.type), n))
        else:
            arrays.append(pa.array(values, column.type))
    return pa.table(arrays, schema=PLAIN)


def evaluation(rng: np.random.Generator, logits_P: Any, n: int = 64) -> Evaluation:
    """An evaluation of ``n`` samples of each problem, of these true logits of success."""
    counts = rng.binomial(n, _sigmoid(np.asarray(logits_P)))
    none = Interval(np.nan, np.nan, np.nan, 0)
    tallies = tuple(
        Tally(f"h{i}", "", n, n, int(c), n, np.nan, np.nan, 0, 0, 0, 0, 100 * n, 0, 0.0, 0)
        for i, c in enumerate(counts)
    )
    p = len(tallies)
    pass_at = {k: Interval(float(pass_at_k(n, counts, k).mean()), np.nan, np.nan, p) for k in powers_of_two(n)}
    overall = Summary("all", pass_at, none, none, p, n * p, n * p, 0, 0.0, 0.0, 0, 0, np.nan, 100.0, 100 * n * p)
    return Evaluation(overall, (), tallies, 0, 0)


def _metrics(rng: np.random.Generator) -> dict[str, Any]:
    noise = rng.lognormal(0, 0.2, (3, STEPS))
    return {
        "step": np.arange(1.0, STEPS + 1),
        "learn/kl_old": 0.002 * noise[0],
        "learn/sampler_kl_k3": 0.001 * noise[1],
        "learn/weight_ess": 1 - 0.03 * noise[2],
        "learn/clip_high": np.full(STEPS, 0.004),
        "learn/log_ratio_bounded": np.zeros(STEPS),
    }


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def healthy(seed: int) -> RunData:
    return finish(draft(seed))


# ---- entropy collapse


def collapse(seed: int) -> RunData:
    d = draft(seed)
    d.entropy *= np.exp(-3 * d.time)
    return finish(d)


def collapse_estimated(seed: int) -> RunData:
    """Nothing but sampled log-probabilities; still some nats a response, so that texts stay distinct."""
    d = draft(seed)
    d.entropy, d.logprob = None, -0.6 * np.exp(-2.2 * d.time) * np.exp(d.rng.normal(0, 0.1, ROWS))
    return finish(d)


def collapse_at_once(seed: int) -> RunData:
    """All is over after the second step: the mean over a tenth of the steps is one of the fallen."""
    d = draft(seed)
    d.entropy[1:] *= 0.4
    d.entropy[2:] *= 0.2
    return finish(d)


# ---- coverage narrowing


def narrowing(seed: int) -> RunData:
    d = draft(seed)
    hard = d.rng.normal(0.6, 1.5, 100)
    d.evaluations = {0: evaluation(d.rng, -hard), STEPS: evaluation(d.rng, np.where(hard > 2, -9, 1.5 - hard))}
    return finish(d)


def narrowing_visits(seed: int) -> RunData:
    """No evaluations: problems that were solved now and then are lost, the others gain."""
    d = draft(seed, lambda hard, time: np.where(hard > 1.3, -2 * time - 1, 1.6 * time - hard) - 4 * (hard > 1.3) * time)
    d.evaluations = {}
    return finish(d)


# ---- no rise


def flat(seed: int) -> RunData:
    d = draft(seed, lambda hard, time: -hard)
    same = d.rng.normal(0.6, 1.5, 100)
    d.evaluations = {0: evaluation(d.rng, -same), STEPS: evaluation(d.rng, -same)}
    return finish(d)


def falling(seed: int) -> RunData:
    """It unlearns, and nothing was evaluated."""
    d = draft(seed, lambda hard, time: -1.2 * time - hard, easy=0.6)
    d.evaluations = {}
    return finish(d)


# ---- saturation


def saturation(seed: int) -> RunData:
    return finish(draft(seed, lambda hard, time: 3.5 * np.minimum(time / 0.4, 1) - hard, easy=-2))


# ---- dead prompts


def all_failed(seed: int) -> RunData:
    """Three quarters of the problems are out of reach, however long it trains."""
    return finish(draft(seed, lambda hard, time: np.where(hard > -0.4, -9, 1.6 * time - hard)))


def all_solved(seed: int) -> RunData:
    return finish(draft(seed, lambda hard, time: np.where(hard < 2.2, 9, 1.6 * time - hard)))


def hopeless(seed: int) -> RunData:
    """Two fifths are never solved, and the rest nearly always gives a signal."""
    return finish(draft(seed, lambda hard, time: np.where(hard > 0.9, -12, 0.6 * time - 0.2 * hard)))


# ---- truncation


def truncation(seed: int) -> RunData:
    d = draft(seed)
    d.cut |= d.rng.random(ROWS) < 0.25
    return finish(d)


def truncation_inferred(seed: int) -> RunData:
    d = draft(seed)
    d.cut |= d.rng.random(ROWS) < 0.15
    d.stops = False
    return finish(d)


# ---- verifier suspicion


def timeouts(seed: int) -> RunData:
    d = draft(seed)
    d.timeout |= d.rng.random(ROWS) < 0.08
    return finish(d)


def unparseable(seed: int) -> RunData:
    d = draft(seed)
    d.unparseable |= d.rng.random(ROWS) < 0.8
    return finish(d)


def disagreement(seed: int) -> RunData:
    """A tenth of the verdicts is a coin's, whatever the answer."""
    d = draft(seed)
    d.success ^= d.rng.random(ROWS) < 0.1
    return finish(d)


def unstable(seed: int) -> RunData:
    """Without answers in the dump: one member of each group says what one of another visit said, verified at random."""
    d = draft(seed)
    d.answer = np.where(d.success, "", "").astype(object)
    d.text[:, :, 0] = np.char.add("again ", d.problem[:, :, 0].astype(str))
    d.success[:, :, 0] = d.rng.random((STEPS, GROUPS)) < 0.5
    return finish(d)


def empty_answers(seed: int) -> RunData:
    d = draft(seed)
    d.answer[d.rng.random(ROWS) < 0.1] = ""
    return finish(d)


def jump(seed: int) -> RunData:
    """From step 31 on more than half of the failures pass."""
    d = draft(seed, easy=-1.8)
    d.success |= (d.rng.random(ROWS) < 0.6) & (np.arange(STEPS)[:, None, None] >= 30)
    d.answer = np.where(d.success, _PROBLEMS[d.problem], d.answer)
    return finish(d)


# ---- length drift


def longer(seed: int) -> RunData:
    d = draft(seed)
    d.tokens = np.minimum(d.tokens * np.exp(0.8 * d.time), LIMIT - 1)
    return finish(d)


def longer_failures(seed: int) -> RunData:
    """Failures grow, successes shrink, so that the mean over all hardly moves."""
    d = draft(seed)
    d.tokens = np.minimum(d.tokens * np.exp(np.where(d.success, -0.7, 0.6) * d.time), LIMIT - 1)
    return finish(d)


def shorter(seed: int) -> RunData:
    d = draft(seed)
    d.tokens = d.tokens * np.exp(-0.8 * d.time)
    return finish(d)


# ---- duplicates


def duplicates(seed: int) -> RunData:
    """Seeds that repeat: members 4 to 6 are member 0 again."""
    d = draft(seed)
    for values in (d.text, d.answer, d.success, d.tokens, d.entropy, d.logprob, d.cut, d.unparseable, d.timeout):
        values[:, :, 4:7] = values[:, :, :1]
    return finish(d)


def duplicates_unexpected(seed: int) -> RunData:
    """No log-probabilities: nothing but few distinct texts."""
    d = draft(seed)
    for values in (d.text, d.answer, d.success, d.tokens, d.entropy, d.cut, d.unparseable, d.timeout):
        values[:, :, 2:7] = values[:, :, [0, 0, 0, 0, 1]]
    d.logprob = None
    return finish(d)


# ---- repeated problems


def repeated(seed: int) -> RunData:
    """A step draws with replacement: two of its sixteen groups are of the problem of two others."""
    d = draft(seed)
    d.problem[:, :2] = d.problem[:, 2:4]
    d.answer = np.where(d.success, _PROBLEMS[d.problem], d.answer)
    return finish(d)


# ---- stale sampler


def stale_kl(seed: int) -> RunData:
    d = draft(seed)
    d.metrics["learn/kl_old"] = d.metrics["learn/kl_old"] * np.linspace(1, 40, STEPS)
    return finish(d)


def stale_engine(seed: int) -> RunData:
    d = draft(seed)
    d.metrics["learn/sampler_kl_k3"] = 30 * d.metrics["learn/sampler_kl_k3"]
    d.metrics["learn/weight_ess"] = d.metrics["learn/weight_ess"] - 0.7
    return finish(d)


def stale_versions(seed: int) -> RunData:
    """The sampler stops getting weights after half of the run."""
    d = draft(seed)
    d.version = np.minimum(d.version, STEPS // 2)
    return finish(d)


# ---- reward without success


def hollow_reward(seed: int) -> RunData:
    """Success stays, and failures learn to earn up to nine tenths of what a success earns."""
    d = draft(seed, lambda hard, time: -hard)
    d.reward = np.where(d.success & ~d.cut, 1.0, 0.9 * d.time * d.rng.random(ROWS))
    return finish(d)


def paid_failures(seed: int) -> RunData:
    """From the beginning a failure earns nearly what a success earns."""
    d = draft(seed, easy=-2.4)
    d.reward = np.where(d.success & ~d.cut, 1.0, 0.8)
    return finish(d)


PATHOLOGIES: dict[str, list[Callable[[int], RunData]]] = {
    "entropy collapse": [collapse, collapse_estimated, collapse_at_once],
    "coverage narrowing": [narrowing, narrowing_visits],
    "no rise": [flat, falling],
    "saturation": [saturation],
    "dead prompts": [all_failed, all_solved, hopeless],
    "truncation": [truncation, truncation_inferred],
    "verifier suspicion": [disagreement, timeouts, unparseable, unstable, empty_answers, jump],
    "length drift": [longer, longer_failures, shorter],
    "duplicates": [duplicates, duplicates_unexpected],
    "repeated problems": [repeated],
    "stale sampler": [stale_versions, stale_kl, stale_engine],
    "reward without success": [hollow_reward, paid_failures],
}
