"""A training run, with its trainer, its records, its checkpoints and its final model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from outrider.config import Recipe
from outrider.errors import EngineLostError
from outrider.model.device import placement
from outrider.model.load import Policy
from outrider.preflight.recipe_warnings import recipe_warnings
from outrider.processes.ranks import Ranks
from outrider.record import Group
from outrider.runs.checkpoint import Checkpoint, Checkpoints
from outrider.runs.export import export
from outrider.runs.folder import RunFolder
from outrider.runs.resume import Resumer
from outrider.screen.screen import Screen
from outrider.screen.tracker import TrackedTable
from outrider.screen.trackers import unused_tracking
from outrider.tasks.heldout import heldout_problems
from outrider.tasks.task import counted
from outrider.train.evaluate import Evaluator
from outrider.train.loop import Trainer, TrainingStep, Watcher
from outrider.train.recorder import Recorder

T = TypeVar("T")


class TrainingRun:
    """A trainer with its folder on disk. Only rank 0 has a folder and writes to it. The other ranks run the same steps
    without a folder.

    Args:
        computed: messages that say how the forward pass is computed, printed at the start.
        reference: hash of the frozen weights (:func:`outrider.train.build.reference_of`), computed on rank 0.
        warnings: warnings to print at the start, besides the recipe's own warnings.
        examine: function that detects issues in a run folder. At the end of the run, the issues are sent to the
            trackers. If None, no issues are sent.
    """

    def __init__(
        self,
        trainer: Trainer,
        policy: Policy,
        computed: Sequence[str],
        ranks: Ranks,
        screen: Screen,
        out: Path,
        reference: str,
        warnings: Sequence[str] = (),
        examine: Callable[[Path], TrackedTable] | None = None,
    ) -> None:
        self.trainer, self.ranks, self.out = trainer, ranks, out
        self.recipe: Recipe = trainer.recipe
        self.recorder = Recorder(screen)
        self.checkpoints = Checkpoints(out / "checkpoints", self.recipe.train.keep)
        self._policy, self._learner, self._collect = policy, trainer.learner, trainer.collect
        self._computed, self._warnings, self._counted = computed, warnings, ""
        here = policy.model.device.type != "meta"
        self._placement = placement(self.recipe.policy.dtype) if here else None
        self._engine = str(self._placement or "a service")
        self._reference, self._examine = reference, examine
        self._resumer = Resumer(out, self.checkpoints, self.recipe, self._surroundings)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator on the held-out problems. Only rank 0 generates the problems, on first use, which may take a
        second."""
        options = self.recipe.evaluate
        problems = self.ranks.from_main(lambda: heldout_problems(self.recipe.task, options))
        return Evaluator(problems, self._policy.encode, self._collect, options, self.recipe.sample.params())

    def begin(self, resume: bool, force: bool) -> None:
        """Create the run folder or, if ``resume`` is True, open it and resume the run from its last undamaged
        checkpoint.

        Raises:
            UserError: the folder contains another run, or does not match the recipe.
        """
        checkpoint = self.ranks.from_main(lambda: self._open(force) if resume else self._create())
        if checkpoint is not None:
            self.ranks.refuse_unseen(checkpoint.folder)
            # restore before files are moved, since this raises an error if the weights do not match
            self.trainer.restore(checkpoint)
            self.ranks.from_main(lambda: self._go_on_after(checkpoint))
        step = self.trainer.counters.step
        self.trainer.sync_weights(step)
        heldout = len(self.evaluator.problems) if self.recipe.evaluates else 0
        if self.recorder.folder is not None:
            self.recorder.track(self.recorder.folder, self.recipe, step)
            self._say(f"computing on {self._engine}", *self._computed)
            self._say_counts()
            of_recipe = recipe_warnings(self.recipe, heldout, self.ranks.cores)
            unused = unused_tracking(self.recipe.train.trackers, self.recipe.train.tracking)
            self._say(*(f"warning: {sentence}" for sentence in [*of_recipe, *unused, *self._warnings]))
        self._say_notices()
        if checkpoint is None:
            self.save(0)

    def steps(self) -> Iterator[TrainingStep]:
        """Evaluate the policy, run and yield each training step, and evaluate the policy again. A resumed run does not
        repeat steps or evaluations from before its checkpoint."""
        options, counters = self.recipe.evaluate, self.trainer.counters
        self.recorder.resumed(counters.step, counters.tokens, counters.seconds)
        if options.before and counters.step == 0:
            with self.trainer.stop.allowed():
                self.evaluate(0)
        yield from self.trainer.steps(Watcher(self.stepped, self.evaluate, self.save))
        if options.after:
            with self.trainer.stop.allowed():
                self.evaluate(counters.step)

    def stepped(
        self, step: int, groups: Sequence[Group], metrics: Mapping[str, float], seconds: Mapping[str, float]
    ) -> None:
        """Write a step to disk and to the trackers, and show it on the screen."""
        notices = [*self.trainer.notices, *self._collect.notices()]
        self.recorder.stepped(step, groups, metrics, seconds, self.trainer.counters.seconds, notices)

    def evaluate(self, step: int) -> None:
        """Evaluate the policy on the held-out problems, unless the run already has an evaluation of this step."""
        if self.ranks.from_main(lambda: self.recorder.has_evaluation(step)):
            return
        clock = self.trainer.clock
        since_the_step, begin = clock.take(), time.perf_counter()
        with clock.phase("evaluate"):
            evaluated = self.evaluator.run()
        seconds = time.perf_counter() - begin
        clock.take()  # an evaluation samples and verifies too; these phases are not the next step's
        clock.add(since_the_step)
        self._say_notices()
        self.recorder.evaluated(step, evaluated, self.evaluator.problems, seconds)

    def save(self, step: int) -> None:
        """Write a checkpoint of the state after ``step``."""
        if self.recorder.folder is None and self._saves_alone:
            return
        with self.trainer.clock.phase("save"):
            # Rollouts and metrics are synced first, since a resumed run cannot restore records from before its
            # checkpoint.
            self.recorder.sync()
            state = self._resumer.identity | self.trainer.state()
            self.checkpoints.save(step, state, self._write, self._once)

    def save_if_new(self) -> str:
        """Save the state after the last step unless it is already saved. Return a phrase that says where a resumed run
        would continue."""
        counters = self.trainer.counters
        last = self._once(lambda: self.checkpoints.last)
        if self.trainer.snapshot and (last != counters.step or counters.owes_evaluation):
            try:
                self.save(counters.step)
                last = counters.step
            except EngineLostError:  # the service with the latest weights cannot be reached
                pass
        return "from the beginning" if last is None else f"after step {last}"

    def finish(self) -> None:
        """Export the model, plot the curves, print the results table, and send findings (detected issues) to
        trackers."""
        write = self._learner.writer(self._policy)
        if self.recorder.folder is not None:
            assert write is not None
            counters = self.trainer.counters
            about = {"recipe": self.recipe.name, "step": counters.step, "tokens": counters.tokens}
            export(self.recorder.folder, write, about)
            self._say_counts()
            self.recorder.report()
            if self._examine is not None:
                self.recorder.send_findings(counters.step, self._examine)

    def close(self) -> None:
        """Close trackers, task, sampler and folder."""
        self.recorder.close_trackers()
        self.recipe.task.close()
        self._say(*(f"warning: {notice}" for notice in self._collect.last_notices))
        self._collect.close()
        self.recorder.close()

    def _surroundings(self) -> dict[str, Any]:
        return {"task": self.recipe.task.fingerprint, "ranks": self.ranks.size, "reference": self._reference}

    def _open(self, force: bool) -> Checkpoint | None:
        if RunFolder(self.out).was_begun:
            self._create()
            self._say("the run was stopped before its first step: starting again")
            return None
        self.recorder.folder = folder = RunFolder.open(self.out)
        if (anew := self._resumer.begun_anew(folder)) is not None:
            self._say(*anew)
            return None
        return self._resumer.checkpoint(folder, force)

    def _create(self) -> None:
        self.recorder.folder = RunFolder.create(self.out, self.recipe.resolved(), self._engine)

    def _go_on_after(self, checkpoint: Checkpoint) -> None:
        assert self.recorder.folder is not None
        self._say(*self._resumer.go_on(self.recorder.folder, checkpoint))
        on_gpu = self._placement is not None and self._placement.device.type == "cuda"
        if on_gpu and not self.recipe.learn.deterministic:
            self._say(
                "on a GPU the last bits of gradients vary, so the result of this run is close to that of an "
                "uninterrupted run, but not equal (a new run with learn.deterministic=true is)"
            )

    def _write(self, folder: Path) -> None:
        if not self._saves_alone:  # otherwise, a rank could write its shard to a folder that rank 0 cannot see
            self.ranks.refuse_unseen(folder)
        self._learner.save(folder)
        if self.recorder.folder is not None:
            self.trainer.ahead.save(folder)

    @property
    def _saves_alone(self) -> bool:
        """Whether rank 0 has all weights, and so can save them without the other ranks."""
        return self._learner.whole

    def _once(self, make: Callable[[], T]) -> T:
        """Return the result of ``make``. If all ranks write the checkpoints together, run ``make`` on rank 0 and
        broadcast the result."""
        return make() if self._saves_alone else self.ranks.from_main(make)

    def _say(self, *notices: str) -> None:
        for notice in notices:
            self.recorder.say(notice)

    def _say_notices(self) -> None:
        self._say(*(f"warning: {notice}" for notice in self._collect.notices()))

    def _say_counts(self) -> None:
        """Print the task's counts, such as skipped rows, unless they are the same as those printed before."""
        if (sentence := counted(self.recipe.task)) != self._counted:
            self._say(sentence)
            self._counted = sentence
