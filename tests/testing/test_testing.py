"""``outrider.testing``: good components pass, and each deliberate mistake is named by the law that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import PrivateAttr
from torch import Tensor

from outrider.arrays import Floats
from outrider.credit import Baseline, Members, RewardShaper, Shaper
from outrider.explore import Stage, View
from outrider.importing import load_object
from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Surrogate
from outrider.record import Group, Outcome, Problem, SampleRequest, Verdict, correct, incorrect
from outrider.testing import LawError, check_baseline, check_loss, check_shaper, check_stage, check_verifier
from outrider.verify.short_answer import Exact, Number
from outrider.verify.verifier import Verifier

METHODS = "tests/outside/methods.py"
ROWS = [
    ({"answer": "12"}, ["It is 12.", "12"], ["It is 13.", "I do not know."]),
    ({"answer": "-7", "problem": "5-12"}, ["-7"], ["8", "seven"]),
]


def method(name: str) -> Any:
    return load_object(f"{METHODS}:{name}")


# Components that keep the laws


def test_a_good_stage_passes() -> None:
    retry = method("Retry")
    check_stage(lambda: retry(n=2), budget=lambda sizes: 2 * len(sizes))
    check_stage(retry)


def test_a_good_baseline_passes() -> None:
    check_baseline(method("Median")(), shift=True, scale=1, still=True, compares=True, ordered=True, alike=True)
    check_baseline(method("Median"))


def test_a_good_shaper_passes() -> None:
    check_shaper(method("Half")(share=0.25), shift=True, scale=1, still=True, compares=True)


def test_a_good_loss_passes() -> None:
    check_loss(method("Plain"))


def test_a_good_verifier_passes() -> None:
    check_verifier(method("Contains")(), ROWS)


@pytest.mark.parametrize("verifier", [Number(), Exact()])
def test_shipped_verifiers_keep_the_same_laws(verifier: Verifier) -> None:
    rows = [(fields, [f"Answer: {fields['answer']}"], wrong) for fields, _, wrong in ROWS]
    check_verifier(verifier, rows)


# Stages that break a law


class Asking(Stage):
    """One more rollout of each problem that has not been excluded."""

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        groups = [g for g in view.groups if not g.dropped]
        return [SampleRequest(g.problem, n=n) for i, g in enumerate(groups) if (n := self.wanted(i, g, view)) > 0]

    def wanted(self, place: int, group: Group, view: View) -> int:
        return 1


class Forgetful(Asking):
    """Plans by what it has seen, and saves none of it."""

    _seen: int = PrivateAttr(0)

    def wanted(self, place: int, group: Group, view: View) -> int:
        return 1 + self._seen % 5

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        self._seen += len(groups)
        return {}


class Wasteful(Asking):
    def wanted(self, place: int, group: Group, view: View) -> int:
        return 3


class Ordered(Asking):
    """More for the first problem of a batch."""

    def wanted(self, place: int, group: Group, view: View) -> int:
        return 1 + (place == 0)


class Generous(Stage):
    """Forgets that a group may have been excluded."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1) for g in view.groups]


class Greedy(Asking):
    """Looks at shaped reward."""

    def wanted(self, place: int, group: Group, view: View) -> int:
        return int(sum(r.reward for r in group.rollouts if r.reward == r.reward) > 0)


class Moody(Asking):
    """Draws from outside the run."""

    def wanted(self, place: int, group: Group, view: View) -> int:
        MOODS.append(0)
        return 1 + len(MOODS) % 4


MOODS: list[int] = []


class Nameless(Asking):
    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {g.id: "poor" for g in groups if not g.successes}


