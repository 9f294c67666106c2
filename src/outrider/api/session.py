"""A run whose loop is the caller's: one step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from outrider.api.run import Run
from outrider.api.training import folder_of, recipe_of
from outrider.errors import UserError

if TYPE_CHECKING:
    from outrider.measure.evaluation import Evaluation
    from outrider.train.loop import TrainingStep
    from outrider.train.run import TrainingRun


class Session:
    """Trains step by step, in this process, and keeps the same record as :func:`outrider.train`.

    ::

        with outrider.Session("grpo", config={"train.steps": 100}, out="runs/a") as session:
            for step in session:
                if step.metrics["entropy"] < 0.05:
                    break

    A loop that runs to the end does what ``outrider.train`` does, to the bit: evaluations and checkpoints are made when
    they are due. Leaving the block saves a checkpoint, unless an error leaves it; a run that reached its limit writes
    its model and its table.

    Args:
        options: the other arguments of :func:`outrider.train`: ``model``, ``data``, ``reward``, ``stages``, ….

    Attributes:
        recipe: the resolved recipe.
        path: the run folder.

    Raises:
        UserError: a mistake in an argument; ``train.ranks`` is not 1.
    """

    def __init__(
        self,
        recipe: str | Path = "grpo",
        *,
        config: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        force: bool = False,
        **options: Any,
    ) -> None:
        self.recipe = recipe_of(recipe, config=config, out=out, **options)
        if self.recipe.train.ranks != 1:
            raise UserError("a session trains in this process: train.ranks=1")
        self.path = folder_of(self.recipe, out)
        self._resume, self._force = resume, force
        self._open = ExitStack()
        self._training: TrainingRun | None = None
        self._steps: Iterator[TrainingStep] = iter(())

    def __enter__(self) -> Self:
        from outrider.commands.train_command import refuse_unfit, training_run
        from outrider.processes.launch import threads_of_a_rank
        from outrider.processes.ranks import Ranks

        refuse_unfit(self.recipe, self._force)
        with ExitStack() as opened:
            opened.enter_context(threads_of_a_rank())
            self._training = run = training_run(Ranks(), self.recipe, self.path)
            opened.callback(run.close)
            run.begin(self._resume, self._force)
            opened.enter_context(run.recorder.screen)
            self._steps = run.steps()
            self._open = opened.pop_all()
        return self

    def __iter__(self) -> Iterator[TrainingStep]:
        return self._steps

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        run = self._begun
        with self._open:
            if kind is None:
                run.save_if_new()
                if run.trainer.progress >= 1.0:
                    run.finish()

    def evaluate(self) -> Evaluation:
        """Measure the policy as it is on the held-out problems, and keep the evaluation on record.

        The evaluation after a step is made once: a second call returns the first one's.
        """
        from outrider.measure.evaluation import Evaluation

        step = self._begun.trainer.counters.step
        self._begun.evaluate(step)
        folder = self._begun.recorder.folder
        assert folder is not None
        return Evaluation.from_json(folder.evaluations()[step])

    def save(self) -> str:
        """Write a checkpoint of the state after the last step, and say where a resume would go on."""
        return self._begun.save_if_new()

    @property
    def run(self) -> Run:
        """The run folder as it is, to read from."""
        return Run(self.path)

    @property
    def _begun(self) -> TrainingRun:
        if self._training is None:
            raise UserError("a session is used in its block: with outrider.Session(…) as session")
        return self._training
