"""Questions of several hops: what a demonstration is worth, careless or not."""

from __future__ import annotations

import pytest

from outrider.record import Problem
from outrider.tasks import Hops
from outrider.tasks.hops import is_heldout

TASK = Hops()
PROBLEMS = [TASK.train(i) for i in range(300)]


def judged(task: Hops, problem: Problem) -> tuple[int, bool]:
    """The turns of a demonstration, and whether it is right; only its last turn ends it."""
    world = task.environment()
    world.begin(problem, 0)
    turns = task.demonstration(problem)
    *replies, last = [world.step(turn) for turn in turns]
    assert not any(reply.done or reply.error for reply in replies)
    assert last.done
    assert last.verdict is not None
    return len(turns), last.verdict.success


def test_a_demonstration_is_right_and_as_short_as_the_limit_of_turns() -> None:
    """At the worst, of six hops five lead to another entity, four of which end one hop later: 15 calls."""
    for problem in [*PROBLEMS, *(Hops(astray=1).train(i) for i in range(300))]:
        turns, right = judged(TASK, problem)
        assert right
        assert int(problem.level) < turns <= TASK.most_turns


def test_a_demonstration_is_a_function_of_its_problem() -> None:
    careless = Hops(careless=0.4)
    for problem in PROBLEMS:
        assert careless.demonstration(problem) == Hops(careless=0.4, seed=3, hops=(1,)).demonstration(problem)
    assert careless.fingerprint == TASK.fingerprint, "its problems are the same"


@pytest.mark.parametrize("c", [0.2, 0.5, 0.9])
def test_as_much_is_right_as_the_chances_say(c: float) -> None:
    """Of one hop. With K and M read and the answer due, after a careful call or a careless one; and with K alone."""
    due = (1 - c + c / 4) / (1 - c / 2)  # careful; careless: M of K and M in half of the answers, or again
    known = ((1 - c) * due + c / 4) / (1 - c / 2)
    right = (1 - c) * due + c / 2 * known  # K as an answer is wrong
    problems = [Hops(hops=(1,)).train(i) for i in range(3000)]
    share = sum(judged(Hops(careless=c), problem)[1] for problem in problems) / len(problems)
    assert share == pytest.approx(right, abs=0.03)


def test_how_careless_is_bounded() -> None:
    with pytest.raises(ValueError, match="careless"):
        Hops(careless=1.0)


def test_training_never_shows_a_heldout_world() -> None:
    heldout = {p.id for p in TASK.heldout(300)}
    assert len(heldout) == 300
    assert all(map(is_heldout, heldout))
    assert not any(is_heldout(Hops(seed=seed).train(i).id) for seed in (0, 1) for i in range(500))
