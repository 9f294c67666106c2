"""``outrider train``: one run of a recipe, and the sentences for one that ends early."""

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
    """Run a recipe in the folder ``out``, on as many processes as it asks for, and return the exit status.

    Raises:
        UserError: a mistake that the user can correct; see the bad-input table in the docs.
        Terminated: SIGTERM came; the run is saved as it was after its last step.
    """
    make_base(recipe.model)
    chosen = chosen_for(recipe, out, resume)
    recipe = with_values(recipe, chosen.values)
    refuse_unfit(recipe, force)
    started_by_another(recipe.train.ranks)  # which it then is
    hint = f"{RESUME} from the last checkpoint"
    return launch(processes_of(recipe), _train, recipe, out, resume, force, chosen, hint=hint)


def chosen_for(recipe: Recipe, out: Path, resume: bool) -> AutoValues:
    """Values for what is ``auto`` in a recipe; of a run that is resumed, those that it was begun with."""
    recorded = None
    if resume:
        with suppress(UserError, OSError):  # a folder that cannot be resumed is refused by what opens it
            file = RunFolder(out).config
            recorded = recipe_of_run(read_yaml(file.read_text(encoding="utf-8"), str(file)) or {})
    config = local_config(recipe.model)
    if config is None and recorded is None and not isinstance(recipe.engine.learner, Tinker):
        config = hub_config(recipe.model)  # the weights follow
    return choose(recipe, config, recorded)


def refuse_unfit(recipe: Recipe, force: bool) -> None:
    """Refuse a recipe whose trackers are not installed, or that does not fit into memory without ``force``.

    Raises:
        UserError: one sentence.
    """
    if missing := missing_trackers(recipe.train.trackers):
        raise UserError(missing[0])
    if not force and (lacks := lacking(recipe, local_config(recipe.model))):
        raise UserError(f"{lacks}; --force (force=True in Python) trains anyway")


def _preflight(recipe: Recipe) -> Preflight:
    return preflight(recipe.task, wanted_by(recipe), recipe.model, recipe.policy).refuse()


def training_run(ranks: Ranks, recipe: Recipe, screen: Screen, out: Path, sizes: str | None = None) -> TrainingRun:
    """The run of a recipe with its parts, not begun yet; ``sizes`` says what ``auto`` has become.

    Raises:
        UserError: the table, the model or the recipe cannot be used.
    """
    found = ranks.from_main(lambda: _preflight(recipe))  # first: loading a model takes minutes
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
    """A block that trains: SIGTERM, a lost rank and a lost engine leave the run saved as it was after its last step.

    The run is closed at the end of the block.

    Raises:
        Terminated, EngineLostError: with the place where a resume goes on.
    """
    trainer, ranks = run.trainer, run.ranks
    safe_stop, whole = SafeStop(), trainer.learner.whole
    if not whole:
        trainer.stop = AgreedStop(safe_stop, ranks)
    elif ranks.main:  # the others run until rank 0 ends them: stopping by themselves they would leave it waiting
        trainer.stop = safe_stop
    with safe_stop.handled():
        try:
            yield
        except (Terminated, RankLostError, EngineLostError) as stop:
            if isinstance(stop, RankLostError) and not whole:
                raise  # with it went a share of the weights
            after = run.save_if_new()
            if isinstance(stop, EngineLostError):
                raise EngineLostError(f"{stop}; {RESUME} {after}") from stop
            if safe_stop.requested:
                raise Terminated(f"ended by SIGTERM; {RESUME} {after}" if ranks.main else "") from stop
            raise
        finally:
            run.close()


def _train(ranks: Ranks, recipe: Recipe, out: Path, resume: bool, force: bool, chosen: AutoValues) -> int:
    # of rank 0 for all: under torchrun each chose for its own machine
    recipe = with_values(recipe, ranks.from_main(lambda: chosen.values))
    run = training_run(ranks, recipe, Screen(recipe, out, ranks.main), out, chosen.sentence)
    with saved_where_stopped(run):
        run.begin(resume, force)
        with run.recorder.screen:
            for _ in run.steps():
                pass
        run.finish()
    return 0
