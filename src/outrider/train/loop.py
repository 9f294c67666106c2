"""The loop: explore, credit, update, record, evaluate, save. It is the same for every method."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.credit.assign import assign
from outrider.errors import EngineLostError, UserError
from outrider.explore.explorer import Explorer
from outrider.interrupts import SafeStop
from outrider.learn.learner import Learner
from outrider.processes.clock import Clock, training_seconds
from outrider.processes.ranks import Ranks
from outrider.record import Group, Ids, Problem
from outrider.runs.checkpoint import Checkpoint
from outrider.train.collect import Collector
from outrider.train.log_ratios import with_log_ratios
from outrider.train.metrics import step_metrics
from outrider.train.weight_sync import WeightSync

MOST_NONFINITE = 3
MOST_EMPTY = 3  # steps in a row without a rollout: a budget of tokens would never be spent


@dataclass(slots=True)
class Counters:
    """How far a run has come.

    Attributes:
        step: finished steps.
        tokens: generated tokens, of training alone.
        seconds: of training alone, on rank 0; the one number here that two equal runs do not share.
        nonfinite: steps in a row without any update because loss or gradient was not finite.
        owes_evaluation: an evaluation after the last step is due, or running.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    nonfinite: int = 0
    owes_evaluation: bool = False


@dataclass(slots=True)
class Watcher:
    """Hooks of the loop; each is called on every rank.

    Attributes:
        stepped: after each step, with its groups, metrics and seconds by phase.
        evaluate, save: when they are due.
    """

    stepped: Callable[[int, Sequence[Group], Mapping[str, float], Mapping[str, float]], None]
    evaluate: Callable[[int], None]
    save: Callable[[int], None]


class TrainingStep(NamedTuple):
    """A finished step: its number from 1, its groups, and the numbers of its line in ``metrics.jsonl``."""

    number: int
    groups: Sequence[Group]
    metrics: Mapping[str, float]


