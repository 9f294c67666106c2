"""The training loop for all methods: explore, assign credit, update, record, evaluate, save."""

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
from outrider.explore.explorer import Explored, Explorer
from outrider.interrupts import SafeStop
from outrider.learn.learner import Learner
from outrider.processes.clock import Clock, training_seconds
from outrider.processes.ranks import Ranks
from outrider.record import Group, Ids, Problem
from outrider.runs.checkpoint import Checkpoint
from outrider.train.ahead import Ahead
from outrider.train.collect import Collector
from outrider.train.log_ratios import with_log_ratios
from outrider.train.metrics import step_metrics
from outrider.train.weight_sync import WeightSync

MOST_NONFINITE = 3
MOST_EMPTY = 3  # maximum consecutive steps without a rollout, which would never use up a token budget


@dataclass(slots=True)
class Counters:
    """The progress of a run.

    Attributes:
        step: number of finished steps.
        tokens: number of tokens generated for training.
        seconds: seconds of training on rank 0, the only counter that differs between otherwise equal runs.
        nonfinite: number of consecutive steps without an update because the loss or the gradient was not finite.
        owes_evaluation: whether an evaluation of the current policy is due or unfinished.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    nonfinite: int = 0
    owes_evaluation: bool = False


@dataclass(slots=True)
class Watcher:
    """Hooks that the loop calls on every rank.

    Attributes:
        stepped: called after each step, with its groups, metrics and seconds by phase.
        evaluate: called when an evaluation is due.
        save: called when a checkpoint is due.
    """

    stepped: Callable[[int, Sequence[Group], Mapping[str, float], Mapping[str, float]], None]
    evaluate: Callable[[int], None]
    save: Callable[[int], None]


class TrainingStep(NamedTuple):
    """A finished step: its number (the first is 1), its groups, and its metrics as in ``metrics.jsonl``."""

    number: int
    groups: Sequence[Group]
    metrics: Mapping[str, float]


@dataclass(slots=True)
class Trainer:
    """The training loop of a run, with all parts that it needs. :mod:`outrider.train.build` creates the parts."""

    recipe: Recipe
    ranks: Ranks
    clock: Clock
    explorer: Explorer
    collect: Collector
    learner: Learner
    sync_weights: WeightSync
    encode: Callable[[Problem], Ids]
    token_texts: Callable[[Ids], list[str]]
    ahead: Ahead
    all_rows: bool
    """Whether the loss also trains on rows whose advantages are 0."""
    counters: Counters = field(default_factory=Counters)
    stop: SafeStop = field(default_factory=SafeStop)
    snapshot: bytes = b""
    notices: Sequence[str] = ()
    _lost: Exception | None = None
    _empty: int = 0

    def steps(self, watch: Watcher) -> Iterator[TrainingStep]:
        """Train until the budget is spent, and yield each step once it has been recorded.

        Evaluations and checkpoints run between steps.

        Raises:
            EngineLostError: no engine is left to sample or train. After this error, :meth:`state` returns the state
                after the last update.
            UserError: for three steps in a row, the loss or the gradient was not finite, or there were no rollouts. The
                state is saved.
            Terminated: the run must stop. After this exception, :meth:`state` returns the state after the run's last
                step.
        """
        every = self.recipe.train
        self._take_snapshot()
        if self.counters.owes_evaluation:
            self._evaluate(watch)
        while not self.finished:
            before = self.progress
            groups, metrics = self.step()
            step = self.counters.step
            seconds = self.clock.take()
            self.counters.seconds += self.ranks.from_main(partial(training_seconds, seconds))  # equal on every rank
            with self.clock.phase("record"):  # part of the next step's time, since this step's times are written now
                watch.stepped(step, groups, metrics, seconds)
            done = self.finished
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
                    f"step {step}: no stage requested a rollout in {MOST_EMPTY} steps in a row; the run is stopped "
                    "and saved (explore: the first stage samples, as uniform does)"
                )
            if stop:
                raise UserError(
                    f"step {step}: loss or gradient was not finite in {MOST_NONFINITE} steps in a row; the run is "
                    "stopped and saved (lower learn.lr, or inspect the rollouts of these steps)"
                )

    def step(self) -> tuple[list[Group], dict[str, float]]:
        """Run one step: explore, assign credit, update the policy and sync the weights."""
        step = self.counters.step + 1
        with self.clock.phase("explore"), self.stop.allowed():
            explored, planned = self.ahead.explored or self._explore(step)
        with self.clock.phase("credit"):
            kept, prefix = self.all_rows, self.recipe.objective.prefix
            rows, groups = assign(explored, self.recipe.credit, step, kept, self.encode, prefix, self.token_texts)
        self.sync_weights.sleep()  # while there is a state to save, since an engine may fail
        self.snapshot = b""  # during an update, the state is not consistent and cannot be saved
        tokens = self.counters.tokens + sum(group.generated_tokens for group in groups)
        with self.ahead.exploring(step + 1, self._spent(step, tokens)), self.clock.phase("learn"):
            # update before the counters advance, since the learning rate depends on the budget spent before this step
            learned, lost_groups, self.notices, logprobs = self.learner.update(rows, self.progress)
        self._lost = self.ahead.error
        self.counters.step, self.counters.tokens = step, tokens
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

    def _explore(self, step: int) -> Explored:
        return self.explorer.explore(step, self.recipe.train.problems, self.collect, self.progress)

    def _sync_weights(self, step: int) -> dict[str, float]:
        """Sync weights, and return metrics. If no sampler is left, keep the error, which is raised after the step is
        recorded."""
        try:
            return self.sync_weights(step)
        except EngineLostError as error:
            self._lost = error
            return {}

    @property
    def progress(self) -> float:
        """Share of the budget that is spent: the largest of the shares of steps, tokens and seconds."""
        return self._spent(self.counters.step, self.counters.tokens)

    @property
    def finished(self) -> bool:
        """Whether the budget is spent and no step that was sampled in advance is left to train on."""
        return self.progress >= 1.0 and self.ahead.explored is None

    def _spent(self, step: int, tokens: int) -> float:
        """Return the spent share of the budget: the largest of the shares of ``step``, ``tokens`` and the seconds so
        far."""
        train = self.recipe.train
        spent = [(step, train.steps), (tokens, train.tokens), (self.counters.seconds, train.seconds)]
        return max(used / budget if budget else math.inf for used, budget in spent if budget is not None)

    def state(self) -> dict[str, Any]:
        """Return the state after the last finished step, without the learner's state. The exploration of the next step
        does not change the returned state."""
        state: dict[str, Any] = pickle.loads(self.snapshot) if self.snapshot else self._state()
        return state | self.ahead.state_dict()

    def _evaluate(self, watch: Watcher) -> None:
        """Evaluate the policy. If the evaluation is interrupted, a resumed run begins with it."""
        self.counters.owes_evaluation = True
        self._take_snapshot()
        with self.stop.allowed():
            watch.evaluate(self.counters.step)
        self.counters.owes_evaluation = False
        self._take_snapshot()

    def _take_snapshot(self) -> None:
        """Store a copy of the state, since sampling the next step changes it. Until the next update, a checkpoint
        consists of this copy and the weights."""
        # pickled to copy the state, since explorer and collector modify the objects in it
        self.snapshot = pickle.dumps(self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "counters": asdict(self.counters),
            "explorer": self.explorer.state_dict(),
            "collector": self.collect.state_dict(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of ``checkpoint``. The caller must sync the weights afterwards.

        Raises:
            UserError: the weights do not match the model.
        """
        self.counters = Counters(**checkpoint.state["counters"])
        self.snapshot = b""
        self.counters.nonfinite = 0  # otherwise, a run that non-finite updates have stopped would stop again at once
        self.explorer.load_state_dict(checkpoint.state["explorer"])
        self.collect.load_state_dict(checkpoint.state["collector"])
        self.ahead.load(checkpoint.state, checkpoint.folder)
        self.learner.load(checkpoint.folder)
