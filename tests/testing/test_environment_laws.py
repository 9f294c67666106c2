"""``outrider.testing.check_environment``: good environments pass, and each mistake is named by its law."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import environment_mistakes as mistakes
from environment_zoo import Zoo
from outrider.environments.environment import Environment, Reply
from outrider.errors import UserError
from outrider.record import Problem
from outrider.tasks import Hops, PythonTool, Search
from outrider.tasks.environment import MakeEnvironment
from outrider.tasks.turn_task import TurnTask
from outrider.testing import LawError, check_environment
from outrider.verify.sandbox_choice import find_way
from outrider.verify.short_answer import Exact

Examples = list[tuple[Problem, list[str]]]


@pytest.fixture
def examples() -> Examples:
    """New ones for each test: one environment changes its problem."""
    return [(Problem("p", "3>", ["a", "b"]), ["1", "2", "3"]), (Problem("q", "4>", ["c", "d"]), ["4"] * 5)]


def files(folder: Path, **row: Any) -> dict[str, str]:
    """The table of a task: one problem on each side."""
    for name in ("train", "heldout"):
        (folder / f"{name}.jsonl").write_text(json.dumps({"problem": f"2+{len(name)}?", "answer": "42"} | row) + "\n")
    return {f"{name}_data": str(folder / f"{name}.jsonl") for name in ("train", "heldout")}


def check(task: TurnTask, *turns: Sequence[str]) -> None:
    check_environment(task.makes(), [(task.train(0), each) for each in turns], seconds=60.0)


# Environments that keep the laws


def test_a_good_environment_passes(examples: Examples) -> None:
    check_environment(mistakes.Counts, examples)
    check_environment(Zoo, [(Problem("p", "3>"), ["a", "short", "done"])])


def test_questions_of_several_hops_keep_the_laws() -> None:
    task = Hops()
    check_environment(task.makes(), [(problem, task.demonstration(problem)) for problem in task.heldout(3)])


def test_the_environment_of_the_example_keeps_the_laws() -> None:
    make = MakeEnvironment(str(Path(__file__).parents[2] / "examples" / "directory.py") + ":Directory", Exact())
    check_environment(make, [(Problem("p", "", "M K.b:L L.c:M"), ["K.b;", "L;", "L.c;", "=M;"])])


def test_an_interpreter_keeps_the_laws(tmp_path: Path) -> None:
    try:
        find_way()
    except UserError:
        pytest.skip("this machine allows no sandbox")
    task = PythonTool.model_validate({"problems": files(tmp_path), "cpu_seconds": 2})
    check(task, ["```python\nx = 6\nprint(x)\n```\n", "```python\nprint(7 * x)\n```\n", "42"])


def test_a_search_keeps_the_laws(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"title": t, "text": f"The {t} is a number."}) + "\n" for t in ("one", "two")))
    task = Search.model_validate({"corpus": [str(corpus)], "problems": files(tmp_path)})
    check(task, ["<search>two</search>", "<answer>42</answer>"], ["</search>", "<search>one</search>", "two"])


# Environments that break a law


@pytest.mark.parametrize(
    ("make", "law", "found"),
    [
        (mistakes.SaysNumbers, "replies", "the reply to '1' has the observation 7, which is no text"),
        (mistakes.SaysNothing, "replies", "the reply to '1' is NoneType, not a Reply"),
        (mistakes.Contradicts, "replies", "has the verdict correct with the score nan, which contradicts itself"),
        (mistakes.VerifiesEarly, "replies", "has a verdict, but is not done"),
        (mistakes.Raises, "replies", "it raised KeyError: '1'"),
        (mistakes.UsesUp, "problem unchanged", "the problem's answer after a play is ['a'], expected ['a', 'b']"),
        (mistakes.Draws, "replay", "a second play: the reply to turn 1 ['observation'] is "),
        (mistakes.Hashes, "replay", "a second play: the reply to turn 1 ['observation'] is "),
        (
            mistakes.Shares,
            "state apart",
            "beside other environments: the reply to turn 2 ['observation'] is '1,1,4,4,2'",
        ),
        (mistakes.ClosesAll, "state apart", "beside other environments: the reply to turn 1 ['observation'] is 'clos"),
        (mistakes.WantsNumbers, "odd turns", "it failed: ValueError: invalid literal for int() with base 10: ''"),
        (mistakes.Waits, "odd turns", "it failed: no answer in 2 s"),
        (mistakes.Echoes, "odd turns", "it failed: an observation of 10,000,000 bytes, more than 1,048,576"),
        (mistakes.ClosesLate, "close", "it raised AttributeError: "),
    ],
)
def test_a_wrong_environment_is_named_with_its_law(
    make: type[Environment], law: str, found: str, examples: Examples
) -> None:
    with pytest.raises(LawError) as error:
        check_environment(make, examples, seconds=2.0)
    assert str(error.value).startswith(f"{make.__name__} breaks {law!r} in 'example 1")
    assert found in str(error.value)


def test_an_odd_turn_is_named(examples: Examples) -> None:
    with pytest.raises(LawError, match="in 'example 1, a long turn': it failed: an observation"):
        check_environment(mistakes.Echoes, examples)


def test_a_class_that_no_process_can_import_breaks_a_law(examples: Examples) -> None:
    class Local(mistakes.Counts):
        pass

    with pytest.raises(LawError, match=r"^Local breaks 'process': it raised .*Local"):
        check_environment(Local, examples)


# Mistakes of the caller


def test_a_call_without_turns_or_of_another_kind_is_refused(examples: Examples) -> None:
    with pytest.raises(TypeError, match="Reply is not an Environment"):
        check_environment(Reply, examples)  # type: ignore[arg-type]
    for none in ([], [(Problem("p", ""), [])]):
        with pytest.raises(ValueError, match="at least one example"):
            check_environment(mistakes.Counts, none)
