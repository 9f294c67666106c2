"""Between a run and a process of ``verifiers``, without the package: nobody waits to be heard, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from child_processes import wait_until
from outrider.environments.environment import Reply
from outrider.environments.environments import EnvironmentLimits, Failed, Key
from outrider.environments.verifiers_environments import VerifiersEnvironments
from outrider.environments.verifiers_process import MARK, Channel
from outrider.record import Problem

STUB = Path(__file__).parents[1].joinpath("verifiers_stub.py")
Made = Callable[..., VerifiersEnvironments]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    python = tmp_path / "python"
    paths = os.pathsep.join(sys.path)
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{paths}' exec '{sys.executable}' '{STUB}' \"$2\"\n")
    python.chmod(0o755)
    environments: list[VerifiersEnvironments] = []

    def make(does: str = "", seconds: float = 30.0) -> VerifiersEnvironments:
        config = {"does": does, "taskset": {"id": "stub"}}
        environments.append(
            VerifiersEnvironments(str(python), config, EnvironmentLimits(seconds), memory_gb=2.0, success_at=1.0)
        )
        return environments[-1]

    yield make
    for one in environments:
        one.end()


def problem(task: Any = 1) -> Problem:
    return Problem("stub", "?" * task if isinstance(task, int) else "?", task, messages_before=())


def begin(environments: VerifiersEnvironments, keys: list[Key], task: Any = 1) -> None:
    for key in keys:
        environments.begin(key, problem(task), 0)


def gather(environments: VerifiersEnvironments, count: int) -> dict[Key, Reply | Failed]:
    found: dict[Key, Reply | Failed] = {}
    while len(found) < count:
        answers = dict(environments.answers())
        assert answers, "nobody was asked"
        found |= answers
    return found


@pytest.mark.parametrize("size", [1, 5000])
def test_all_may_be_asked_before_anything_is_read(made: Made, size: int) -> None:
    """More than both directions of a socket hold, of which the longer answers are some 32 MB."""
    environments, keys = made(), [(i, k) for i in range(100) for k in range(64)]
    begin(environments, keys, size)
    assert gather(environments, len(keys)) == dict.fromkeys(keys, Reply())


def test_a_process_that_reads_nothing_costs_the_time_of_a_turn_and_is_ended(made: Made) -> None:
    environments, keys = made("reads nothing", seconds=1.0), [(i, 0) for i in range(20_000)]
    begun = time.monotonic()
    begin(environments, keys)
    found = gather(environments, len(keys))
    assert all(isinstance(answer, Failed) and answer.hung for answer in found.values())
    assert time.monotonic() - begun < 20.0
    assert environments._process is None


def test_the_answers_that_are_there_come_together(made: Made) -> None:
    environments, keys = made(), [(0, k) for k in range(32)]
    begin(environments, keys)
    assert environments._process is not None
    wait_until(lambda: environments._process._heard.qsize() == 32)  # type: ignore[union-attr]
    assert dict(environments.answers()) == dict.fromkeys(keys, Reply())
    for key in keys:
        environments.act(key, str(key[1]))
    wait_until(lambda: environments._process._heard.qsize() == 32)  # type: ignore[union-attr]
    done = dict(environments.answers())
    assert {key: answer.verdict.detail for key, answer in done.items()} == {key: str(key[1]) for key in keys}  # type: ignore[union-attr]


def test_an_episode_is_late_although_others_go_on(made: Made) -> None:
    environments = made(seconds=1.0)
    begin(environments, [(0, 0)], "silent")
    found: dict[Key, Reply | Failed] = {}
    until = time.monotonic() + 20.0
    turn = 0
    while (0, 0) not in found and time.monotonic() < until:
        turn += 1
        begin(environments, [(1, turn)])
        found |= dict(environments.answers())
        environments.close([(1, turn)])
    assert found[0, 0] == Failed("no answer in 1 s", hung=True)
    assert environments._process is not None


def test_an_episode_that_ends_while_its_turn_is_drawn_says_so_at_its_turn(made: Made) -> None:
    environments = made()
    begin(environments, [(0, 0)], "fails")
    wait_until(lambda: environments._process._heard.qsize() == 2)  # type: ignore[union-attr]
    assert dict(environments.answers()) == {(0, 0): Failed("it is gone")}, "it is known before anything is drawn"
    assert environments.first_request(1) is not None
    begin(environments, [(0, 1)])
    assert dict(environments.answers()) == {(0, 1): Reply()}
    environments._process._heard.put({"key": environments._episodes[0, 1].name, "failed": "it is gone"})  # type: ignore[union-attr]
    begin(environments, [(0, 2)])
    assert dict(environments.answers()) == {(0, 2): Reply()}
    environments.act((0, 1), "on")
    assert dict(environments.answers()) == {(0, 1): Failed("it is gone")}


def test_problems_may_be_asked_for_while_episodes_are_played(made: Made) -> None:
    environments, keys = made(), [(0, k) for k in range(8)]
    begin(environments, keys)
    assert not isinstance(environments.first_request(1), Failed)
    assert gather(environments, 8) == dict.fromkeys(keys, Reply())


def test_episodes_of_a_process_that_died_fail_also_where_another_has_begun(made: Made) -> None:
    environments = made("dies")
    begin(environments, [(0, 0), (0, 1), (0, 2)])
    gather(environments, 3)
    environments.act((0, 0), "die")
    assert dict(environments.answers()) == {(0, 0): Failed("its process died")}
    begin(environments, [(1, 0)])
    environments.act((0, 1), "on")
    begun = time.monotonic()
    assert gather(environments, 2) == {(0, 1): Failed("its process died"), (1, 0): Reply()}
    assert time.monotonic() - begun < 20.0
    environments.close([(0, 2), (1, 0)])


def marked() -> list[int]:
    found = []
    for shown in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}=".encode() in shown.read_bytes() and "(" in (shown.parent / "stat").read_text():
                found.append(int(shown.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment variables of processes")
@pytest.mark.parametrize("killed", [False, True])
def test_servers_end_with_their_process_however_it_ends(made: Made, killed: bool) -> None:
    others = set(marked())
    environments = made("servers", seconds=0.5)
    begin(environments, [(0, 0)])
    wait_until(lambda: len(set(marked()) - others) == 3)
    if killed:
        assert environments._process is not None
        environments._process._process.kill()
    [answer] = gather(environments, 1).values()
    assert isinstance(answer, Failed)
    wait_until(lambda: not set(marked()) - others)


def test_a_channel_that_is_closed_leaves_no_thread_and_no_file() -> None:
    threads = threading.active_count()
    ours, theirs = socket.socketpair()
    heard: SimpleQueue[Any] = SimpleQueue()
    channel = Channel(ours, heard.put)
    for _ in range(100):
        channel.send({"text": "?" * 100_000})
    channel.close()
    channel.send({})
    assert heard.get(timeout=10.0) is None
    assert threading.active_count() == threads
    assert ours.fileno() == -1
    theirs.close()


def test_the_loop_of_the_process_is_never_held_up_by_what_it_says() -> None:
    """The side of the process, with nobody who reads."""
    ours, theirs = socket.socketpair()

    async def says() -> float:
        channel = Channel(ours, lambda _: None)
        begun = time.monotonic()
        for _ in range(1000):
            channel.send({"text": "?" * 10_000})
            await asyncio.sleep(0)
        took = time.monotonic() - begun
        await asyncio.to_thread(channel.close)
        return took

    assert asyncio.run(asyncio.wait_for(says(), 60.0)) < 30.0
    theirs.close()
