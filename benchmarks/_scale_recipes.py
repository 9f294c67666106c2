"""The parts of a step without a model, at sizes that grow, for ``scale.py``."""

from __future__ import annotations

import gc
import json
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from outrider.config import Recipe, load_recipe
from outrider.config.shipped import shipped
from outrider.credit.assign import assign
from outrider.explore import Stage, Uniform
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.record import Group, Problem, Rollout, SampleRequest
from outrider.record.store import RolloutStore
from outrider.report.run import open_run
from outrider.runs.folder import RunFolder
from outrider.runs.whole import first_gap
from outrider.testing.scripted import SteppedEngine, scripted_rollout
from outrider.testing.situations import Situation, by_rate
from outrider.train.metrics import step_metrics

ENGINE = SteppedEngine()
STEPS, N = 2, 8


class Drawn:
    """Scripted rollouts, and the seconds that were spent on them, which are not the part's."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._situation = Situation(0, Uniform, by_rate)

    def __call__(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        start = time.perf_counter()
        rollouts = [self._rollout(request, k) for request in requests for k in range(request.n)]
        self.seconds += time.perf_counter() - start
        return rollouts

    def _rollout(self, request: SampleRequest, k: int) -> Rollout:
        made = request.replayed() if request.replay else scripted_rollout(request, k, self._situation)
        assert made.verdict is not None
        return made.verified(made.verdict, float(made.verdict.success))


def explorer_of(recipe: Recipe, problems: int, n: int | None = None) -> Explorer:
    """The recipe's stages over a pool of ``problems``, the first with ``n`` rollouts per problem."""
    first, *rest = recipe.explore
    if n is not None:
        first = with_options(first, n=n)
        rest = [with_options(stage, n_max=4 * n) for stage in rest]  # else DARS would refuse so many at first

    def train(index: int) -> Problem:
        return Problem(f"p{index % problems}", f"the question {index % problems}", level=str(index % 3))

    return Explorer([first, *rest], ProblemStream(train), ENGINE, seed=3)


def with_options(stage: Stage, **values: int) -> Stage:
    """The stage with those of the options that it has."""
    return stage.model_copy(update={name: value for name, value in values.items() if name in type(stage).model_fields})


@contextmanager
def without_collections() -> Iterator[None]:
    """A block without Python's garbage collection, whose pauses fall on any of the parts."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def explored(name: str, problems: int, n: int | None) -> float:
    """Seconds of planning, observing and credit of a step; the second of two, which has what the first left."""
    recipe = load_recipe(name)
    explorer, draw = explorer_of(recipe, 2 * problems, n), Drawn()
    explorer.prepare()
    always, prefix = recipe.objective.kl.coef > 0, recipe.objective.prefix
    seconds = 0.0
    for step in range(1, STEPS + 1):
        draw.seconds = 0.0
        with without_collections():
            start = time.perf_counter()
            groups, _ = explorer.explore(step, problems, draw, (step - 1) / STEPS)
            assign(groups, recipe.credit, step, always, ENGINE.encode, prefix, ENGINE.token_texts)
            seconds = time.perf_counter() - start - draw.seconds
    return seconds


def names() -> list[str]:
    """All shipped recipes."""
    return shipped("recipe")


def groups_of(problems: int) -> list[Group]:
    explorer = explorer_of(load_recipe("grpo"), problems, N)
    return explorer.explore(1, problems, Drawn(), 0.0).groups


def recorded(part: str, problems: int) -> float:
    """Seconds of what is done with a step's rollouts, the best of three."""
    groups = groups_of(problems)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    with tempfile.TemporaryDirectory() as folder:
        store = RolloutStore(folder)
        parts: dict[str, Callable[[int], object]] = {
            "metrics": lambda i: step_metrics(groups, 0),
            "disk": lambda i: store.write(i, rollouts),
            "gather": lambda i: pickle.loads(pickle.dumps(rollouts)),
        }
        return best(partial(parts[part]))


def best(measured: Callable[[int], object], repeats: int = 3) -> float:
    """The shortest of some runs, in seconds."""
    found = []
    for i in range(repeats):
        with without_collections():
            start = time.perf_counter()
            measured(i)
            found.append(time.perf_counter() - start)
    return min(found)


def pool(name: str, size: int) -> float:
    """Seconds of a step of 64 problems and of its checkpoint's JSON, after a pass over the pool."""
    explorer, draw = explorer_of(load_recipe(name), size, 2), Drawn()
    explorer.prepare()
    large = 512  # vip inverts a matrix of a step's problems: with 2,048 a step, a pass would take minutes
    steps = size // large
    for step in range(1, steps + 1):
        explorer.explore(step, large, draw, 0.0)
    draw.seconds = 0.0
    with without_collections():
        start = time.perf_counter()
        explorer.explore(steps + 1, 64, draw, 0.5)
        json.dumps(explorer.state_dict())
        return time.perf_counter() - start - draw.seconds


def reopened(part: str, steps: int) -> float:
    """Seconds to open a run of so many steps for a report, or to find where it resumes."""
    rollouts = [rollout for group in groups_of(4) for rollout in group.rollouts]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "run"
        folder = RunFolder.create(path, load_recipe("grpo").resolved(), "cpu")
        metrics = step_metrics(groups_of(4), 0)
        for step in range(1, steps + 1):
            folder.rollouts.write(step, rollouts)
            folder.append_metrics(step, metrics)
            folder.append_timing(step, {"sample": 1.0})
        folder.close()
        if part == "open":
            return best(lambda i: open_run(path))
        return best(lambda i: first_gap(RunFolder(path), steps))
