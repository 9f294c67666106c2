"""Countdown: solvable by construction, verified by replay, held out by a hash."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.record import Outcome, Problem
from outrider.tasks.countdown import Countdown, _legal, is_heldout, write_solution
from outrider.tasks.hops import Hops
from outrider.tasks.word_problems import WordProblems

TASK = Countdown()
PROBLEM = Problem("countdown:6,8,9,11>22", "11 6 8 9>22:", {"numbers": [11, 6, 8, 9], "target": 22})


@pytest.mark.parametrize("index", range(0, 400, 7))
def test_gold_solutions_are_correct_and_fit_the_ranges(index: int) -> None:
    problem = TASK.train(index)
    assert TASK.verify(problem, problem.metadata["solution"], finished=True).success
    assert all(1 <= n <= 12 for n in problem.answer["numbers"])
    assert 1 <= problem.answer["target"] <= 60
    assert len(problem.answer["numbers"]) == int(problem.level)
    assert problem.prompt == f"{' '.join(map(str, problem.answer['numbers']))}>{problem.answer['target']}:"


def test_training_never_shows_a_heldout_problem() -> None:
    """By construction, and seen: RL's stream, the stream of supervised training, and another seed."""
    heldout = {p.id for p in TASK.heldout(600)}
    assert len(heldout) == 600
    assert all(map(is_heldout, heldout))
    for seed in (0, 1, 5):
        task = Countdown(seed=seed)
        shown = {task.train(i).id for i in range(3000)}
        assert not shown & heldout
        assert not any(map(is_heldout, shown))


def test_the_split_does_not_see_the_order_of_the_numbers() -> None:
    """The id is made of the sorted numbers, and the split of the id."""
    problem = TASK.heldout(1)[0]
    numbers = problem.answer["numbers"]
    assert problem.id == f"countdown:{','.join(map(str, sorted(numbers)))}>{problem.answer['target']}"


def test_about_one_key_in_sixteen_is_held_out() -> None:
    keys = [f"countdown:{a},{b},{c}>{t}" for a, b, c, t in itertools.product(range(1, 13), repeat=4)]
    assert sum(map(is_heldout, keys)) / len(keys) == pytest.approx(1 / 16, abs=0.005)


def test_streams_repeat_and_seeds_differ() -> None:
    assert [TASK.train(i).id for i in range(20)] == [Countdown().train(i).id for i in range(20)]
    assert [TASK.train(i).id for i in range(20)] != [Countdown(seed=1).train(i).id for i in range(20)]
    assert [p.id for p in TASK.heldout(40)] == [p.id for p in Countdown(seed=9).heldout(80)][:40]
    assert [p.level for p in TASK.heldout(8)] == ["3", "4", "5", "6"] * 2


@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        ("11-6=5,8 9 5;5+9=14,8 14;8+14=22", Outcome.CORRECT, ""),
        ("11-6=5;5+9=14;8+14=22", Outcome.CORRECT, ""),  # the written state is not verified
        ("11-6=5,1 1 1;5+9=14,7;8+14=22", Outcome.CORRECT, ""),
        ("8+14=22", Outcome.INCORRECT, "step 1: 14 is not at hand"),
        ("11-6=4,8 9 4;4+9=13,8 13;8+13=21", Outcome.INCORRECT, "step 1: wrong arithmetic"),
        ("11-6=5,8 9 5;5+9=14,8 14", Outcome.INCORRECT, "1 numbers unused"),
        ("11+11=22", Outcome.INCORRECT, "step 1: 11 is not at hand"),  # one 11, used twice
        ("11-6=5;5+9=14;8+14=22;22-0=22", Outcome.INCORRECT, "step 4: 0 is not at hand"),
        ("11+6=17,8 9 17;17+8=25,9 25;25-9=16", Outcome.INCORRECT, "not the target"),
        ("11/6=1,8 9 1;1+9=10,8 10;8+10=18", Outcome.INCORRECT, "step 1: wrong arithmetic"),
        ("", Outcome.UNPARSEABLE, "step 1 is not a calculation"),
        ("11-6=5;", Outcome.UNPARSEABLE, "step 2 is not a calculation"),
        ("15:8*15", Outcome.UNPARSEABLE, "step 1 is not a calculation"),
        ("11 - 6 = 5", Outcome.UNPARSEABLE, "step 1 is not a calculation"),
        ("99999-6=5", Outcome.UNPARSEABLE, "step 1 is not a calculation"),
    ],
)
def test_verdicts(text: str, outcome: Outcome, detail: str) -> None:
    verdict = TASK.verify(PROBLEM, text, finished=True)
    assert (verdict.outcome, verdict.detail) == (outcome, detail)


