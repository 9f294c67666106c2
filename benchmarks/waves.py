"""How much longer does a training step take if its rollouts are sampled in three waves instead of one?

XRPO samples in rounds. The rollouts of a round depend on the outcomes of the rounds before it, so the waves are sampled
one after the other, and each takes as long as its longest response. Here GRPO samples 8 responses per problem at once,
or 4, 2 and 2 in three waves. Both sample the same responses with the same policy (the learning rate is nearly 0), so
only the waves differ. They take steps in turn, on one thread, with 32 and with 128 problems per step.

Aim: at most 1.08 times the seconds (the paper: 1.047, arXiv 2510.06672). Command: ``python benchmarks/waves.py``; two
minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
from _machine import keep, ratio, rounded

from outrider.config import load_recipe
from outrider.explore import Uniform
from outrider.explore.stage import Stage
from outrider.explore.view import View
from outrider.model.load import load_policy
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import SampleRequest
from outrider.sample.ready import ready
from outrider.train.build import build
from outrider.train.loop import Trainer

PROBLEMS = (32, 128)
WARM, PAIRS = 2, 15
PHASES = ("sample", "learn")


class TwoMoreWaves(Stage):
    """Two more rollouts for every problem, in each of two rounds."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [SampleRequest(group.problem, n=2) for group in view.groups] if view.round < 2 else []


def trainer(problems: int) -> Trainer:
    recipe = load_recipe("grpo", ["learn.lr=1e-12", f"train.problems={problems}"])
    return build(recipe, ready(load_policy(recipe.model))[0], Ranks(), Clock())


def step(trained: Trainer) -> tuple[dict[str, float], float]:
    """Seconds of a step and of its phases, and the number of generated tokens."""
    trained.clock.take()
    _, metrics = trained.step()
    seconds = trained.clock.take()
    return {"step": sum(seconds.values()), **{phase: seconds[phase] for phase in PHASES}}, metrics["step_tokens"]


def compared(problems: int) -> dict[str, object]:
    """Median seconds of one wave and of three, by phase, and the ratio of the steps, pair by pair."""
    one, three = trainer(problems), trainer(problems)
    three.explorer.stages = [Uniform(n=4), TwoMoreWaves()]
    pairs = []
    for _ in range(WARM + PAIRS):
        (at_once, tokens), (in_waves, same) = step(one), step(three)
        assert tokens == same, "both arms must sample the same responses"
        pairs.append((at_once, in_waves))
    at_once_S, in_waves_S = zip(*pairs[WARM:], strict=True)
    return {
        "one_wave_seconds": medians(at_once_S),
        "three_waves_seconds": medians(in_waves_S),
        "ratio": rounded(ratio([row["step"] for row in in_waves_S], [row["step"] for row in at_once_S])),
    }


def medians(seconds_S: Sequence[dict[str, float]]) -> dict[str, float]:
    return rounded({phase: statistics.median(row[phase] for row in seconds_S) for phase in seconds_S[0]})


def main() -> None:
    torch.set_num_threads(1)
    keep("waves", {"pairs": PAIRS, **{f"problems_{problems}": compared(problems) for problems in PROBLEMS}})


if __name__ == "__main__":
    main()
