"""How does the time of each part of a step grow with the work, and which part grows faster than the work?

Each part is measured at sizes that double, with all other sizes fixed; its slope is that of log seconds over log size,
between the largest size and the one a fourth of it. A slope of 1 is linear. One above ``NAMED`` is named, with the
reason where it is known.

- *recipes*: planning, observing and credit of every shipped recipe, by problems per step (8 rollouts each) and by
  rollouts per problem (first stage's ``n``; 16 problems), on scripted rollouts. No model.
- *step*: metrics, rollouts on disk, their pickled bytes (what is gathered on every rank), by problems per step.
- *pool*: a step of 64 problems after a pass over pools of up to 65,536 problems, and the bytes of a checkpoint.
- *steps*: seconds to open a run and to resume it, by number of steps on disk.
- *model*: the learner's head by vocabulary, a learner's pass and sampling by tokens of a response, on one thread.

Command: ``python benchmarks/scale.py``; a quarter of an hour on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from _machine import keep
from _scale_model import head, learning, sampling
from _scale_recipes import explored, names, pool, recorded, reopened

NAMED = 1.15
"""Slopes above are named: over a factor of four, 0.1 are 15 % of the time, which is noise here."""
REPEATS = 3
WHY = {
    "vip by problems": "the pseudo-inverse of the kernel matrix of a step's problems is cubic",
    "learning by tokens": "attention of a response over itself",
    "sampling by prompt": "attention of a prompt over itself",
}


def curve(sizes: Sequence[int], measure: Callable[[int], float]) -> dict[str, float]:
    """Seconds by size, and the slope; a steep one is measured again, and the shortest times count."""
    last, first = sizes[-1], max(size for size in sizes if size * 4 <= sizes[-1])
    found, slope = dict.fromkeys(sizes, math.inf), math.inf
    for _ in range(REPEATS):
        found = {size: min(seconds, measure(size)) for size, seconds in found.items()}
        slope = math.log(found[last] / found[first]) / math.log(last / first)
        if slope <= NAMED:
            break
    return {str(size): float(f"{seconds:.3g}") for size, seconds in found.items()} | {"slope": round(slope, 2)}


def curves() -> Iterator[tuple[str, dict[str, float]]]:
    """Every curve by its name."""
    for name in names():
        yield f"{name} by problems", curve((64, 256, 1024), lambda size: explored(name, size, None))  # noqa: B023
        yield f"{name} by rollouts", curve((8, 32, 128), lambda size: explored(name, 16, size))  # noqa: B023
    for part in ("metrics", "disk", "gather"):
        yield f"{part} by problems", curve((128, 512, 2048), lambda size: recorded(part, size))  # noqa: B023
    for name in ("choose-slope3", "invest", "vip", "dapo", "prefix-replay"):
        yield f"{name} by pool", curve((4096, 16_384, 65_536), lambda size: pool(name, size))  # noqa: B023
    for part in ("open", "resume"):
        yield f"{part} by steps", curve((100, 400, 1600), lambda size: reopened(part, size))  # noqa: B023
    yield "head by vocabulary", curve((1024, 4096, 16_384, 65_536, 151_936), head)
    yield "learning by tokens", curve((64, 256, 1024, 4096, 16_384), learning)
    yield "sampling by prompt", curve((64, 256, 1024, 4096), sampling)


def named(found: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """The curves that grow faster than the work, with the reason."""
    return {
        name: f"slope {each['slope']}: {WHY.get(name, 'reason not known')}"
        for name, each in found.items()
        if each["slope"] > NAMED
    }


def main() -> None:
    torch.set_num_threads(1)
    found = {}
    for name, each in curves():
        found[name] = each
        print(f"{name}: {each}", flush=True)
    keep("scale", {"curves": found, "named": named(found)})


if __name__ == "__main__":
    main()
