"""A Python interpreter between the turns of a rollout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_environments import heard

from outrider.environments.apart import ProcessEnvironments
from outrider.environments.environment import Environment, Reply
from outrider.environments.environments import EnvironmentLimits, LocalEnvironments
from outrider.errors import UserError
from outrider.tasks import PythonTool
from outrider.tasks.turn_task import TurnLimits
from outrider.validate.environments import compare_environments
from outrider.verify.sandbox_choice import find_way

DATA = Path(__file__).parents[2].parent / "shared" / "data"


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
    environment = task.make_environment()
    environment.begin(task.train(0), 0)
    return environment


def block(code: str) -> str:
    return f"I compute.\n```python\n{code}\n```\n"


def shown(text: str) -> str:
    return f"```output\n{text}\n```\n"


def test_names_stay_and_earlier_output_does_not_come_again(task: PythonTool) -> None:
    environment = begun(task)
    assert environment.step(block("x = 40\nprint('forty')")) == Reply(shown("forty"))
    assert environment.step(block("def f(y):\n    return x + y")) == Reply(shown(""))
    assert environment.step(block("print(f(2))")) == Reply(shown("42"))
    assert environment.step(block("print(1)")) == Reply(shown("No call is left."), error=True)
    right = environment.step("So it is \\boxed{42}.")
    assert right.done
    assert right.verdict is not None
    assert right.verdict.success


def test_a_block_in_reasoning_that_is_not_closed_is_not_executed(task: PythonTool) -> None:
    environment = begun(task)
    refused = Reply(shown("Nothing was executed: the reasoning block is not closed."), error=True)
    assert environment.step("<think>" + block("print(41)")) == refused
    assert environment.step(block("print(41)")) == refused, "the block goes on in the next turn"
    assert environment.step("so</think>" + block("print(42)")) == Reply(shown("42"))
    assert environment.step("<think>so</think>" + block("print('<think>')")) == Reply(shown("<think>"))
    unclosed = environment.step("<think>It is \\boxed{42}.").verdict
    assert unclosed is not None
    assert unclosed.detail == "reasoning block not closed"


def test_a_block_that_fails_says_why_and_leaves_nothing(task: PythonTool) -> None:
    environment = begun(task)
    assert environment.step(block("y = 1\nprint('so far')\n1/0")) == Reply(
        shown("so far\nZeroDivisionError: division by zero"), error=True
    )
    assert environment.step(block("print(y)")) == Reply(shown("NameError: name 'y' is not defined"), error=True)
    assert environment.step(block("print('")).observation.startswith("```output\nSyntaxError: ")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True: pass", "it used up its time"),
        ("import os\nos._exit(3)", "status 3"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "Error"),
        ("open('/etc/passwd')", "Error"),
        ("import numpy", "ModuleNotFoundError"),
        ("input()", "EOFError: EOF when reading a line"),
    ],
)
def test_what_a_block_may_not(task: PythonTool, code: str, said: str) -> None:
    environment = begun(task)
    reply = environment.step(block(code))
    assert said in reply.observation
    assert reply.error
    assert environment.step(block("print(7)")) == Reply(shown("7"))


def test_a_long_output_is_cut_which_is_said(task: PythonTool) -> None:
    reply = begun(task).step(block("print('a' * 100)"))
    assert reply == Reply(shown("a" * 60 + "… (41 more)"), cut=True)


def test_a_block_that_sleeps_is_told_so_in_time(task: PythonTool) -> None:
    """Its rollout would be unscorable if its environment were late: a policy could choose not to be verified."""
    quick = task.model_copy(update={"limits": TurnLimits(seconds=8.0)})
    environments = ProcessEnvironments(quick.makes(), EnvironmentLimits(seconds=8.0))
    environments.begin((0, 0), task.train(0), 0)
    heard(environments, 1)
    environments.act((0, 0), block("import time\ntime.sleep(1000)"))
    [reply] = heard(environments, 1).values()
    assert isinstance(reply, Reply)
    assert "The program was ended: not done after 4 s" in reply.observation
    assert reply.error
    environments.close([(0, 0)])


def test_a_block_may_use_up_its_time_before_its_turn_is_over(task: PythonTool) -> None:
    with pytest.raises(ValueError, match=r"limits\.seconds: at least 8, four times cpu_seconds"):
        PythonTool.model_validate({**task.model_dump(), "limits": {"seconds": 7.0}})


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("\\boxed{42}", "correct"),
        ("\\boxed{41}", "incorrect"),
        ("```python\nprint(41 + 1)\n``` \nSo it is \\boxed{42}.", "correct"),  # it goes on behind the block
        ("```python\nprint(41 + 1)", "incorrect"),  # not closed, and ended by the policy
        ("```text\nnone\n```", "unparseable"),
    ],
)
def test_a_turn_without_a_block_is_verified_alone(task: PythonTool, text: str, outcome: str) -> None:
    reply = begun(task).step(text)
    assert reply.done
    assert reply.verdict is not None
    assert reply.verdict.outcome == outcome


@pytest.mark.parametrize(
    ("end", "before"),
    [
        ("\n```\n\n", ""),  # the token that ended the turn held more than the stop text
        ("\n```\n so", "\n"),
        ("\n```\n```python\nprint(1)", "\n"),
        ("\n```", "\n"),  # an end token, as chat models write; a fence has to begin a line
        ("\n```  ", "\n"),
        ("\n  ```", "\n"),
        ("\r\n```\r\n", ""),
    ],
)
def test_a_block_is_executed_however_its_turn_ends(task: PythonTool, end: str, before: str) -> None:
    """The policy ended the turn behind the block in three cases: they were verified as answers, against the page."""
    assert begun(task).step(f"So\n```python\nprint(41 + 1){end}") == Reply(before + shown("42"))


@pytest.mark.parametrize(
    "text",
    ["Code:\n```\n", "```text\n42\n```\n", "````python\nprint(1)\n```\n", "x = 1\n```\n\n", "```c\nx\n```\n so"],
)
def test_a_fence_that_closes_no_python_ends_a_turn_and_no_rollout(task: PythonTool, text: str) -> None:
    """The stop text has ended the turn, and not the policy."""
    environment = begun(task)
    reply = environment.step(text)
    assert (reply.done, reply.error) == (False, True)
    assert "Nothing was executed" in reply.observation
    assert [environment.step(block("print(1)")).error for _ in range(4)] == [False, False, False, True], (
        "it used no call up"
    )


@pytest.mark.parametrize("way", ["raise SystemExit", "exit()", "import sys; sys.exit(0)", "import os; os._exit(0)"])
def test_a_block_that_exits_ends_no_later_one(task: PythonTool, way: str) -> None:
    environment = begun(task)
    environment.step(block(f"x = 1\nprint(x)\n{way}\nx = 2"))
    reply = environment.step(block("print(7)\ny = 8"))
    assert reply == Reply(shown("7"))
    assert environment.step(block("print(y)")) == Reply(shown("8"))


def test_an_exit_with_a_status_is_an_error_and_one_without_leaves_its_names(task: PythonTool) -> None:
    environment = begun(task)
    assert environment.step(block("x = 1\nexit()")) == Reply(shown(""))
    assert environment.step(block("x = 2\nexit('no way')")) == Reply(shown("no way"), error=True)
    assert environment.step(block("print(x)")) == Reply(shown("1"))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("import random\nx = random.random()\nprint(x)", "print(x)", None),
        ("x = sorted('abc', key=hash)\nprint(x)", "print(x)", None),
        ("import os\nos.write(1, b'a')\nos.write(2, b'a')", "print(2)", "2"),
        ("import os\nos.system('echo a')", "print(2)", "2"),
        ("print('a', end='')", "print(2)", "2"),
        ("import atexit\natexit.register(print, 'a')", "print(2)", "2"),
        ("import tempfile, os\nd = tempfile.TemporaryDirectory()", "print(os.path.isdir(d.name))", "True"),
        (
            "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)\nlist(p.map(abs, [1]))",
            "print(*p.map(abs, [-2]))",
            "2",
        ),
        ("import multiprocessing as m\nc = m.get_context('fork')", "c.Process(target=print, args=(2,)).start()", "2"),
        ("import threading\nt = threading.Timer(0.2, print, 'a')\nt.start()", "print(2)", "2"),
        ("import sys\nout = sys.stdout", "out.write('2')", "2"),  # the same stream, heard again
        ("x = 2", "from __future__ import annotations\nprint(x)", "2"),
        ("from __future__ import annotations\nx = 2", "print(x)", "2"),
        ("x = 2", "print(*(name for name in globals() if name[0] != '_'))", "x"),
    ],
)
def test_what_a_block_prints_follows_from_the_blocks(task: PythonTool, first: str, second: str, said: str) -> None:
    long = task.model_copy(update={"longest": 500})
    environment = begun(long)
    before = environment.step(block(first))
    after = [environment.step(block(second)) for _ in range(2)]  # the second time it has been run before
    assert after == 2 * [before if said is None else Reply(shown(said))]
    assert begun(long).step(block(first)) == before


@pytest.mark.parametrize(("letter", "most"), [("字", 300), ("a", 300), ("字", 100), ("é", 101)])
def test_an_output_keeps_its_fences_within_the_limit_of_bytes(task: PythonTool, letter: str, most: int) -> None:
    """Of the observation; whoever asks would cut what is longer at its end."""
    short = task.model_copy(update={"longest": 5000, "limits": TurnLimits(seconds=60, bytes=most)})
    [reply] = said_apart(short, block(f"print('{letter}' * 1000)"))
    assert reply.cut
    assert reply.observation.startswith(f"```output\n{letter}")
    assert reply.observation.endswith(" more)\n```\n")
    assert most - 8 <= len(reply.observation.encode()) <= most
    shown_, left = re.findall(rf"^({letter}+)… \((\S+) more", reply.observation, re.MULTILINE)[0]
    assert len(shown_) + int(left.replace(",", "")) == 1001, "with the line's end"


def test_a_limit_of_bytes_without_room_for_marks_is_refused(task: PythonTool) -> None:
    with pytest.raises(ValueError, match=r"limits\.bytes: at least 100, for the fences"):
        PythonTool.model_validate({**task.model_dump(), "limits": {"seconds": 8.0, "bytes": 99}})


def test_exit_handlers_of_a_block_are_heard_with_it(task: PythonTool) -> None:
    environment = begun(task)
    for name in "ab":
        code = f"import atexit\natexit.register(print, 'left {name}')\nprint('{name}')"
        assert environment.step(block(code)) == Reply(shown(f"{name}\nleft {name}"))


def said_apart(task: PythonTool, *turns: str) -> list[Reply]:
    environments = LocalEnvironments(task.makes(), EnvironmentLimits(seconds=60.0, most_bytes=task.limits.bytes))
    environments.begin((0, 0), task.train(0), 0)
    heard(environments, 1)
    found = []
    for turn in turns:
        environments.act((0, 0), turn)
        [reply] = heard(environments, 1).values()
        assert isinstance(reply, Reply)
        found.append(reply)
    environments.close([(0, 0)])
    return found


def test_validate_has_blocks_executed(task: PythonTool) -> None:
    compared = compare_environments(task, task.heldout(1))
    assert compared == (1, [], [], 2), "both blocks, and the answer ends it"
    replies = said_apart(task, *task.example_turns(task.heldout(1)[0]))
    assert [reply.observation for reply in replies[:2]] == [shown("42"), shown("43")]


def test_interpreters_run_in_processes_of_their_own(task: PythonTool) -> None:
    environments = ProcessEnvironments(task.makes(), EnvironmentLimits(seconds=60.0))
    for k in range(2):
        environments.begin((0, k), task.train(0), 0)
    heard(environments, 2)
    for k in range(2):
        environments.act((0, k), block(f"print({k} + 40)"))
    assert heard(environments, 2) == {(0, k): Reply(shown(str(k + 40))) for k in range(2)}
    environments.close([(0, 0), (0, 1)])


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data sets are not here")
def test_the_gold_programs_of_gsm8k_give_their_answers(task: PythonTool) -> None:
    """The calculations that its solutions are annotated with, a program each: they print what the annotations say."""
    rows = [json.loads(line) for line in (DATA / "gsm8k" / "test.jsonl").read_text().splitlines()]
    found = [re.findall(r"<<([-+*/().\d ]+)=([-\d.]+)>>", row["solution"]) for row in rows]
    programs = [(sums, float(row["answer"])) for sums, row in zip(found, rows, strict=True) if sums]
    long = task.model_copy(update={"longest": 100_000})
    as_annotated, solved = 0, 0
    for begin in range(0, len(programs), 200):  # one block for many, since each starts a sandbox
        part = programs[begin : begin + 200]
        lines = [f"print({re.sub(r'(?<![.0-9])0+(?=[0-9])', '', sum_)})" for sums, _ in part for sum_, _ in sums]
        printed = map(float, begun(long).step(block("\n".join(lines))).observation.split("\n")[1:-2])
        for sums, answer in part:
            values = [next(printed) for _ in sums]
            as_annotated += sum(abs(value - float(gold)) < 0.01 for value, (_, gold) in zip(values, sums, strict=True))
            solved += abs(values[-1] - answer) < 0.01
        assert next(printed, None) is None
    assert len(programs) == 1301
    assert as_annotated >= 0.99 * sum(len(sums) for sums, _ in programs)  # others are rounded, or wrong
    assert solved >= 0.92 * len(programs)  # of the others the last step is not annotated
