"""The recipe, a typed object that contains everything that defines a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, model_validator

from outrider.components import ComponentOf
from outrider.config.engine import EngineOptions, is_local
from outrider.config.engine_rules import refuse_engine
from outrider.config.renamed import with_old_keys
from outrider.config.train import EvaluateOptions, TrainOptions
from outrider.credit import BASELINES, REWARD_SHAPERS, SHAPERS, Link, split
from outrider.credit.chain import stage_of
from outrider.credit.reward import RewardOptions
from outrider.errors import nearest
from outrider.explore import STAGES, Stage
from outrider.explore.stage import PlansAhead
from outrider.explore.surroundings import Surroundings
from outrider.interrupts import interrupts_held
from outrider.learn.options import LearnOptions
from outrider.model.options import PolicyOptions, TrainedPolicyOptions
from outrider.objective.options import ObjectiveOptions
from outrider.options import Options
from outrider.plugins import Provenance, provenances_in
from outrider.sample.options import SampleOptions
from outrider.tasks import OLD_TASKS, TASKS
from outrider.tasks.task import Task, writes_messages
from outrider.tasks.turn_task import TurnTask

CreditLink = Annotated[Link, ComponentOf({**REWARD_SHAPERS, **BASELINES, **SHAPERS}, "credit component", Link)]
AnyTask = Annotated[Task, ComponentOf(TASKS, "task", Task, old_keys=OLD_TASKS)]
AnyStage = Annotated[Stage, ComponentOf(STAGES, "stage", Stage)]


def _in_order(chain: list[CreditLink]) -> list[CreditLink]:
    try:
        split(chain)
    except ValueError as error:
        raise ValueError(f"{error} (baselines: {', '.join(sorted(BASELINES))})") from None
    return chain


CreditChain = Annotated[list[CreditLink], Field(min_length=1), AfterValidator(_in_order)]


def refuse_plain_messages(task: Task, policy: PolicyOptions) -> None:
    """Raise ValueError if prompts are lists of messages, but the policy has no chat template that renders messages."""
    if writes_messages(task) and not policy.chat:
        raise ValueError(
            f"the prompts of task {task.name!r} are messages, which a chat template writes: policy.chat=true"
        )


class Recipe(Options):
    """The full specification of a run, which :func:`outrider.config.load_recipe` reads from a YAML file.

    ``explore`` contains the stage objects, ``credit`` contains the credit chains (sequences of advantage components),
    and ``task`` is the task object. Stages have state, so use each recipe object for only one run.
    """

    model_config = ConfigDict(frozen=True)

    about: ClassVar[frozenset[str]] = frozenset({"name", "from_setting", "paper", "summary"})
    """Fields that describe a run without affecting it."""

    name: str = Field(
        "recipe",
        min_length=1,
        description=(
            "name of the recipe, which is part of the run folder's name; if a recipe file sets no name, its file name"
            " is used"
        ),
    )
    from_setting: str | None = Field(
        None,
        validation_alias=AliasChoices("from_setting", "from_profile"),  # the field's name in 0.1
        description=(
            "name of the setting (a file with the model, task and budget) that the recipe uses; filled in "
            "automatically when the recipe is loaded; null: no setting"
        ),
    )
    paper: str = Field("", description="reference to the paper that introduced the recipe's method")
    summary: str = Field("", description="one-line summary of the recipe, printed by `outrider recipes`")
    model: str = Field(
        min_length=1,
        description=(
            "initial model: base:<name> (shipped with Outrider), a folder, a GGUF file, package:<name> (GGUF file in a "
            "Python package), or a Hugging Face Hub name"
        ),
    )
    policy: TrainedPolicyOptions = Field(default_factory=TrainedPolicyOptions)
    seed: int = Field(
        0, ge=0, description="random seed of the run; the order of problems depends on the task's seed instead"
    )
    task: AnyTask = Field(description="task that provides the problems and verifies the responses")
    explore: list[AnyStage] = Field(
        min_length=1,
        description=(
            "ordered list of exploration stages, which decide how many rollouts each problem gets and from which "
            "prompt or prefix each rollout starts"
        ),
    )
    credit: dict[str, CreditChain] = Field(
        description=(
            "for each loss stream (a separately weighted part of the loss), the ordered list of components that "
            "compute advantages from rewards"
        )
    )
    reward: RewardOptions = Field(default_factory=RewardOptions)
    objective: ObjectiveOptions = Field(default_factory=ObjectiveOptions)
    sample: SampleOptions = Field(default_factory=SampleOptions)
    engine: EngineOptions = Field(default_factory=EngineOptions)
    learn: LearnOptions = Field(default_factory=LearnOptions)
    train: TrainOptions = Field(default_factory=TrainOptions)
    evaluate: EvaluateOptions = Field(default_factory=EvaluateOptions)
    components: dict[str, Provenance] = Field(
        default_factory=dict,
        description=(
            "origin (import path, package version and source hash) of each third-party component, by component name; "
            "filled in automatically when the recipe is loaded"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _other_numerics_are_corrected(cls, data: Any) -> Any:
        """Turn on the off-policy correction by default if the sampler is not local or samples with older weights."""
        if not isinstance(data, Mapping) or (is_local(data.get("engine")) and not _lags(data.get("train"))):
            return data
        objective = {} if (given := data.get("objective")) is None else given
        if not isinstance(objective, Mapping) or "correction" in objective:
            return data
        return {**data, "objective": {**objective, "correction": {"truncate": {}}}}

    @model_validator(mode="after")
    def _prompts_can_be_written(self) -> Recipe:
        refuse_plain_messages(self.task, self.policy)
        return self

    @model_validator(mode="after")
    def _streams_agree(self) -> Recipe:
        weights = self.objective.streams
        for stream in self.credit:
            if stream not in weights:
                raise ValueError(f"credit.{stream} has no weight in objective.streams ({nearest(stream, weights)})")
        for stream in weights:
            if stream not in self.credit:
                raise ValueError(f"objective.streams.{stream} has no chain in credit ({nearest(stream, self.credit)})")
        if "main" not in self.credit:
            raise ValueError("credit has no stream 'main', the one of every rollout from a prompt")
        return self

    @model_validator(mode="after")
    def _stages_agree(self) -> Recipe:
        for i, stage in enumerate(self.explore):
            around = Surroundings(
                self.explore[:i],
                self.train.problems,
                self.sample.max_tokens,
                self.credit,
                self.task.name,
                isinstance(self.task, TurnTask),
                self.explore[i + 1 :],
                split(self.credit["main"]).baseline.goal,
            )
            try:
                stage.check(around)
            except ValueError as error:
                raise ValueError(f"explore.{i}: {error}") from None
        return self

    @model_validator(mode="after")
    def _credit_finds_its_rollouts(self) -> Recipe:
        there = [name for name, kind in STAGES.items() if any(isinstance(stage, kind) for stage in self.explore)]
        for stream, chain in self.credit.items():
            needed = stage_of(split(chain).baseline)
            if needed is not None and needed not in there:
                raise ValueError(
                    f"credit.{stream} compares with the rollouts of a stage {needed!r}, which explore does not have"
                )
        return self

    @model_validator(mode="after")
    def _goals_are_kept(self) -> Recipe:
        after = [i for i, stage in enumerate(self.explore) if not isinstance(stage, PlansAhead)]
        for stream, chain in self.credit.items():
            if split(chain).baseline.goal is None:
                continue
            if not self.objective.aggregate.fixed:
                raise ValueError(
                    f"credit.{stream} estimates the gradient of a stated goal, which a denominator that depends on "
                    "the responses changes: set objective.aggregate=constant"
                )
            if after:
                raise ValueError(
                    f"credit.{stream} estimates the gradient of a stated goal, which explore.{after[0]} may change: "
                    "a problem's rollouts, and which of them are trained on, have to be known before the step"
                )
        return self

    @model_validator(mode="after")
    def _limits_agree(self) -> Recipe:
        for stream, chain in self.credit.items():
            for i, link in enumerate(split(chain).before):
                if link.response_limit not in (None, self.sample.max_tokens):
                    raise ValueError(
                        f"credit.{stream}.{i} assumes responses of at most {link.response_limit} tokens, but "
                        f"sample.max_tokens is {self.sample.max_tokens}"
                    )
        return self

    @model_validator(mode="after")
    def _engines_agree(self) -> Recipe:
        refuse_engine(self)
        if self.learn.compile and self.objective.surrogate.reads_top:
            raise ValueError("learn.compile: the compiled head has no likeliest tokens, which this policy loss reads")
        return self

    @model_validator(mode="after")
    def _sections_agree(self) -> Recipe:
        if self.learn.minibatches > self.train.problems:
            raise ValueError(
                f"learn.minibatches is {self.learn.minibatches}, but a step has only "
                f"{self.train.problems} problems to cut (train.problems)"
            )
        return self

    @model_validator(mode="after")
    def _samples_are_the_policy(self) -> Recipe:
        """Reject sampling options that would make training rollouts differ from samples of the policy.

        An evaluation may sample from other distributions, and has its own options (:class:`outrider.config.Evaluate`).
        """
        sample = self.sample
        if sample.temperature == 0:
            raise ValueError(
                "sample.temperature is 0, but greedy responses to a problem are identical, so none is better"
            )
        for key, value, off in (("top_p", sample.top_p, 1), ("top_k", sample.top_k, 0)):
            if value != off:
                raise ValueError(
                    f"sample.{key} is {value}, but the gradient is that of the whole distribution, "
                    f"so training needs sample.{key}={off}"
                )
        return self

    @model_validator(mode="after")
    def _components_are_recorded(self) -> Recipe:
        """Record the origins of the components. A recipe that is read from a run's configuration already contains the
        origins."""
        if not self.components:
            self.__dict__["components"] = provenances_in(self)  # bypasses frozen, which is safe for a new recipe
        return self

    @interrupts_held()  # pydantic would turn Ctrl-C into a serialization error with a traceback
    def resolved(self) -> dict[str, Any]:
        """Return the recipe as plain data in a fixed order, with all defaults. This data can be parsed to an equal
        recipe."""
        return self._without_empty(self.model_dump(mode="json"))

    def fingerprint(self) -> str:
        """Return a hash of all options that affect how a run continues. If two recipes have equal hashes,
        ``difference`` is empty.

        The hash excludes names and notes (``about``), the frequency and number of checkpoints, the trackers and their
        options, and the engines' options. Renamed keys are hashed under their original names, so that runs of older
        Outrider versions keep their hashes.
        """
        text = json.dumps(with_old_keys(Recipe, self._decisive()), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def difference(self, other: Recipe) -> list[str]:
        """Return one line per key that affects a run and differs in ``other``, such as ``learn.lr: 1e-06 -> 0.0001``.

        For batch sizes and ``gradient_checkpointing``, ``auto`` counts as equal to any value, since a run replaces
        ``auto`` when it begins.
        """
        mine, theirs = _flat(self._decisive()), _flat(other._decisive())
        return [
            f"{key}: {mine.get(key, 'absent')} -> {theirs.get(key, 'absent')}"
            for key in dict.fromkeys([*mine, *theirs])
            if mine.get(key, "absent") != theirs.get(key, "absent")
            and not (key in _SIZES and '"auto"' in (mine.get(key), theirs.get(key)))
        ]

    @property
    def reads_entropies(self) -> bool:
        """Whether a stage, a credit component or the objective needs each token's entropy from the sampler."""
        readers: list[Any] = [*self.explore, *(link for chain in self.credit.values() for link in split(chain).after)]
        select, entropy = self.objective.select, self.objective.entropy
        return (
            any("entropies" in reader.requires for reader in [*readers, *filter(None, [select])])
            or entropy.target is not None
        )

    @property
    def evaluates(self) -> bool:
        """Whether the run evaluates the policy at least once."""
        train, evaluate = self.train, self.evaluate
        return bool(evaluate.before or evaluate.after or train.evaluate_every or train.evaluate_at)

    @property
    def samples_apart(self) -> bool:
        """Whether the local sampler runs in a separate process, so that it can sample while the learner trains."""
        return self.train.lag > 0 and "sampler" not in self.engine.names()

    @interrupts_held()
    def _decisive(self) -> dict[str, Any]:
        # only the engines' names count, since their options, such as server addresses, do not affect results
        excluded = dict.fromkeys({*self.about, "engine"}, True)
        kept = self.model_dump(
            mode="json", exclude={**excluded, "train": {"save_every", "keep", "trackers", "tracking"}}
        )
        return self._without_empty(kept | {"engine": self.engine.names()})

    @staticmethod
    def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
        """Omit the key ``components`` if it is empty, since older versions never wrote this key."""
        return data if data["components"] else {key: value for key, value in data.items() if key != "components"}


def _lags(train: Any) -> bool:
    """Return whether a recipe's ``train`` section (None if absent) sets ``lag``, so that sampling uses older
    weights."""
    return bool(train.lag if isinstance(train, TrainOptions) else isinstance(train, Mapping) and train.get("lag"))


_SIZES = {"sample.rows", "learn.micro_tokens", "learn.gradient_checkpointing"}


def _flat(data: Any, prefix: str = "") -> dict[str, str]:
    """Return a mapping from dotted keys to values in JSON format. An empty mapping or list counts as a value."""
    if not isinstance(data, (Mapping, list)) or not data:
        return {prefix: json.dumps(data)}
    items = data.items() if isinstance(data, Mapping) else enumerate(data)
    return {k: v for key, part in items for k, v in _flat(part, f"{prefix}.{key}" if prefix else str(key)).items()}
