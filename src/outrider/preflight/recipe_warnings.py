"""Warns, before a run begins, if the run cannot learn from its rewards or if one part of the run is too expensive."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from outrider.config import Recipe
from outrider.credit import Members, advantages_of, split
from outrider.explore import Refill
from outrider.explore.bounds import Bounds, bounds_after, bounds_of
from outrider.processes.cores import usable_cores
from outrider.verify.verifier import PooledVerifier

MANY = 64  # with more rollouts per problem than this, every credit component has enough rollouts to compare
LATE = 10**9  # number of a step after the end of every schedule, for runs of unknown length
OUT_OF_PROPORTION = 10  # maximum ratio of evaluation tokens to training tokens without a warning


def recipe_warnings(recipe: Recipe, heldout: int | None = None, cores: int | None = None) -> list[str]:
    """Return one sentence per warning. The reasons for a warning are:

    - All advantages are 0 whatever the verifier says, for example because each problem has only one rollout.
    - A wrong answer has a higher reward than a correct answer.
    - Problems have unequal weights in an update, although the recipe's baseline is meant for equal weights. This
      happens if a step has several updates and the number of rollouts varies from problem to problem.
    - The run ends during the learning rate's warm-up, or before the ``first_step`` of a component under ``credit``.
    - There are more ranks than cores. ``cores`` is the number of cores for all ranks together; by default, the number
      that this process may use.
    - The evaluations may generate more than ``OUT_OF_PROPORTION`` times as many tokens as training. ``heldout`` is the
      number of held-out problems, if it is known.
    - A verifier that may hang is called in the run's own process, where Outrider cannot kill it.
    """
    crowded = _crowded(recipe, cores or len(usable_cores()))
    of_learning = [*_no_signal(recipe), *_uneven(recipe), *_too_short(recipe)]
    return [*of_learning, *crowded, *_mostly_evaluation(recipe, heldout), *_without_a_limit(recipe)]


def _without_a_limit(recipe: Recipe) -> Iterator[str]:
    verifier = getattr(recipe.task, "verifier", None)
    if isinstance(verifier, PooledVerifier) and not verifier.pooled:
        yield (
            "the reward function can only be called in this process, without a time limit: if it hangs, the run "
            "hangs; a function of a module is called in processes that can be killed"
        )


def _no_signal(recipe: Recipe) -> Iterator[str]:
    reward = recipe.reward
    if reward.correct < reward.incorrect:
        finding = f"reward.correct is {reward.correct:g}, less than reward.incorrect, {reward.incorrect:g}"
        yield f"{finding}: errors are rewarded"
    n = _rollouts_of_a_problem(recipe)
    if n is None or n > MANY or _gives_signal(recipe, n):
        return
    gives = f"gives a problem {n} rollout{'s' if n > 1 else ''}, which credit.main cannot compare"
    place = next(i for i, stage in enumerate(recipe.explore) if bounds_of(stage, Bounds(), recipe.train.problems).most)
    if _gives_signal(recipe, n, recipe.train.steps or LATE):
        yield f"every advantage will be 0 in the first steps, whatever the verdicts: explore.{place} {gives} then"
        return
    reason = f"explore.{place} {gives}" if _gives_signal(recipe, n + 15) else "all verdicts have the same reward"
    pulled = recipe.objective.kl.coef or recipe.objective.entropy.bonus or recipe.objective.entropy.target
    outcome = "nothing is learned from them" if pulled else "the policy is never updated"
    yield f"every advantage will be 0, whatever the verdicts, so {outcome}: {reason}"


def _rollouts_of_a_problem(recipe: Recipe) -> int | None:
    """Return the number of rollouts per problem and step, if it is the same for all problems; otherwise None."""
    problems = recipe.train.problems
    bounds = bounds_after([stage for stage in recipe.explore if not isinstance(stage, Refill)], problems)
    fewest, most = bounds.first
    return most if fewest == most and bounds.most == most * problems else None


def _gives_signal(recipe: Recipe, n: int, step: int = 1) -> bool:
    """Return whether ``recipe.credit`` gives nonzero advantages for at least some rewards of ``n`` rollouts.

    Advantages are computed as in training step ``step``, or, if a component of ``recipe.credit`` starts later, as in
    the first step in which all components are active.
    """
    values = sorted({r for r in recipe.reward.model_dump().values() if r is not None})
    groups = [
        _members([a] * k + [b] * (n - k), recipe.reward.correct)
        for a, b in itertools.product(values, repeat=2)
        for k in {0, 1, n // 2, n - 1, n}
    ]
    chain = recipe.credit["main"]
    step = max(step, *(getattr(link, "first_step", 1) for link in chain))
    return any(a_T.any() for a_GT in advantages_of(chain, groups, step) for a_T in a_GT)


def _members(rewards: list[float], correct: float) -> Members:
    """Return invented rollouts with the given rewards. Their lengths and likelihoods differ, since some advantages
    depend on them."""
    tokens = [2 + k for k in range(len(rewards))]
    return Members(
        rewards_G=np.array(rewards, np.float64),
        success_G=np.array([reward == correct for reward in rewards]),
        tokens_G=np.array(tokens),
        logprobs_GT=[np.linspace(-0.1, -1.0 - k, t) for k, t in enumerate(tokens)],
        entropies_GT=[np.linspace(0.1, 1.0 + k, t) for k, t in enumerate(tokens)],
        token_texts_GT=[np.full(t, "x") for t in tokens],
    )


def _uneven(recipe: Recipe) -> Iterator[str]:
    fewest, most = bounds_after(recipe.explore, recipe.train.problems).first
    if recipe.learn.minibatches == 1 or fewest == most:
        return
    for stream, chain in recipe.credit.items():
        if split(chain).baseline.goal is not None:
            yield (
                f"credit.{stream} assumes that all problems have equal weight, but learn.minibatches is "
                f"{recipe.learn.minibatches}: a problem has less weight in an update in which others have many "
                "rollouts"
            )


def _too_short(recipe: Recipe) -> Iterator[str]:
    steps, learn = recipe.train.steps, recipe.learn
    if not steps:
        return
    if learn.warm(steps - 1, steps * learn.minibatches * learn.epochs - 1) < 1:
        yield f"learn.warmup is {learn.warmup}, but the run ends during warm-up, after {steps} steps (train.steps)"
    for stream, chain in recipe.credit.items():
        for i, link in enumerate(chain):
            first = getattr(link, "first_step", 1)
            if first > steps:
                yield (
                    f"credit.{stream}.{i} is active from step {first} on, but the run ends after {steps} (train.steps)"
                )


def _crowded(recipe: Recipe, cores: int) -> Iterator[str]:
    ranks, apart = recipe.train.ranks, recipe.samples_apart
    if ranks * (2 if apart else 1) > cores:
        are = f"are {cores} cores" if cores > 1 else "is 1 core"
        them = "them and their sampling processes" if apart else "them"
        yield f"train.ranks is {ranks}, but there {are} for {them}; the ranks share cores and wait for each other"


def _mostly_evaluation(recipe: Recipe, heldout: int | None) -> Iterator[str]:
    train, evaluate, limit = recipe.train, recipe.evaluate, recipe.sample.max_tokens
    most = bounds_after(recipe.explore, train.problems).most
    by_steps = None if train.steps is None or most is None else train.steps * most * limit
    budget = min((b for b in (by_steps, train.tokens) if b is not None), default=None)
    if not budget:
        return  # the number of training tokens is unknown: train.tokens is not set, and rollouts per step are unbounded
    within = 0
    if train.evaluate_every:
        steps = train.steps if train.steps is not None else budget // max(1, (most or 1) * limit)
        within = steps // train.evaluate_every
    times = evaluate.before + evaluate.after + len(train.evaluate_at) + within
    problems = evaluate.problems if heldout is None else min(evaluate.problems, heldout)
    tokens = times * problems * (evaluate.n + evaluate.greedy) * limit
    if tokens > OUT_OF_PROPORTION * budget:
        are = f"{times} evaluations" if times > 1 else "evaluation"
        yield (
            f"the {are} may generate {tokens:,} tokens, {tokens / budget:,.0f} times the training budget of "
            f"{budget:,} (evaluate.problems={evaluate.problems}, evaluate.n={evaluate.n}); reduce them, or set "
            "evaluate.before=false"
        )
