"""A Python interpreter between the turns of a rollout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from outrider.environments.apart import WorldsApart
from outrider.environments.environment import Environment, Reply
from outrider.environments.worlds import WorldLimits
from outrider.errors import UserError
from outrider.tasks import PythonTool
from outrider.verify.sandbox_choice import find_way
from test_worlds import heard

DATA = Path(__file__).parents[1].parent / "shared" / "data"


def sandboxed() -> bool:
    try:
        return bool(find_way())
    except UserError:
        return False


pytestmark = pytest.mark.skipif(not sandboxed(), reason="this machine allows no sandbox")


@pytest.fixture
def task(tmp_path: Path) -> PythonTool:
    for name in ("train", "held"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"problem": f"2+{len(name)}?", "answer": "42"}) + "\n")
    files = {"train_data": str(tmp_path / "train.jsonl"), "heldout_data": str(tmp_path / "held.jsonl")}
    return PythonTool.model_validate({"problems": files, "calls": 3, "longest": 60, "cpu_seconds": 2})


def begun(task: PythonTool) -> Environment:
    world = task.environment()
    world.begin(task.train(0), 0)
    return world


def block(code: str) -> str:
    return f"I compute.\n```python\n{code}\n```\n"


def shown(text: str) -> str:
    return f"```output\n{text}\n```\n"


def test_names_stay_and_earlier_output_does_not_come_again(task: PythonTool) -> None:
    world = begun(task)
    assert world.step(block("x = 40\nprint('forty')")) == Reply(shown("forty"))
    assert world.step(block("def f(y):\n    return x + y")) == Reply(shown(""))
    assert world.step(block("print(f(2))")) == Reply(shown("42"))
    assert world.step(block("print(1)")) == Reply(shown("No call is left."), error=True)
    right = world.step("So it is \\boxed{42}.")
    assert right.done
    assert right.verdict is not None
    assert right.verdict.success


def test_a_block_that_fails_says_why_and_leaves_nothing(task: PythonTool) -> None:
    world = begun(task)
    assert world.step(block("y = 1\nprint('so far')\n1/0")) == Reply(
        shown("so far\nZeroDivisionError: division by zero"), error=True
    )
    assert world.step(block("print(y)")) == Reply(shown("NameError: name 'y' is not defined"), error=True)
    assert world.step(block("print('")).observation.startswith("```output\nSyntaxError: ")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True: pass", "it used up its time"),
        ("print('a' * 100)", "a" * 60 + "… (41 more)"),
        ("import os\nos._exit(3)", "status 3"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "Error"),
        ("open('/etc/passwd')", "Error"),
        ("import numpy", "ModuleNotFoundError"),
    ],
)
def test_what_a_block_may_not(task: PythonTool, code: str, said: str) -> None:
    world = begun(task)
    assert said in world.step(block(code)).observation
    assert world.step(block("print(7)")) == Reply(shown("7"))


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("\\boxed{42}", "correct"),
        ("\\boxed{41}", "incorrect"),
        ("```python\nprint(41 + 1)\n```", "incorrect"),  # it has ended itself behind the block
        ("```text\nnone\n```\n", "unparseable"),
    ],
)
def test_a_turn_without_a_block_is_judged_alone(task: PythonTool, text: str, outcome: str) -> None:
    reply = begun(task).step(text)
    assert reply.done
    assert reply.verdict is not None
    assert reply.verdict.outcome == outcome


def test_interpreters_run_in_processes_of_their_own(task: PythonTool) -> None:
    worlds = WorldsApart(task.makes(), WorldLimits(seconds=60.0))
    for k in range(2):
        worlds.begin((0, k), task.train(0), 0)
    heard(worlds, 2)
    for k in range(2):
        worlds.act((0, k), block(f"print({k} + 40)"))
    assert heard(worlds, 2) == {(0, k): Reply(shown(str(k + 40))) for k in range(2)}
    worlds.close([(0, 0), (0, 1)])


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data sets are not here")
def test_the_gold_programs_of_gsm8k_give_their_answers(task: PythonTool) -> None:
    """The calculations that its solutions are annotated with, as blocks; the last one is the answer."""
    lines = (DATA / "gsm8k" / "test.jsonl").read_text().splitlines()[:40]
    solved = 0
    for row in map(json.loads, lines):
        sums = [expression for expression, _ in re.findall(r"<<([-+*/().\d ]+)=([-\d.]+)>>", row["solution"])]
        if not sums:
            continue
        world = begun(task)
        reply = world.step(block("\n".join(f"x = {expression.lstrip('0') or 0}" for expression in sums) + "\nprint(x)"))
        value = reply.observation.split("\n")[1]
        solved += abs(float(value) - float(row["answer"])) < 1e-6
    assert solved >= 34, solved