def test_a_gold_answer_that_was_truncated_is_no_success() -> None:
    verdict = TASK.verify(PROBLEM, "11-6=5,8 9 5;5+9=14,8 14;8+14=22", finished=False)
    assert (verdict.outcome, verdict.detail) == (Outcome.INCORRECT, "truncated")


def test_division_by_zero_is_wrong_arithmetic() -> None:
    problem = Problem("p", "", {"numbers": [3, 3, 5], "target": 5})
    assert not TASK.verify(problem, "3-3=0,5 0;5/0=5", finished=True).success


@given(st.text(alphabet="0123456789+-*/=,;: \n\ud800é", max_size=60))
def test_no_text_raises(text: str) -> None:
    assert not TASK.verify(PROBLEM, text, finished=False).success


@given(st.integers(0, 10_000))
def test_an_independent_evaluator_agrees_with_the_gold_solution(index: int) -> None:
    """Replays a solution with a list instead of the verifier's multiset, and Python's own arithmetic."""
    problem = TASK.train(index)
    left = list(problem.answer["numbers"])
    for step in problem.metadata["solution"].split(";"):
        calculation, _, remainder = step.partition(",")
        expression, value = calculation.split("=")
        a, b = (
            int(x) for x in expression.replace("*", " ").replace("/", " ").replace("+", " ").replace("-", " ").split()
        )
        left.remove(a)
        left.remove(b)
        operator = next(o for o in "+-*/" if o in expression)
        assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator] == int(value)
        left.append(int(value))
        assert remainder == ("" if len(left) == 1 else " ".join(map(str, left)))
    assert left == [problem.answer["target"]]


def test_random_numbers_hardly_ever_solve_a_problem() -> None:
    """A guess does not pay: legal random play hits the target of a six-number problem less than once in a hundred."""
    rng = random.Random(0)
    hits = 0
    for index in range(300):
        problem = Countdown(sizes=(6,)).train(index)
        left, steps = list(problem.answer["numbers"]), []
        while len(left) > 1:
            a, b = (left.pop(rng.randrange(len(left))) for _ in range(2))
            steps.append((a, "+", b, a + b) if rng.random() < 0.5 or a <= b else (a, "-", b, a - b))
            left.append(steps[-1][3])
        text = write_solution(problem.answer["numbers"], steps)
        hits += TASK.verify(problem, text, finished=True).success
    assert hits < 15


@pytest.mark.parametrize("options", [{"sizes": []}, {"sizes": [1]}, {"cap": 5}, {"highest": 1}, {"seed": -1}])
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Countdown(**options)


def test_a_tiny_range_gives_fewer_heldout_problems_and_does_not_hang() -> None:
    few = Countdown(sizes=(2,), highest=2, cap=4).heldout(50)
    assert len({p.id for p in few}) == len(few) < 50


@pytest.mark.parametrize("kind", [Countdown, Hops, WordProblems])
def test_a_pool_returns_whole_in_every_epoch_in_another_order(kind):
    task = kind(pool=40)
    epochs = [[task.train(i).id for i in range(40 * e, 40 * (e + 1))] for e in range(3)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert sorted(epochs[0]) == sorted(kind().train(i).id for i in range(40))
    assert len({*map(tuple, epochs)}) == 3
    assert task.fingerprint != kind().fingerprint


def test_legal_operators_are_those_with_an_allowed_result() -> None:
    """Against every operator applied: results in 1..cap, exact division, nothing multiplied or divided by 1."""
    cap = 30
    for a, b in itertools.product(range(1, cap + 1), repeat=2):
        results = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if a % b == 0 else 0}
        legal = [o for o, value in results.items() if 1 <= value <= cap and not (o in "*/" and 1 in (a, b))]
        assert _legal(a, b, cap) == "".join(legal)