@dataclass(slots=True)
class Trainer:
    """A run's parts, put together by :mod:`outrider.train.build`, and the loop over them."""

    recipe: Recipe
    ranks: Ranks
    clock: Clock
    explorer: Explorer
    collect: Collector
    learner: Learner
    sync_weights: WeightSync
    encode: Callable[[Problem], Ids]
    token_texts: Callable[[Ids], list[str]]
    all_rows: bool
    """Whether the loss trains on rows without advantage too."""
    counters: Counters = field(default_factory=Counters)
    stop: SafeStop = field(default_factory=SafeStop)
    snapshot: bytes = b""
    notices: Sequence[str] = ()
    _lost: EngineLostError | None = None
    _empty: int = 0

    def steps(self, watch: Watcher) -> Iterator[TrainingStep]:
        """Steps until a limit is reached, each given when it is on record; what is due after it comes before the next.

        Raises:
            EngineLostError: nothing is left that samples or trains; the state is that after the last update.
            UserError: three updates in a row were not finite, or three steps had no rollout; the state is saved.
            Terminated: the run has to stop; :meth:`state` gives the state after its last step.
        """
        every = self.recipe.train
        self._take_snapshot()
        if self.counters.owes_evaluation:
            self._evaluate(watch)
        while (before := self.progress) < 1.0:
            groups, metrics = self.step()
            step = self.counters.step
            seconds = self.clock.take()
            self.counters.seconds += self.ranks.from_main(partial(training_seconds, seconds))  # the same on every rank
            with self.clock.phase("record"):  # counted in the next step, since this step's times are written here
                watch.stepped(step, groups, metrics, seconds)
            done = self.progress >= 1.0
            by_step = every.evaluate_every and step % every.evaluate_every == 0
            by_share = any(before < share <= self.progress for share in every.evaluate_at)
            self.counters.owes_evaluation = not done and bool(by_step or by_share)
            self._take_snapshot()
            yield TrainingStep(step, groups, metrics)
            if self._lost is not None:
                raise self._lost
            if self.counters.owes_evaluation:
                self._evaluate(watch)
            self._empty = 0 if any(group.size for group in groups) else self._empty + 1
            stop, idle = self.counters.nonfinite >= MOST_NONFINITE, self._empty >= MOST_EMPTY
            if step % every.save_every == 0 or done or stop or idle:
                watch.save(step)
            if idle and not done:
                raise UserError(
                    f"step {step}: no stage asked for a rollout in {MOST_EMPTY} steps in a row; the run is stopped and "
                    "saved (explore: the first stage samples, as uniform does)"
                )
            if stop:
                raise UserError(
                    f"step {step}: loss or gradient was not finite in {MOST_NONFINITE} steps in a row; the run is "
                    "stopped and saved (lower learn.lr, or look at the rollouts of these steps)"
                )

    def step(self) -> tuple[list[Group], dict[str, float]]:
        """One step: explore, credit, update, sync weights."""
        step = self.counters.step + 1
        with self.clock.phase("explore"), self.stop.allowed():
            explored, planned = self.explorer.explore(step, self.recipe.train.problems, self.collect, self.progress)
        with self.clock.phase("credit"):
            kept, prefix = self.all_rows, self.recipe.objective.prefix
            rows, groups = assign(explored, self.recipe.credit, step, kept, self.encode, prefix, self.token_texts)
        self.snapshot = b""  # an update under way: until it is done there is no state to save
        with self.clock.phase("learn"):
            # before the counters move: the learning rate is that of the share spent before this step
            learned, lost_groups, self.notices, logprobs = self.learner.update(rows, self.progress)
        self.counters.step = step
        self.counters.tokens += sum(group.generated_tokens for group in groups)
        lost = learned.get("skipped_nonfinite") and not learned.get("updates")
        self.counters.nonfinite = self.counters.nonfinite + 1 if lost else 0
        groups = [g.excluded("non-finite update") if g.id in lost_groups else g for g in groups]
        with self.clock.phase("record"):
            groups = with_log_ratios(groups, rows, logprobs)
            learning = {f"learn/{name}": value for name, value in learned.items()}
            metrics = step_metrics(groups, self.counters.tokens) | learning | planned
        with self.clock.phase("sync"):
            syncing = self._sync_weights(step)
        return groups, metrics | {f"sync/{name}": value for name, value in syncing.items()}

    def _sync_weights(self, step: int) -> dict[str, float]:
        """Gauges of the new weights' way to the sampler. If nothing is left that takes them, the step is done all the
        same: it is put on record, and the error waits for that."""
        try:
            return self.sync_weights(step)
        except EngineLostError as error:
            self._lost = error
            return {}

    @property
    def progress(self) -> float:
        """Share of the budget that is spent: of steps, tokens or seconds, whichever is furthest."""
        train, counters = self.recipe.train, self.counters
        spent = [(counters.step, train.steps), (counters.tokens, train.tokens), (counters.seconds, train.seconds)]
        return max(used / budget if budget else math.inf for used, budget in spent if budget is not None)

    def state(self) -> dict[str, Any]:
        """All but the learner's part of the state after the last finished step, also while the next one explores."""
        state: dict[str, Any] = pickle.loads(self.snapshot) if self.snapshot else self._state()
        return state

    def _evaluate(self, watch: Watcher) -> None:
        """Evaluate now; if this is cut short, a resumed run does it first."""
        self.counters.owes_evaluation = True
        self._take_snapshot()
        with self.stop.allowed():
            watch.evaluate(self.counters.step)
        self.counters.owes_evaluation = False
        self._take_snapshot()

    def _take_snapshot(self) -> None:
        """Keep the state of what exploring changes. With the weights it is a checkpoint, until the next update."""
        # pickled, as a copy: the parts go on changing the objects that their states hold
        self.snapshot = pickle.dumps(self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "counters": asdict(self.counters),
            "explorer": self.explorer.state_dict(),
            "collector": self.collect.state_dict(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on after ``checkpoint``; the sampler is still to be given its weights.

        Raises:
            UserError: the weights do not fit.
        """
        self.counters = Counters(**checkpoint.state["counters"])
        self.snapshot = b""
        self.counters.nonfinite = 0  # or a run that was stopped for them would stop again at once
        self.explorer.load_state_dict(checkpoint.state["explorer"])
        self.collect.load_state_dict(checkpoint.state["collector"])
        self.learner.load(checkpoint.folder)
