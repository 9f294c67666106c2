"""XRPO's planner: who gets the rollouts, and what planning costs.

Claims (arXiv 2510.06672): 91.6 % of the rounds do not give all problems the same, 0 to 7 extra rollouts each, up to 7
times the uniform baseline where it is uncertain (appendix J, Figure 6); a step takes 4.7 % longer than GRPO's (4.2).

- ``allocation``: the stage in an explorer, 16 problems with 4 rollouts each and 128 in all, outcomes Bernoulli with
  pass rates u even in [0, 1], or u^3; by reading of the paper: level of the interval and lambda (here 0.95 and 0.1).
- ``steps``: CPU time of one thread per generated token, by phase of a step on the embedded task: GRPO, GRPO whose 256
  rollouts are drawn in the planner's waves of 128, 64 and 64, ``xrpo-plan-only``, ``xrpo``. In turn, with a learning
  rate of nearly 0, so that all have one policy.
- ``overhead``: the stage per step (8 rollouts per problem) against such a step of GRPO, taken to grow with the
  problems. Medians.
- ``waves``: CPU time of one wave of rollouts, by their number.

Shows (2026-11-21): with lambda 0.1 the planner moves little; planning is 0.2 % of a step. The step costs 26 % more CPU
time per token than GRPO's, of which 20 come of drawing in three waves and the rest of more mixed groups to learn from.
Command: ``python benchmarks/studies/planner.py`` (2 minutes of one core). Seed 0; see ``README.md``.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from _study import BLUE, GREEN, GREY, ORANGE, RED, arguments, keep, panels
from matplotlib.axes import Axes

from outrider.config import load_recipe
from outrider.explore import Uniform
from outrider.explore.explorer import Explorer
from outrider.explore.prioritise import Prioritise
from outrider.explore.stage import Stage
from outrider.explore.stream import ProblemStream
from outrider.explore.view import View
from outrider.model.load import load_policy
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Group, Ids, Problem, Rollout, SampleRequest, correct, incorrect, uniforms
from outrider.sample.ready import ready
from outrider.train.build import build
from outrider.train.loop import Trainer

ONE = np.ones(1, np.int32)
READINGS = ((0.95, 0.1, BLUE), (0.95, 0.03, ORANGE), (0.95, 0.01, RED), (0.05, 0.1, GREY))  # level, lambda; ours first
SECONDS: Counter[int] = Counter()  # of the planner, by step
ROUNDS: list[list[int]] = []  # extra rollouts of each problem that got some


class Timed(Prioritise):
    """Records what it plans and how long that takes."""

    def plan(self, view: View) -> list[SampleRequest]:
        begin = time.thread_time()
        planned = super().plan(view)
        SECONDS[view.step] += time.thread_time() - begin
        ROUNDS.append([r.n for r in planned])
        return planned

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        begin = time.thread_time()
        numbers = super().observe(groups)
        SECONDS[max(SECONDS)] += time.thread_time() - begin
        return numbers


class Engine:
    """Prompts of one token; the stages used here ask for nothing else."""

    def encode(self, problem: Problem) -> Ids:
        return ONE


def rate(problem: Problem, power: float = 1) -> float:
    """Multiples of the golden ratio, modulo 1: evenly spread, in any number of problems; a power makes them low."""
    return (int(problem.id) * 0.6180339887498949 % 1) ** power


def draw(requests: Sequence[SampleRequest], power: float) -> list[Rollout]:
    """Rollouts of one token that succeed with their problem's pass rate."""
    made = []
    for request in requests:
        seeds = np.array([request.rollout_seed(i) for i in range(request.n)])
        success = uniforms(seeds, np.zeros(1, int))[:, 0] < rate(request.problem, power)
        for i, good in enumerate(success.tolist(), request.first_member):
            rollout = Rollout(request.problem.id, request.group_id, i, ONE, ONE, np.zeros(1, np.float32), ONE[:0])
            made.append(rollout.verified(correct() if good else incorrect(), float(good)))
    return made


def simulate(stage: Timed, problems: int, steps: int, power: float = 1) -> list[Group]:
    """Groups of all steps; what the planner did is in ``SECONDS`` and ``ROUNDS``."""
    SECONDS.clear(), ROUNDS.clear()
    explorer = Explorer([Uniform(n=4), stage], ProblemStream(lambda i: Problem(str(i), "")), Engine(), seed=0)
    verified = partial(draw, power=power)
    return [group for step in range(steps) for group in explorer.explore(step + 1, problems, verified).groups]


