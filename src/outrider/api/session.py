"""Lets the caller control training, either step by step in a loop or with hooks that the run calls after its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from outrider.api.arguments import RecipeArguments, folder_of, recipe_of
from outrider.api.evaluation import EvaluationResult, result_of
from outrider.api.run import Run
from outrider.config import Recipe
from outrider.errors import UserError

if TYPE_CHECKING:
    from outrider.measure.evaluation import Evaluation
    from outrider.train.loop import TrainingStep
    from outrider.train.run import TrainingRun


class Callback:
    """Base class of the objects in ``outrider.train(…, callbacks=[…])``. Override the methods that you need; the run
    calls them. Callbacks work only in runs with one process.

    A hook may use ``session.evaluate()``, ``session.save()`` and ``session.run``. Like an exception in the loop of a
    :class:`outrider.Session`, an exception in a hook ends the run without a checkpoint.

    >>> class Patience(Callback):
    ...     best, waited = 0.0, 0
    ...
    ...     def on_step(self, session, step):
    ...         improved = step.metrics["reward"] > self.best
    ...         self.best = max(self.best, step.metrics["reward"])
    ...         self.waited = 0 if improved else self.waited + 1
    ...         return self.waited >= 20
    """

    def on_begin(self, session: Session) -> None:
        """Called before the first step, after the run folder was opened."""

    def on_step(self, session: Session, step: TrainingStep) -> bool | None:
        """Called after each step, once the step's results are recorded. Return True to end the run, which then writes
        its last evaluation, the model and a table of the results."""

    def on_evaluation(self, session: Session, step: int, evaluation: Evaluation) -> None:
        """Called after each evaluation. ``step`` is the number of training steps before the evaluation; 0 means that
        the policy is untrained."""

    def on_end(self, session: Session) -> None:
        """Called after the model is written. This hook is not called if the run was stopped or failed."""


class Session:
    """Trains in this process, one step at a time, and writes the same files as :func:`outrider.train`.

    ::

        with outrider.Session("grpo", config={"train.steps": 100}, out="runs/a") as session:
            for step in session:
                if step.metrics["entropy"] < 0.05:
                    break

    If the ``for`` loop runs to the last step, all results are bit-identical to those of ``outrider.train``, including
    evaluations and checkpoints. If the ``with`` block ends before the run's last step, a checkpoint is saved, unless an
    error ended the block. If the block ends after the last step, :meth:`finish` is called. On SIGTERM, a checkpoint of
    the state after the last finished step is saved.

    Args:
        callbacks: hooks, see :class:`outrider.Callback`.
        arguments: the other arguments of :func:`outrider.train`: ``model``, ``data``, ``reward``, ``stages``, ….

    Attributes:
        recipe: the resolved recipe.
        path: the run folder.

    Raises:
        UserError: an argument is invalid, or ``train.ranks`` is not 1.
    """

    def __init__(
        self,
        recipe: str | Path | Recipe = "grpo",
        *,
        resume: bool = False,
        force: bool = False,
        callbacks: Sequence[Callback] = (),
        **arguments: Unpack[RecipeArguments],
    ) -> None:
        if isinstance(callbacks, Callback):
            raise UserError("callbacks is one callback: give a list")
        if wrong := [c for c in callbacks if not isinstance(c, Callback)]:
            raise UserError(f"callbacks: {wrong[0]!r:.60} is no outrider.Callback (an instance of a subclass)")
        self.recipe = recipe_of(recipe, **arguments)
        if self.recipe.train.ranks != 1:
            raise UserError("train.ranks is not 1: a session, and a run with callbacks, trains in this process alone")
        self.path = folder_of(self.recipe, arguments.get("out"))
        self._callbacks = tuple(callbacks)
        self._resume, self._force = resume, force
        self._open = ExitStack()
        self._training: TrainingRun | None = None
        self._rest: Iterator[TrainingStep] = iter(())
        self._finished = self._ended = self._evaluating = False

    def __enter__(self) -> Self:
        from outrider.commands.make_base import make_base
        from outrider.commands.train_command import chosen_for, refuse_unfit, saved_where_stopped, training_run
        from outrider.estimate.auto import with_values
        from outrider.processes.launch import threads_of_a_rank
        from outrider.processes.ranks import Ranks
        from outrider.screen.screen import Screen

        def evaluated(step: int, evaluation: Evaluation) -> None:
            self._evaluating = True
            try:
                for callback in self._callbacks:
                    callback.on_evaluation(self, step, evaluation)
            finally:
                self._evaluating = False

        make_base(self.recipe.model)
        chosen = chosen_for(self.recipe, self.path, self._resume)
        self.recipe = with_values(self.recipe, chosen.values)
        refuse_unfit(self.recipe, self._force)
        with ExitStack() as opened:
            opened.callback(self._forget)  # called last
            opened.enter_context(threads_of_a_rank())
            screen = Screen(self.recipe, self.path, shown=True, evaluated=evaluated)
            self._training = run = training_run(Ranks(), self.recipe, screen, self.path, chosen.sentence)
            opened.enter_context(saved_where_stopped(run))
            run.begin(self._resume, self._force)
            opened.enter_context(run.recorder.screen)
            opened.push(self._left)  # called first, so that its errors are handled like errors in the block
            self._rest = run.steps()
            for callback in self._callbacks:
                callback.on_begin(self)
            self._open = opened.pop_all()
        return self

    def __iter__(self) -> Iterator[TrainingStep]:
        _ = self._begun
        return self._told()

    def _told(self) -> Iterator[TrainingStep]:
        for step in self._rest:
            answers = [callback.on_step(self, step) for callback in self._callbacks]  # calls every callback
            self._ended = any(answers)
            yield step
            if self._ended:
                self.finish()
            if self._finished:
                return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._open.__exit__(kind, error, trace)

    def _forget(self) -> None:
        """Drop the reference to the closed run, because another run may use the folder from now on."""
        self._training = None

    def _left(self, kind: type[BaseException] | None, *error: object) -> None:
        """Finish or save the run when the ``with`` block ends."""
        run = self._begun
        if kind is not None or self._finished:
            return
        if run.trainer.finished or self._ended:
            self.finish()
        else:
            run.save_if_new()

    def evaluate(self) -> EvaluationResult:
        """Measure the current policy on the held-out problems, and record the evaluation.

        The policy is evaluated at most once per step. A second call after the same step returns the first result.
        """
        step = self._begun.trainer.counters.step
        self._begun.evaluate(step)
        folder = self._begun.recorder.folder
        assert folder is not None
        return result_of(folder.evaluations()[step])

    def finish(self) -> None:
        """End the run. Save a checkpoint, and write the model and a table of the results. If the recipe has an
        evaluation after training, evaluate first."""
        run = self._begun
        if self._evaluating:
            raise UserError("session.finish() is not for on_evaluation: return True from on_step")
        if self._finished:
            return
        if run.trainer.finished:
            for _ in self._rest:  # no step is left, but the loop runs the work after the last step
                pass
        elif self.recipe.evaluate.after:
            run.evaluate(run.trainer.counters.step)
        run.save_if_new()
        run.finish()
        self._finished = True
        for callback in self._callbacks:
            callback.on_end(self)

    def save(self) -> str:
        """Write a checkpoint of the current state, unless it is already saved. Return the point from which a resumed
        run continues, such as ``after step 20``."""
        return self._begun.save_if_new()

    @property
    def run(self) -> Run:
        """The run so far, as a :class:`outrider.Run`; available during the session and after its end."""
        return Run(self.path)

    @property
    def _begun(self) -> TrainingRun:
        if self._training is None:
            raise UserError("a session is used in its block: with outrider.Session(…) as session")
        return self._training
