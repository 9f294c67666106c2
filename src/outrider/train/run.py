"""A run: its parts, its folder on disk, and the report at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from outrider.config import Recipe, dump_yaml, recipe_of_run
from outrider.errors import EngineLostError, UserError
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.learn.learner import PolicyWriter
from outrider.model.device import placement
from outrider.model.load import Policy, context_length
from outrider.preflight.recipe_warnings import recipe_warnings
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Group
from outrider.record.disk import move, write_atomically
from outrider.runs.checkpoint import Checkpoint, Checkpoints, weights_hash
from outrider.runs.folder import RunFolder
from outrider.runs.whole import first_gap
from outrider.screen.screen import Screen
from outrider.screen.signal_warnings import SignalWatch
from outrider.screen.trackers import Tracker, open_trackers
from outrider.screen.verdict_warnings import VerdictWatch
from outrider.tasks.heldout import heldout_problems
from outrider.tasks.task import counted
from outrider.train.collect import Collector
from outrider.train.engines import open_engines
from outrider.train.evaluate import Evaluator, write_evaluated
from outrider.train.hand_over import HandOver
from outrider.train.loop import Trainer, Watcher
from outrider.train.turns import single_turns, with_turns

T = TypeVar("T")

_PROBES = 2  # prompts of a probe


def build(recipe: Recipe, policy: Policy, ranks: Ranks, clock: Clock) -> Trainer:
    """A trainer for a recipe and a policy that was made ready: the one place where the parts meet."""
    sampler, learner = open_engines(recipe, policy, ranks)
    prompts = [(problem, policy.encode(problem)) for problem in map(recipe.task.train, range(_PROBES))]
    entropies = learner.entropies if recipe.reads_entropies and not sampler.gives_entropies else None
    exact = recipe.policy.dtype == "float32"
    whole = with_turns(sampler, recipe.task, policy, recipe.sample)
    return Trainer(
        recipe=recipe,
        ranks=ranks,
        clock=clock,
        explorer=Explorer(
            recipe.explore,
            ProblemStream(recipe.task.train),
            policy,
            recipe.seed,
            share=ranks.from_main,
            prompt_limit=context_length(policy.model) - recipe.sample.max_tokens,
        ),
        collect=Collector(whole, recipe.task, recipe.reward, ranks, clock, entropies, policy.prompt_end),
        learner=learner,
        hand_over=HandOver(single_turns(whole), learner, ranks, prompts, exact, refuse=recipe.policy.check),
        encode=policy.encode,
        pieces=policy.pieces,
    )


def reference_of(recipe: Recipe, policy: Policy) -> str:
    """Identity of what a run uses and does not train, before training: the KL's reference, or else the weights beneath
    an adapter; where a service holds the policy, its name."""
    if policy.model.device.type == "meta":
        return recipe.model
    return weights_hash(policy.model, frozen=recipe.objective.kl.coef == 0)


class Run:
    """A trainer with its folder on disk. Rank 0 writes; the others follow the same steps without a folder.

    Args:
        reference: of :func:`reference_of`, on rank 0.
        warnings: to be said at the start, beside those of the recipe.
    """

    def __init__(
        self,
        trainer: Trainer,
        policy: Policy,
        path_sentence: str,
        ranks: Ranks,
        screen: Screen,
        out: Path,
        reference: str,
        warnings: Sequence[str] = (),
    ) -> None:
        self.trainer, self.policy, self.ranks, self.screen, self.out = trainer, policy, ranks, screen, out
        self._path_sentence = path_sentence
        self.recipe = trainer.recipe
        self.folder: RunFolder | None = None
        self.trackers: Sequence[Tracker] = ()
        self._warnings = warnings
        self._counted = ""
        self._notices: list[str] = []  # of a resume
        self._watch, self._signal = VerdictWatch(), SignalWatch()
        here = policy.model.device.type != "meta"
        self._placement = placement(self.recipe.policy.dtype) if here else None
        self._engine = str(self._placement or "a service")
        self.checkpoints = Checkpoints(out / "checkpoints", self.recipe.train.keep)
        problems = ranks.from_main(lambda: heldout_problems(self.recipe.task, self.recipe.evaluate))
        self._reference = reference
        self.evaluator = Evaluator(
            problems, policy.encode, trainer.collect, self.recipe.evaluate, self.recipe.sample.params()
        )

    def begin(self, resume: bool, force: bool) -> None:
        """Make the folder, or open it and go on after its last undamaged checkpoint.

        Raises:
            UserError: the folder holds another run, or what it holds does not fit the recipe.
        """
        checkpoint = self.ranks.from_main(lambda: self._open(force) if resume else self._create())
        if checkpoint is not None:
            self.ranks.refuse_unseen(checkpoint.folder)
            self.trainer.restore(checkpoint)  # before any file is moved, since it raises if the weights do not fit
            self.ranks.from_main(lambda: self._go_on_after(checkpoint))
        self.trainer.hand_over(self.trainer.counters.step)
        if self.ranks.main:
            self.trackers = open_trackers(
                self.recipe.train.trackers, self.out, self.recipe.resolved(), self.trainer.counters.step
            )
            self._say(f"computing on {self._engine}")
            self._say(self._path_sentence)
            self._say_counts()
            of_recipe = recipe_warnings(self.recipe, len(self.evaluator.problems), self.ranks.cores)
            for sentence in [*of_recipe, *self._warnings]:
                self._say(f"warning: {sentence}")
        self._say_notices()
        if checkpoint is None:
            self.save(0)

    def train(self) -> None:
        """Evaluate, train, evaluate; a resumed run repeats nothing."""
        options, counters = self.recipe.evaluate, self.trainer.counters
        self.screen.resumed(counters.step, counters.tokens, counters.seconds)
        if options.before and counters.step == 0:
            with self.trainer.stop.allowed():
                self.evaluate(0)
        self.trainer.train(Watcher(self.stepped, self.evaluate, self.save))
        if options.after:
            with self.trainer.stop.allowed():
                self.evaluate(counters.step)

    def stepped(
        self, step: int, groups: Sequence[Group], metrics: Mapping[str, float], seconds: Mapping[str, float]
    ) -> None:
        """Put a step on disk and on the screen."""
        notices = self._gather_notices()
        if self.folder is None:
            return
        levels = {group.problem.id: group.problem.level for group in groups}
        self.folder.rollouts.write(step, [r for group in groups for r in group.rollouts], levels=levels)
        self.folder.append_metrics(step, metrics)
        rate = metrics["step_tokens"] / max(sum(seconds.values()), 1e-9)
        self.folder.append_timing(step, {**seconds, "tokens_per_second": rate})
        for tracker in self.trackers:
            tracker.log(step, metrics)
        self.screen.stepped(metrics, self.trainer.counters.seconds)
        for warning in [*notices, *self._watch.warnings(groups), *self._signal.warnings(groups, metrics)]:
            self._say(f"warning: step {step}: {warning}")

    def evaluate(self, step: int) -> None:
        """Measure the policy on the held-out problems, unless this step has been measured."""
        if self.ranks.from_main(lambda: self.folder is not None and step in self.folder.evaluations()):
            return
        with self.trainer.clock.phase("evaluate"):
            evaluated = self.evaluator.run()
        self.trainer.clock.take()
        self._say_notices()
        if self.folder is None:
            return
        write_evaluated(self.folder, step, evaluated, self.evaluator.problems)
        self.screen.evaluated(step, evaluated.evaluation)

    def save(self, step: int) -> None:
        """Write a checkpoint of the state after ``step``."""
        if self.folder is None and self._saves_alone:
            return
        with self.trainer.clock.phase("save"):
            # Rollouts and metrics first: a resume drops what is later than its checkpoint, but nothing brings back what
            # is earlier.
            if self.folder is not None:
                self.folder.sync()
            self.checkpoints.save(step, self._identity() | self.trainer.state(), self._write, self._once)

    def _write(self, folder: Path) -> None:
        if not self._saves_alone:  # a rank would write its share where nobody looks
            self.ranks.refuse_unseen(folder)
        self.trainer.learner.save(folder)

    def save_if_new(self) -> str:
        """Save the state after the last step if there is one that is not saved yet; return where a resume goes on."""
        counters = self.trainer.counters
        last = self._once(lambda: self.checkpoints.last)
        if self.trainer.snapshot and (last != counters.step or counters.owes_evaluation):
            try:
                self.save(counters.step)
                last = counters.step
            except EngineLostError:  # with a service that is away are the weights since the last checkpoint
                pass
        return "from the beginning" if last is None else f"after step {last}"

    def finish(self) -> None:
        """Export the model, draw the curves, print the table."""
        write = self.trainer.learner.writer(self.policy)
        if self.folder is not None:
            assert write is not None
            self._export(self.folder, write)
            self._say_counts()
            self.screen.report(self.folder)

    def close(self) -> None:
        """Close trackers, task and folder."""
        for tracker in self.trackers:
            tracker.close()
        self.recipe.task.close()
        sampler = self.trainer.collect.sampler
        for notice in sampler.notices:  # of a run that was cut short; the other ranks may be gone
            self._say(f"warning: {notice}")
        sampler.close()
        if self.folder is not None:
            self.folder.close()

    @property
    def _saves_alone(self) -> bool:
        """Whether rank 0 has all the weights, and saves them wherever the others are: also when the run is ended."""
        return self.trainer.learner.whole

    def _once(self, make: Callable[[], T]) -> T:
        """The result of ``make`` where all save together: on rank 0, for all of them."""
        return make() if self._saves_alone else self.ranks.from_main(make)

    def _say(self, notice: str) -> None:
        """On the screen, and in the folder's notices.txt: anything printed is also on disk."""
        if self.folder is not None:
            self.screen.say(notice)
            self.folder.note(notice)

    def _say_notices(self) -> None:
        for notice in self._gather_notices():
            self._say(f"warning: {notice}")

    def _gather_notices(self) -> list[str]:
        """What the samplers of all ranks have to say, each sentence once; on every rank."""
        notices = self.trainer.collect.sampler.notices
        gathered = self.ranks.gather(lambda: notices)
        notices.clear()
        return list(dict.fromkeys(gathered))

    def _say_counts(self) -> None:
        """Print the task's counts at the start, and at the end if they have changed."""
        if (sentence := counted(self.recipe.task)) != self._counted:
            self._say(sentence)
            self._counted = sentence

    def _export(self, folder: RunFolder, write: PolicyWriter) -> None:
        """The model after the last step. An older one, of a run that was extended, is set aside."""
        step = self.trainer.counters.step
        stamp = folder.model / "outrider.json"
        if stamp.is_file() and json.loads(stamp.read_bytes())["step"] == step:
            return
        if folder.model.exists():
            move(folder.model, self.out / "superseded")
        about = {"recipe": self.recipe.name, "step": step, "tokens": self.trainer.counters.tokens}
        write(folder.model, about)

    def _create(self) -> None:
        self.folder = RunFolder.create(self.out, self.recipe.resolved(), self._engine)

    def _open(self, force: bool) -> Checkpoint | None:
        if RunFolder(self.out).was_begun:
            self._create()
            self._say("the run was stopped before it had begun: beginning anew")
            return None
        self.folder = RunFolder.open(self.out)
        if self.checkpoints.last is None:
            self.folder.rewind(-1)
            self._rewrite_config(0)
            self._say("nothing was saved before the run was stopped: beginning anew")
            return None
        newest, self._notices = self.checkpoints.load_last()
        differences = self._differences(newest.state)
        if differences and not force:
            raise UserError(
                f"{self.out} was begun otherwise ({'; '.join(differences)}); resume it with the same settings, "
                "or add --force to go on with the new ones"
            )
        checkpoint = self._whole_checkpoint(self.folder, newest, force)
        self._notices += differences
        return checkpoint

    def _whole_checkpoint(self, folder: RunFolder, newest: Checkpoint, force: bool) -> Checkpoint:
        """The newest checkpoint up to which the record is whole; what there is to say of it becomes a notice.

        Raises:
            UserError: there is none, and no ``force`` to go on with a gap.
        """
        gap = first_gap(folder, newest.step)
        if gap is None:
            return newest
        self._notices.append(gap.sentence)
        if (earlier := self.checkpoints.undamaged_before(gap.step)) is not None:
            checkpoint, more = self.checkpoints.load_last(before=earlier + 1)
            self._notices += more
            return checkpoint
        if not force:
            raise UserError(
                f"{self.out}: {gap.sentence}, and no checkpoint is from before step {gap.step}; add --force to go on "
                f"after step {newest.step} with the gap"
            )
        return newest

    def _go_on_after(self, checkpoint: Checkpoint) -> None:
        assert self.folder is not None
        self.folder.rewind(checkpoint.step)
        self._rewrite_config(checkpoint.step)
        for notice in [*self._notices, *self.folder.notices, f"going on after step {checkpoint.step}"]:
            self._say(notice)
        on_gpu = self._placement is not None and self._placement.device.type == "cuda"
        if on_gpu and not self.recipe.learn.deterministic:
            self._say(
                "on a GPU gradients differ in their last bits each time, so this run ends close to one that was never "
                "stopped, not as it (a new run with learn.deterministic=true would)"
            )

    def _identity(self) -> dict[str, Any]:
        return {"config": self.recipe.resolved(), **self._surroundings()}

    def _surroundings(self) -> dict[str, Any]:
        """What else decides the numbers of a run, beside its recipe."""
        task, size = self.recipe.task.fingerprint, self.ranks.size
        return {"task": task, "ranks": size, "reference": self._reference}

    def _rewrite_config(self, step: int) -> None:
        """Write the present recipe to ``config.yaml``, and keep the former one if it was another."""
        assert self.folder is not None
        new, old = dump_yaml(self.recipe.resolved()).encode(), self.folder.config.read_bytes()
        if not old.strip():
            self._say("config.yaml was empty: it is written anew from this command, which the checkpoint agrees with")
        if new != old:
            aside = self.out / "superseded"
            number = len(list(aside.glob("config-*.yaml"))) + 1
            write_atomically(aside / f"config-{number}-until-step-{step}.yaml", old)
            write_atomically(self.folder.config, new)

    def _differences(self, state: Mapping[str, Any]) -> list[str]:
        """The differences from the run as it began, one line each; empty where resuming is exact."""
        lines = recipe_of_run(state["config"]).difference(self.recipe)
        now = self._surroundings()
        return lines + [f"{key}: {state[key]} -> {value}" for key, value in now.items() if state[key] != value]