class Waves(Stage):
    """Two rounds of two more for every problem: what the planner draws, without planning."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [SampleRequest(group.problem, n=2) for group in view.groups] if view.round < 2 else []


class CpuClock(Clock):
    """Phases in CPU time of this process."""

    def _switch(self) -> None:
        now = time.process_time()
        if self._stack:
            self.seconds[self._stack[-1]] = self.seconds.get(self._stack[-1], 0.0) + now - self._since
        self._since = now


def trainer(name: str) -> Trainer:
    recipe = load_recipe(name, ["learn.lr=1e-12"])
    return build(recipe, ready(load_policy(recipe.model))[0], Ranks(), CpuClock())


def steps(axes: Axes) -> dict[str, Any]:
    """Seconds of a step, and microseconds per token by phase; two steps to warm up, then five."""
    arms = {"grpo": trainer("grpo"), "grpo, in waves": trainer("grpo")}
    arms["grpo, in waves"].explorer.stages = [Uniform(n=4), Waves()]
    arms |= {name: trainer(name) for name in ("xrpo-plan-only", "xrpo")}
    rows: dict[str, list[Counter[str]]] = {name: [] for name in arms}
    for _ in range(7):
        for name, arm in arms.items():
            arm.clock.take()
            groups, metrics = arm.step()
            trained = sum(len(r.token_ids) for g in groups for r in g.rollouts if not r.unused)
            rows[name].append(Counter(arm.clock.take()) + Counter(tokens=metrics["step_tokens"], trained=trained))
    told = {}
    for x, (name, found) in enumerate(rows.items()):
        sums, below = sum(found[2:], Counter()), 0.0
        tokens, trained = sums.pop("tokens"), sums.pop("trained")
        phases = {phase: 1e6 * sums.pop(phase) / tokens for phase in ("sample", "learn", "explore")}
        phases["rest"] = 1e6 * sums.total() / tokens
        told[name] = {"step": sum(phases.values()) * tokens / 5e6, "per_token": sum(phases.values()), **phases}
        told[name] |= {"tokens": tokens / 5, "share_trained": trained / tokens}
        for (phase, height), colour in zip(phases.items(), (BLUE, ORANGE, RED, GREY), strict=True):
            axes.bar(x, height, bottom=below, color=colour, width=0.7, label="" if x else phase)
            below += height
    axes.set(ylabel="CPU µs per token", xlim=(-0.6, 3.6))
    axes.set_xticks(range(4), ["grpo", "in waves", "plan only", "xrpo"])
    return told


def waves() -> dict[int, dict[str, float]]:
    """One wave of 32 or more problems, 2 to 32 rollouts each."""
    arm, told = trainer("grpo"), {}
    problems = [arm.recipe.task.train(i) for i in range(32)]
    for n in (2, 4, 8, 16, 32):
        seconds, longest = [], []
        for repeat in range(5):
            requests = [SampleRequest(p, n, prompt_ids=arm.encode(p), group_id=f"{repeat}:{p.id}") for p in problems]
            begin = time.process_time()
            drawn = arm.collect.sampler.sample(requests)
            seconds.append(time.process_time() - begin)
            longest.append(max(len(r.token_ids) for r in drawn))
        told[32 * n] = {"ms": 1e3 * np.median(seconds[1:]), "ms_per_decoding_step": 1e3 * sum(seconds) / sum(longest)}
    return told


def allocation(axes: Axes, shares: Axes) -> dict[str, Any]:
    """Rounds of 32 rollouts for 16 problems, by level and lambda; pass rates even, drawn too, or low.

    ``shares`` draws the paper's Figure 6: how often a problem gets so many rollouts in a round.
    """
    told = {}
    for i, ((level, weight, colour), power) in enumerate(itertools.product(READINGS, (1, 3))):
        groups = simulate(Timed(total=128, confidence=level, bonus=weight), 16, 200, power)
        extra = np.array([plan + [0] * (16 - len(plan)) for plan in ROUNDS if plan])
        sizes, cell = np.array([g.size for g in groups]), np.array([int(20 * rate(g.problem, power)) for g in groups])
        mean, label = [sizes[cell == c].mean() for c in range(20)], f"level {level:g}, lambda {weight:g}"
        row = {"not_uniform": (extra != 2).any(axis=1).mean(), "least": extra.min(), "most": extra.max()}
        row["share_by_extra_rollouts"] = np.bincount(extra.ravel(), minlength=11) / extra.size
        told[f"{label}, pass rates {'even' if power == 1 else 'low'}"] = row | {"rollouts_by_pass_rate": mean}
        if power == 1:
            axes.plot((np.arange(20) + 0.5) / 20, mean, color=colour, linewidth=1.8, label=label)
            shares.bar(np.arange(11) + 0.1 * i - 0.3, row["share_by_extra_rollouts"], 0.2, color=colour)
    axes.set(xlabel="pass rate", ylabel="mean rollouts of a problem", ylim=(0, None), xlim=(0, 1))
    shares.set(xlabel="extra rollouts of a problem in a round", ylabel="share of problems", xticks=range(11))
    return told


def overhead(axes: Axes, step: float) -> dict[str, Any]:
    counts, milliseconds = np.array([16, 32, 64, 128, 256, 1024]), []
    for problems in map(int, counts):
        simulate(Timed(total=8 * problems), problems, 5)
        milliseconds.append(1000 * np.median(list(SECONDS.values())[1:]))
    grpo = 1000 * step * counts / 32
    axes.plot(counts, milliseconds, "o-", color=BLUE, label="planner")
    for percent, colour in ((100, GREY), (4.7, ORANGE), (2, GREEN)):
        axes.plot(counts, percent / 100 * grpo, "--", color=colour, label=f"{percent:g} % of a step of GRPO")
    axes.set(xscale="log", yscale="log", xlabel="problems of a step", ylabel="ms per step", ylim=(1, 3e5))
    axes.set_xticks(counts, map(str, counts))
    axes.minorticks_off()
    table = {p: {"ms": ms, "share_of_grpo_step": ms / of} for p, ms, of in zip(counts, milliseconds, grpo, strict=True)}
    return table


def main() -> None:
    out = arguments(__doc__).parse_args().out
    torch.set_num_threads(1)
    titles = ["rollouts by true pass rate", "a round's rollouts, two each if uniform", "a step by phase", "planning"]
    figure, (left, shares, middle, right) = panels(titles, (11, 8), rows=2)
    numbers: dict[str, Any] = {"allocation": allocation(left, shares), "steps": steps(middle), "waves": waves()}
    numbers["planner"] = overhead(right, numbers["steps"]["grpo"]["step"])
    left.legend(frameon=False), middle.legend(frameon=False), right.legend(frameon=False, fontsize=8)
    keep("planner", numbers, figure, out, seeds=[0])


if __name__ == "__main__":
    main()