class Opaque(Asking):
    def state_dict(self) -> dict[str, Any]:
        return {"pair": (1, 2)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Talkative(Asking):
    """Other metrics in other steps."""

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        return {f"problem {g.problem.id}": 1.0 for g in groups}


class Clumsy(Asking):
    def wanted(self, place: int, group: Group, view: View) -> int:
        return 1 + round(1 / group.size - 1 / (group.size - 1))


@pytest.mark.parametrize(
    ("make", "law", "situation"),
    [
        (Forgetful, "resume", "even groups"),
        (Wasteful, "budget", "even groups"),
        (Ordered, "order of problems", "even groups"),
        (Generous, "excluded problems", "half excluded"),
        (Greedy, "success, not reward", "even groups"),
        (Moody, "determinism", "even groups"),
        (Nameless, "reasons", "even groups"),
        (Opaque, "plain state", "even groups"),
        (Talkative, "metrics", "even groups"),
        (Clumsy, "requests", "ragged groups"),
    ],
)
def test_a_wrong_stage_is_named_with_its_law(make: type[Stage], law: str, situation: str) -> None:
    with pytest.raises(LawError) as found:
        check_stage(make, budget=lambda sizes: 2 * len(sizes) if make is Wasteful else 5 * len(sizes))
    assert str(found.value).startswith(f"{make.__name__} breaks {law!r} in {situation!r}: ")
    assert len(found.value.found) > 10


def test_what_a_stage_raises_stays_the_cause() -> None:
    with pytest.raises(LawError, match="it raised ZeroDivisionError") as found:
        check_stage(Clumsy)
    assert isinstance(found.value.__cause__, ZeroDivisionError)


# Credit that breaks a law


class Unscorable(Baseline):
    """Gives members without a verdict the worst advantage."""

    def advantages(self, members: Members) -> Floats:
        rewards_G = np.nan_to_num(members.rewards_G)
        return rewards_G - rewards_G.mean() if members.size else rewards_G


class Batch(Baseline):
    """Compares with other groups, and does not say so."""

    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        rewards = np.concatenate([np.zeros(0), *(m.rewards_G[m.valid_G] for m in groups)])
        mean = rewards.mean() if len(rewards) else 0.0
        both = [(np.where(m.valid_G, m.rewards_G - mean, 0.0), m) for m in groups]
        return [[np.full(int(n), a) for a, n in zip(a_G, m.tokens_G, strict=True)] for a_G, m in both]


class First(Baseline):
    """The first member is the baseline."""

    def advantages(self, members: Members) -> Floats:
        valid = np.flatnonzero(members.valid_G)
        return np.where(members.valid_G, members.rewards_G - (members.rewards_G[valid[0]] if len(valid) else 0), 0.0)


class InPlace(Shaper):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        for a_T in advantages_GT:
            a_T *= 0.5
        return list(advantages_GT)


class Writing(Baseline):
    def advantages(self, members: Members) -> Floats:
        members.rewards_G[~members.valid_G] = 0.0
        return members.rewards_G


class PerMember(Shaper):
    """One number per member in place of one per token."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a_T[:1].copy() for a_T in advantages_GT]


class Infinite(Shaper):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return [a_T / np.abs(a_T) for a_T in advantages_GT]


class Counting(Shaper):
    _calls: int = PrivateAttr(0)

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        self._calls += 1
        return [a_T * self._calls for a_T in advantages_GT]


class Offset(RewardShaper):
    """A bonus that depends on the number of members, and counts those that are not valid."""

    def rewards(self, members: Members, step: int) -> Floats:
        return members.rewards_G * members.size


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (Unscorable, "members that are not valid"),
        (Batch, "groups apart"),
        (First, "order of members"),
        (InPlace, "input unchanged"),
        (Writing, "pure"),
        (PerMember, "one number per token"),
        (Infinite, "one number per token"),
        (Counting, "pure"),
        (Offset, "members that are not valid"),
    ],
)
def test_wrong_credit_is_named_with_its_law(make: type, law: str) -> None:
    check = check_baseline if issubclass(make, Baseline) else check_shaper
    with pytest.raises(LawError) as found:
        check(make)
    assert str(found.value).startswith(f"{make.__name__} breaks {law!r} in 'a")
    assert len(found.value.found) > 10


@pytest.mark.parametrize("claim", [{"shift": True}, {"scale": 2}, {"still": True}, {"compares": True}])
def test_a_claim_that_does_not_hold_is_named(claim: dict[str, Any]) -> None:
    from outrider.credit import NoBaseline

    with pytest.raises(LawError, match=f"^NoBaseline breaks '{next(iter(claim))}' in 'a group with rewards "):
        check_baseline(NoBaseline(), **claim)


# Losses that break a law


class Detached(Surrogate):
    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return (tokens.log_ratio.exp() * tokens.advantages).detach(), {}


class Leaking(Surrogate):
    """Uses the log-probability of tokens that were observed."""

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return (tokens.logprobs - tokens.logprobs.detach()).exp() * tokens.advantages, {}


class Half(Surrogate):
    """A weight that nobody follows: the gradient is not that of the value."""

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return tokens.log_ratio.detach().exp() * tokens.log_ratio * tokens.advantages, {}


class Undeclared(Surrogate):
    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return tokens.log_ratio.exp() * tokens.advantages, {"high": tokens.log_ratio > 0}


class Together(Surrogate):
    """A mean over the whole micro-batch."""

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return tokens.advantages * (tokens.log_ratio + tokens.log_ratio.exp().sum().log()).exp().sqrt(), {}


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (Detached, "on policy"),
        (Leaking, "observed tokens"),
        (Half, "finite differences"),
        (Undeclared, "marks"),
    ],
)
def test_a_wrong_loss_is_named_with_its_law(make: type[Surrogate], law: str) -> None:
    with pytest.raises(LawError) as found:
        check_loss(make)
    assert str(found.value).startswith(f"{make.__name__} breaks {law!r} in 'ratios ")


def test_a_detached_factor_may_be_claimed() -> None:
    check_loss(Half, stops_gradient=True)


def test_a_loss_of_the_whole_batch_is_refused() -> None:
    with pytest.raises(LawError, match=r"^Together breaks '"):
        check_loss(Together)


# Verifiers that break a law


class Fitting(Verifier):
    """Correct where the answer occurs."""

    def reference(self, fields: Mapping[str, Any], answer: str) -> Any:
        return str(fields[answer])

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return correct() if problem.answer in text.split() else incorrect()

    def right(self, problem: Problem) -> str | None:
        return str(problem.answer)


class Thoughtless(Fitting):
    """Reads the reasoning too."""

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return self.verify_answer(problem, text.replace("<think>", " "), finished)


class Content(Fitting):
    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return correct()


class Empty(Fitting):
    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return correct() if problem.answer in (text.split() or [problem.answer]) else incorrect()


class Silent(Fitting):
    """Swallows its own errors."""

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        try:
            return super().verify_answer(problem, text, finished)
        except Exception:  # noqa: BLE001
            return incorrect()


class Honest(Fitting):
    """Says that it has failed."""

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        try:
            return super().verify_answer(problem, text, finished)
        except Exception as error:  # noqa: BLE001
            return Verdict(Outcome.ERROR, float("nan"), detail=str(error))


class Pair(Fitting):
    def reference(self, fields: Mapping[str, Any], answer: str) -> Any:
        return (str(fields[answer]),)


class Fickle(Fitting):
    _calls: int = PrivateAttr(0)

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        self._calls += 1
        return Verdict(super().verify_answer(problem, text, finished).outcome, float(self._calls))


class Boxed(Fitting):
    def right(self, problem: Problem) -> str | None:
        return f"\\boxed{{{problem.answer}}}"


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (Thoughtless, "unclosed reasoning"),
        (Content, "wrong responses"),
        (Empty, "empty response"),
        (Silent, "errors"),
        (Pair, "reference"),
        (Fickle, "determinism"),
        (Boxed, "own right response"),
    ],
)
def test_a_wrong_verifier_is_named_with_its_law(make: Callable[[], Verifier], law: str) -> None:
    rows = [({"answer": "12"}, ["It is 12 ."], ["It is 13 ."])]
    marks = {"<think>": "</think>"}
    with pytest.raises(LawError) as found:
        check_verifier(make(thinking=marks), rows)
    assert str(found.value).startswith(f"{make.__name__} breaks {law!r} in 'row 1': ")


def test_a_verifier_may_say_that_it_has_failed() -> None:
    check_verifier(Honest(), [({"answer": "12"}, ["It is 12 ."], ["It is 13 ."])])


# Mistakes of the caller


def test_a_component_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="Clumsy is not a Baseline"):
        check_baseline(Clumsy)
    with pytest.raises(TypeError, match="Unscorable is not a Shaper or RewardShaper"):
        check_shaper(Unscorable())
    with pytest.raises(ValueError, match="at least one row"):
        check_verifier(Honest(), [])
