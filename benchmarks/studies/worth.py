r"""The value of a rollout: how far does it move the policy towards the goal, and how far at random?

A step with estimates :math:`g_i` of the gradients of problems that had :math:`n_i` rollouts of :math:`c_i` tokens each,
weighed by :math:`w_i`, adds :math:`\sum_i w_i C_i` to the goal :math:`J`, the mean pass rate, to first order. With

.. math:: C_i = \langle \nabla J, \nabla p_i \rangle, \qquad
    N_i = n_i \, \mathrm{E} \lVert g_i - \nabla p_i \rVert^2

a step of given length gains :math:`\sum_i w_i C_i / (\sum_i w_i^2 N_i / n_i)^{1/2}` where noise is most of it. Under
the best weights, :math:`w_i \propto n_i C_i / N_i`, the square of that is :math:`\sum_i n_i C_i^2 / N_i`. So a token of
the value of a token on problem i is :math:`C_i^2 / (N_i c_i)`.

Measured on 240 training problems of the frontier, by the policy that is given: 64 responses say in which class a
problem is, two times 64 its gradient (``_worth.py``), by leave-one-out, in the plain metric and in that of Adam. How C
and N go with pass rate and length is fitted, :math:`k p^a (1 - p)^b (c / 40)^g`, with the bootstrap's 95 % interval
over problems.

Command: ``python benchmarks/studies/worth.py [--trained FOLDER]`` (5 minutes of a core for a policy). Seed 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from _study import BLUE, GREY, arguments, keep, panels
from _worth import HALF, Products, products, scaled_as_adam
from numpy.typing import NDArray
from scipy.optimize import curve_fit

from outrider.arrays import Floats, Ints
from outrider.config import load_recipe
from outrider.credit.reward import RewardOptions
from outrider.model.forward import Continuation, own_statistics
from outrider.model.load import Policy, load_policy
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Rollout, SampleRequest
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.train.collect import Collector

PROBLEMS, AT_ONCE, RESAMPLES = 240, 5, 200
CLASSES = {"none of 64": 0.0, "to 1/32": 1 / 32, "to 1/8": 1 / 8, "to 1/4": 1 / 4, "to 1/2": 1 / 2, "above": 1.0}


class Measured(NamedTuple):
    """Columns over problems; ``first_P`` is the pass rate in the samples that only say the class."""

    level_P: Ints
    tokens_P: Floats
    first_P: Floats
    rate_P: Floats
    plain: Products
    adam: Products


def measured(model: str) -> Measured:
    recipe = load_recipe("grpo", setting="frontier")
    policy, _ = ready(load_policy(model))
    sampler = LocalSampler(policy, SampleOptions(max_tokens=recipe.sample.max_tokens, rows=1024))
    collect = Collector(sampler, recipe.task, RewardOptions(), Ranks(), Clock())
    problems = [recipe.task.train(i) for i in range(PROBLEMS)]
    asked = [SampleRequest(p, n=3 * HALF, prompt_ids=policy.encode(p), group_id=f"study:{p.id}") for p in problems]
    drawn: list[list[Rollout]] = []
    for first in range(0, PROBLEMS, AT_ONCE):
        got = collect(asked[first : first + AT_ONCE])
        drawn += [got[i : i + 3 * HALF] for i in range(0, len(got), 3 * HALF)]
    parts = [[rollouts[i * HALF : (i + 1) * HALF] for rollouts in drawn] for i in range(3)]
    one_PD, two_PD = (np.stack([gradient(policy, rollouts) for rollouts in part]) for part in parts[1:])
    plain = products(one_PD, two_PD)
    scaled_as_adam(one_PD, two_PD)
    tokens_P = np.array([np.mean([len(r.token_ids) for r in rollouts]) for rollouts in drawn])
    first_P, rate_P = (np.array([np.mean([r.success for r in each]) for each in part]) for part in (parts[0], drawn))
    level_P = np.array([int(p.level) for p in problems])
    return Measured(level_P, tokens_P, first_P, rate_P, plain, products(one_PD, two_PD))


def gradient(policy: Policy, rollouts: Sequence[Rollout]) -> NDArray[np.float32]:
    """Of a problem's pass rate, by leave-one-out over its rollouts; zeros where all fare alike."""
    weights = [p for p in policy.model.parameters() if p.requires_grad]
    rewards_G = np.array([float(rollout.success) for rollout in rollouts])
    advantages_G = (rewards_G - rewards_G.mean()) / (len(rollouts) - 1)
    if not advantages_G.any():
        return np.zeros(sum(each.numel() for each in weights), np.float32)
    rows = [Continuation(rollout.prompt_ids, rollout.token_ids) for rollout in rollouts]
    logprobs_T = own_statistics(policy.model, policy.path, rows, torch.float32).logprobs_T
    advantages_T = np.repeat(advantages_G, [len(row.token_ids) for row in rows]).astype(np.float32)
    parts = torch.autograd.grad((logprobs_T * torch.from_numpy(advantages_T)).sum(), weights)
    found: NDArray[np.float32] = torch.cat([part.flatten() for part in parts]).numpy()
    return found


