"""Implements ``outrider train``: runs a recipe, and saves a run that ends early so that it can be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from outrider.commands.findings_table import findings_table
from outrider.commands.make_base import make_base
from outrider.config import Recipe, read_yaml, recipe_of_run
from outrider.errors import EngineLostError, UserError
from outrider.estimate.auto import AutoValues, choose, with_values
from outrider.estimate.estimate import lacking
from outrider.interrupts import SafeStop, Terminated
from outrider.learn.options import Tinker
from outrider.model.places import hub_config, local_config
from outrider.preflight.check import Preflight, leave_out, preflight, wanted_by
from outrider.processes.agreed_stop import AgreedStop
from outrider.processes.clock import Clock
from outrider.processes.launch import launch
from outrider.processes.other_launcher import started_by_another
from outrider.processes.ranks import RankLostError, Ranks
from outrider.runs.folder import RunFolder
from outrider.screen.screen import Screen
from outrider.screen.trackers import missing_trackers
from outrider.train.build import build, reference_of
from outrider.train.engines import open_policy, processes_of
from outrider.train.run import TrainingRun

RESUME = "`outrider train … --resume` goes on"


def train_command(recipe: Recipe, out: Path, resume: bool = False, force: bool = False) -> int:
    """Run a recipe in the folder ``out``, with the recipe's number of processes, and return the exit status.

    Raises:
        UserError: the recipe, the arguments or the task's data have a mistake.
        Terminated: SIGTERM stopped the training. The state after the last finished step is saved before this error is
            raised, so the run can be resumed.
    """
    make_base(recipe.model)
    chosen = chosen_for(recipe, out, resume)
    recipe = with_values(recipe, chosen.values)
    refuse_unfit(recipe, force)
    started_by_another(recipe.train.ranks)  # raises an error if the number of processes is not train.ranks
    hint = f"{RESUME} from the last checkpoint"
    return launch(processes_of(recipe), _train, recipe, out, resume, force, chosen, hint=hint)


def chosen_for(recipe: Recipe, out: Path, resume: bool) -> AutoValues:
    """Choose values for the options that are ``auto``. A resumed run keeps the values that were chosen at its start."""
    recorded = None
    if resume:
        with suppress(UserError, OSError):  # if the folder cannot be resumed, opening it raises an error later
            file = RunFolder(out).config
            recorded = recipe_of_run(read_yaml(file.read_text(encoding="utf-8"), str(file)) or {})
    config = local_config(recipe.model)
    if config is None and recorded is None and not isinstance(recipe.engine.learner, Tinker):
        config = hub_config(recipe.model)  # the weights are downloaded later
    return choose(recipe, config, recorded)


def refuse_unfit(recipe: Recipe, force: bool) -> None:
    """Raise an error if a recipe's trackers are not installed or, without ``force``, if the run does not fit into
    memory.

    Raises:
        UserError: a tracker is not installed, or the run needs too much memory. The message is one sentence.
    """
    if missing := missing_trackers(recipe.train.trackers):
        raise UserError(missing[0])
    if not force and (lacks := lacking(recipe, local_config(recipe.model))):
        raise UserError(f"{lacks}; --force (force=True in Python) trains anyway")


def _preflight(recipe: Recipe) -> Preflight:
    return preflight(recipe.task, wanted_by(recipe), recipe.model, recipe.policy).refuse()


def training_run(ranks: Ranks, recipe: Recipe, screen: Screen, out: Path, sizes: str | None = None) -> TrainingRun:
    """Build a recipe's run without starting it. ``sizes`` is a sentence to print that names the values chosen for
    options set to ``auto``; None: no values were chosen.

    Raises:
        UserError: the task's data, the model or the recipe cannot be used.
    """
    found = ranks.from_main(lambda: _preflight(recipe))  # first, since loading a model takes minutes
    leave_out(recipe.task, found.long)
    clock = Clock(screen.phase)
    policy, path_sentence = open_policy(recipe, ranks)
    reference = reference_of(recipe, policy) if ranks.main else ""  # before the learner, which may shard the model
    trainer = build(recipe, policy, ranks, clock)
    trainer.explorer.prepare()
    computed = [path_sentence] if sizes is None else [path_sentence, sizes]
    return TrainingRun(trainer, policy, computed, ranks, screen, out, reference, found.notices, findings_table)


@contextmanager
def saved_where_stopped(run: TrainingRun) -> Iterator[None]:
    """Context manager for training. On SIGTERM, or if a rank or an engine is lost, the run's state after its last step
    is saved (except if a lost rank held a shard of the weights).

    When the block ends, the run is closed.

    Raises:
        Terminated: SIGTERM was received. The message names the step after which a resumed run continues.
        EngineLostError: no engine is left. The message names the step after which a resumed run continues.
    """
    trainer, ranks = run.trainer, run.ranks
    safe_stop, whole = SafeStop(), trainer.learner.whole
    if not whole:
        trainer.stop = AgreedStop(safe_stop, ranks)
    elif ranks.main:  # rank 0 ends the other ranks; if they stopped themselves, it would wait for them
        trainer.stop = safe_stop
    with safe_stop.handled():
        try:
            yield
        except (Terminated, RankLostError, EngineLostError) as stop:
            if isinstance(stop, RankLostError) and not whole:
                raise  # the lost rank held a shard of the weights
            after = run.save_if_new()
            if isinstance(stop, EngineLostError):
                raise EngineLostError(f"{stop}; {RESUME} {after}") from stop
            if safe_stop.requested:
                raise Terminated(f"ended by SIGTERM; {RESUME} {after}" if ranks.main else "") from stop
            raise
        finally:
            run.close()


def _train(ranks: Ranks, recipe: Recipe, out: Path, resume: bool, force: bool, chosen: AutoValues) -> int:
    # all ranks use rank 0's values, since each rank chose values for its own machine under torchrun
    recipe = with_values(recipe, ranks.from_main(lambda: chosen.values))
    run = training_run(ranks, recipe, Screen(recipe, out, ranks.main), out, chosen.sentence)
    with saved_where_stopped(run):
        run.begin(resume, force)
        with run.recorder.screen:
            for _ in run.steps():
                pass
        run.finish()
    return 0
