"""The contract of a stage: which rollouts to sample next, given those there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from outrider.errors import nearest
from outrider.explore.view import View
from outrider.options import Options
from outrider.record import Group, Problem, SampleRequest


class Bounds(NamedTuple):
    """What a step holds at some stage, as far as a recipe says beforehand.

    Attributes:
        fewest: rollouts of the step.
        most: the same; None behind a stage that adds rollouts or drops groups by what it finds, without a useful bound.
        first: fewest and most of a problem in the first pass, by a stage that draws for problems without any.
    """

    fewest: int = 0
    most: int | None = 0
    first: tuple[int, int] = (0, 0)

    def begun(self, drawn: int, first: tuple[int, int]) -> Bounds:
        """After a stage that draws for problems without rollouts, and for no others."""
        return self if self.most != 0 else Bounds(drawn, drawn, first)

    def more(self, most: int) -> Bounds:
        """After a stage that adds this many at most, and may add none."""
        return self if self.most is None else self._replace(most=self.most + most)


def bounds_after(stages: Sequence[Stage], problems: int) -> Bounds:
    """Bounds of a step of so many problems after these stages, from nothing."""
    bounds = Bounds()
    for stage in stages:
        bounds = stage.bounds(bounds, problems)
    return bounds


class Surroundings(NamedTuple):
    """The recipe around a stage, as far as a stage has to agree with it.

    Attributes:
        before: the stages before it, in order.
        problems: with which a step begins.
        max_tokens: of a response.
        streams: the loss streams that have a credit chain.
        task: its name.
        turns: whether its rollouts have turns.
        after: the stages behind it.
        goal: tries of which the best counts, where the credit of stream ``main`` says so.
    """

    before: Sequence[Stage]
    problems: int
    max_tokens: int
    streams: Collection[str]
    task: str
    turns: bool = False
    after: Sequence[Stage] = ()
    goal: int | None = None

    @property
    def bounds(self) -> Bounds:
        """Bounds of the step when the turn of the stage comes."""
        return bounds_after(self.before, self.problems)

    def refuse_limit(self, max_tokens: int) -> None:
        """Raise ValueError where responses have another limit than the one that a stage goes by."""
        if max_tokens != self.max_tokens:
            raise ValueError(
                f"takes responses to have at most {max_tokens} tokens, but sample.max_tokens is {self.max_tokens}"
            )

    def refuse_drawn(self) -> None:
        """Raise ValueError where a stage that draws for problems without rollouts would find none."""
        if fewest := self.bounds.first[0]:
            raise ValueError(
                f"finds problems that have {fewest} rollouts or more and would draw nothing: it stands in the place of "
                "uniform, so take out the one before it"
            )

    def refuse_stream(self, stream: str) -> None:
        """Raise ValueError where the rollouts of a stage would get no credit."""
        if stream not in self.streams:
            hint = nearest(stream, self.streams)
            raise ValueError(f"draws for the loss stream {stream!r}, which has no chain in credit ({hint})")


class Stage(Options):
    """One way of spending the rollout budget. Fields are the recipe's options; state lives in ``PrivateAttr``.

    Its contract is ``plan``, ``check``, ``observe``, ``drop`` and the state; only ``plan`` has to be written. The
    explorer calls ``plan`` with ``round`` 0, 1, 2, … and has each answer sampled and verified, until the answer is
    empty; then the stage may ``drop`` groups or rollouts, and the next stage begins. After the last stage every stage
    sees the finished groups through ``observe``. All of this happens in one process of a run.

    Three more questions have an answer that fits most stages: ``bounds``, ``prepare`` and ``admits``.
    """

    @property
    def reads_entropies(self) -> bool:
        """Whether it needs the entropy of every token as it was drawn, which not every engine gives by itself."""
        return False

    @property
    def reads_attention(self) -> bool:
        """Whether it needs the policy's attention, which not every engine can measure."""
        return False

    @property
    def reads_branching(self) -> bool:
        """Whether it needs the policy's nucleus sizes, which not every engine can measure."""
        return False

    @property
    def plans_ahead(self) -> bool:
        """Whether all that it decides about a step is decided before a rollout of it is drawn, and from plain prompts.

        Credit that states a goal asks for it: with more rollouts where some failed, or without those that did, its
        estimate is one of another goal. Loss streams are not told apart.
        """
        return False

    def plan(self, view: View) -> list[SampleRequest]:
        """The next rollouts; none ends the stage's turn."""
        raise NotImplementedError

    def check(self, around: Surroundings) -> None:
        """Refuse, when a recipe is read, surroundings that it cannot work in.

        Raises:
            ValueError: one sentence.
        """

    def drop(self, groups: Sequence[Group]) -> Mapping[str, str]:
        """What is not to be trained on: the id of a group, or of a single rollout, to the reason. It stays on record,
        and its tokens count."""
        return {}

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from the finished groups of a step, and give its numbers for the metrics, the same names every step.

        Tokens, rollouts and successes of each stage are counted by the trainer.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that ``load_state_dict`` needs to plan as if never interrupted; plain JSON data."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        """Bounds after its turn, from those before it, in a step that begins with so many problems."""
        return before._replace(most=None)

    def prepare(self) -> None:
        """Load what is needed, once and before anything is sampled.

        Raises:
            UserError: a package, model or file is missing.
        """

    def admits(self, problem: Problem, step: int) -> bool:
        """Whether a problem that comes up may be taken into this step; one that is refused is passed over."""
        return True