def said(found: Measured, metric: Products) -> dict[str, Any]:
    """Everything in units of the goal's squared gradient."""
    own_P, towards_P, noise_P = (part / metric.goal for part in metric[:3])
    place_P = np.searchsorted([*CLASSES.values()], found.first_P)
    groups = {name: place_P == i for i, name in enumerate(CLASSES)}
    groups |= {f"{level} numbers": found.level_P == level for level in sorted({*found.level_P.tolist()})}
    groups["all"] = np.ones(len(own_P), bool)
    about = {}
    for name, chosen_P in groups.items():
        if not (many := int(chosen_P.sum())):
            continue
        tokens, towards, noise = (part[chosen_P].mean() for part in (found.tokens_P, towards_P, noise_P))
        about[name] = {
            "problems": many,
            "rate": found.rate_P[chosen_P].mean(),
            "tokens": tokens,
            "own": own_P[chosen_P].mean(),
            "towards": towards,
            "error": towards_P[chosen_P].std(ddof=1) / many**0.5,
            "noise": noise,
            "worth": towards**2 / (noise * tokens) if noise > 0 else 0.0,
        }
    return {"groups": about, "fits": {"towards": fitted(found, towards_P), "noise": fitted(found, noise_P)}}


def fitted(found: Measured, value_P: Floats) -> dict[str, list[float]]:
    """``k p^a (1 - p)^b c^g``, each with its interval; problems of 0 or 1 tell nothing of a power."""
    some = np.flatnonzero((found.rate_P > 0) & (found.rate_P < 1))
    rng = np.random.default_rng(0)

    def shape(about: Floats, k: float, a: float, b: float, g: float) -> Floats:
        rate_N, tokens_N = about
        result: Floats = k * rate_N**a * (1 - rate_N) ** b * (tokens_N / 40) ** g
        return result

    def fit(chosen: Ints) -> Floats:
        rate_N, tokens_N, value_N = (part[chosen] for part in (found.rate_P, found.tokens_P, value_P))
        # a problem's estimate is about as uncertain as a verdict is
        spread_N = np.sqrt(rate_N * (1 - rate_N)) + 0.02
        begin = (value_N.mean() / (rate_N * (1 - rate_N)).mean(), 1.0, 1.0, 0.0)
        result: Floats = curve_fit(shape, (rate_N, tokens_N), value_N, begin, spread_N, maxfev=20_000)[0]
        return result

    draws = np.array([fit(rng.choice(some, len(some))) for _ in range(RESAMPLES)])
    ends = np.quantile(draws, [0.025, 0.975], axis=0).T
    return {name: [value, *end] for name, value, end in zip("kabg", fit(some), ends, strict=True)}


def draw(numbers: Mapping[str, Any]) -> Any:
    titles = ["towards the goal, by pass rate", "noise of a rollout, by pass rate", "value of a token"]
    figure, (towards, noise, worth) = panels(titles, (14, 4.2))
    for shift, (policy, colour) in zip((-0.1, 0.1), zip(numbers, (GREY, BLUE), strict=False), strict=False):
        groups = numbers[policy]["plain"]["groups"]
        classes = [name for name in CLASSES if name in groups]
        levels = [name for name in groups if name.endswith("numbers")]
        places = np.arange(len(classes)) + shift
        heights, errors = ([groups[name][key] for name in classes] for key in ("towards", "error"))
        towards.errorbar(places, heights, yerr=[1.96 * e for e in errors], fmt="o", color=colour, label=policy)
        noise.plot(places, [groups[name]["noise"] for name in classes], "o", color=colour)
        for axes in (towards, noise):
            axes.set_xticks(range(len(classes)), classes, fontsize=8)
        named = [*classes, *levels]
        worth.plot(np.arange(len(named)) + shift, [groups[n]["worth"] for n in named], "o", color=colour)
        worth.set_xticks(range(len(named)), named, rotation=45, ha="right", fontsize=8)
    towards.axhline(0, color="#cccccc", lw=1, zorder=0)
    towards.legend(frameon=False, fontsize=8)
    worth.set_yscale("log")
    return figure


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trained", metavar="FOLDER", help="a policy beside the base")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    models = {"base": "base:countdown"} | ({"trained": asked.trained} if asked.trained else {})
    numbers: dict[str, Any] = {}
    for name, model in models.items():
        found = measured(model)
        numbers[name] = {"plain": said(found, found.plain), "adam": said(found, found.adam)}
    keep("worth", numbers, draw(numbers), asked.out, seeds=[0])


if __name__ == "__main__":
    main()
