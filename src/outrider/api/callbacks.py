"""Hooks of a training run: what somebody else's code does after its steps and evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.api.session import Session
    from outrider.measure.evaluation import Evaluation
    from outrider.train.loop import TrainingStep


class Callback:
    """Hooks of a run in one process (``outrider.train(…, callbacks=[…])``). Override those that you need.

    ``session.evaluate()``, ``session.save()`` and ``session.run`` may be used inside a hook. An exception in a hook
    ends the run without a checkpoint, as an exception in the loop of a :class:`outrider.Session` does.

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
        """The run folder is open, no step is made yet."""

    def on_step(self, session: Session, step: TrainingStep) -> bool | None:
        """A step is on record. True ends the run here, with its last evaluation, its model and its table."""

    def on_evaluation(self, session: Session, step: int, evaluation: Evaluation) -> None:
        """The policy after ``step`` was measured on the held-out problems; 0: before training."""

    def on_end(self, session: Session) -> None:
        """The model is written. Not called for a run that was stopped, or that failed."""
