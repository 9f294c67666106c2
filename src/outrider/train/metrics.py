"""Computes the metrics of a step that depend only on its rollouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from outrider.record import Group, Outcome, Rollout


def step_metrics(groups: Sequence[Group], tokens: int) -> dict[str, float]:
    """Return the deterministic metrics of one step. Replayed rollouts do not count. A mean over no values is NaN.

    ``tokens`` is the number of tokens generated so far in the run. ``solved``, ``mixed`` and ``unsolved`` are the
    shares of groups in which all, some or no rollouts succeed. Groups without rollouts do not count. ``reward`` is the
    mean of the finite rewards. ``entropy`` is the mean entropy per sampled token in nats. ``length`` is the mean number
    of generated tokens per rollout. ``verdict/…`` and ``unused/…`` count rollouts. ``spent/…`` comes from
    :func:`spent`. Tasks with environments also have ``observed_tokens``, ``turns`` (mean per rollout), ``turn_errors``
    (turns with invalid requests) and ``observations_cut`` (truncated observations). Without recorded entropies,
    ``surprisal`` is an unbiased estimate of the mean entropy: the mean of ``-log p`` over sampled tokens.
    """
    groups = [group.drawn for group in groups]
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    sampled = [group for group in groups if group.size]
    solved = sum(group.successes == group.size for group in sampled)
    unsolved = sum(group.successes == 0 for group in sampled)
    entropies = [
        r.entropies_T if r.trainable_T is None else r.entropies_T[r.trainable_T]
        for r in rollouts
        if r.entropies_T is not None
    ]
    surprisals = [-r.logprobs_T if r.trainable_T is None else -r.logprobs_T[r.trainable_T] for r in rollouts]
    outcomes = Counter(r.verdict.outcome for r in rollouts if r.verdict is not None)
    unused = Counter(r.unused for r in rollouts if r.unused)
    return {
        "tokens": tokens,
        "step_tokens": sum(r.trainable_tokens for r in rollouts),
        "groups": len(sampled),
        "rollouts": len(rollouts),
        "reward": _mean([r.reward for r in rollouts if r.reward is not None and np.isfinite(r.reward)]),
        "success": _mean([float(r.success) for r in rollouts]),
        "entropy": float(np.concatenate(entropies).mean(dtype=np.float64)) if entropies else np.nan,
        **(
            {} if entropies or not rollouts else {"surprisal": float(np.concatenate(surprisals).mean(dtype=np.float64))}
        ),
        "solved": solved / len(sampled) if sampled else np.nan,
        "mixed": (len(sampled) - solved - unsolved) / len(sampled) if sampled else np.nan,
        "unsolved": unsolved / len(sampled) if sampled else np.nan,
        "length": _mean([float(r.trainable_tokens) for r in rollouts]),
        "truncated": _mean([float(r.truncated) for r in rollouts]),
        **_turns(rollouts),
        **{f"verdict/{outcome.value}": float(outcomes[outcome]) for outcome in Outcome},
        **{f"unused/{reason.replace(' ', '_')}": float(count) for reason, count in sorted(unused.items())},
        **spent(groups),
    }


def _turns(rollouts: Sequence[Rollout]) -> dict[str, float]:
    heard = [one for r in rollouts for one in r.observations]
    if not heard:
        return {}
    return {
        "observed_tokens": float(sum(one.tokens for one in heard)),
        "turns": _mean([float(r.turns) for r in rollouts]),
        "turn_errors": float(sum(one.error for one in heard)),
        "observations_cut": float(sum(one.cut for one in heard)),
    }


def spent(groups: Sequence[Group]) -> dict[str, float]:
    """Return the tokens that each exploration stage generated in a step, and the stage's successes per token.

    The metrics of a stage are ``spent/<stage>/tokens``, ``…/rollouts`` and ``…/success_per_1000`` (successes per 1,000
    tokens). ``…/solved_per_1000`` is the number of problems solved per 1,000 tokens. A problem that several stages
    solve counts only for the first of these stages. ``spent/branched`` counts the tokens of rollouts that continue the
    beginning of another response. ``spent/seeded`` counts the tokens of rollouts with examples or a hint in the prompt,
    and ``spent/unused`` those of rollouts that were not trained on. ``spent/unused/<reason>`` splits ``spent/unused``
    by reason, such as ``no_advantage``. Tokens from environments do not count.
    """
    tokens, rollouts, successes, solved = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    kinds, reasons = Counter({"branched": 0, "seeded": 0, "unused": 0}), Counter[str]()
    for group in groups:
        solved_before = False
        for rollout in group.rollouts:  # in the order in which the stages requested the rollouts
            cost = rollout.trainable_tokens
            tokens[rollout.stage] += cost
            rollouts[rollout.stage] += 1
            successes[rollout.stage] += rollout.success
            solved[rollout.stage] += rollout.success and not solved_before
            solved_before |= rollout.success
            kinds["branched"] += cost * (rollout.parent is not None)
            kinds["seeded"] += cost * (rollout.context.kind == "seeded")
            kinds["unused"] += cost * bool(rollout.unused)
            reasons[rollout.unused] += cost * bool(rollout.unused)
    numbers: dict[str, float] = {}
    for stage, cost in sorted(tokens.items()):
        numbers[f"spent/{stage}/tokens"] = cost
        numbers[f"spent/{stage}/rollouts"] = rollouts[stage]
        numbers[f"spent/{stage}/success_per_1000"] = 1000 * successes[stage] / cost if cost else np.nan
        numbers[f"spent/{stage}/solved_per_1000"] = 1000 * solved[stage] / cost if cost else np.nan
    kinds.update({f"unused/{reason.replace(' ', '_')}": cost for reason, cost in sorted(reasons.items()) if reason})
    return numbers | {f"spent/{kind}": float(cost) for kind, cost in kinds.items()}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
