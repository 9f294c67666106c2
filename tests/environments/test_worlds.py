"""Worlds in this process and in processes of their own: what they answer, and what a bad one costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from child_processes import wait_until
from outrider.environments.apart import WorldsApart
from outrider.environments.environment import Reply
from outrider.environments.worlds import Failed, Key, WorldLimits, Worlds, WorldsHere
from outrider.errors import UserError
from outrider.record import Outcome, Problem, correct
from world_zoo import Unbegun, Zoo

PROBLEM = Problem("p", "3>")
LIMITS = WorldLimits(seconds=30.0, most_bytes=100)


@pytest.fixture(scope="module")
def apart() -> Iterator[WorldsApart]:
    """One for all: nothing may stay of a bad world."""
    worlds = WorldsApart(Zoo, LIMITS, memory_gb=1.0)
    yield worlds
    assert not worlds._worlds


@pytest.fixture(params=["here", "apart"])
def worlds(request: pytest.FixtureRequest) -> Worlds:
    return WorldsHere(Zoo, LIMITS) if request.param == "here" else request.getfixturevalue("apart")


def heard(worlds: Worlds, count: int) -> dict[Key, Reply | Failed]:
    found: dict[Key, Reply | Failed] = {}
    while len(found) < count:
        answers = dict(worlds.answers())
        assert answers, "nobody was asked"
        found |= answers
    return found


def ask(worlds: Worlds, *texts: str, problem: Problem = PROBLEM) -> list[Reply | Failed]:
    """The answers of one world, its beginning's too; it is ended."""
    key = (0, 0)
    worlds.begin(key, problem, 5)
    found = [heard(worlds, 1)[key]]
    for text in texts:
        worlds.act(key, text)
        found.append(heard(worlds, 1)[key])
    worlds.close([key])
    return found


def test_a_world_remembers_its_turns(worlds: Worlds) -> None:
    assert ask(worlds, "a", "b") == [Reply("3>5"), Reply("1:a"), Reply("2:b")]
    assert ask(worlds, "a") == [Reply("3>5"), Reply("1:a")], "the next is another"


def test_many_are_asked_at_once_and_nobody_waits_for_another(worlds: Worlds) -> None:
    keys = [(i, k) for i in range(4) for k in range(3)]
    for key in keys:
        worlds.begin(key, PROBLEM, key[0])
    assert heard(worlds, 12) == {key: Reply(f"3>{key[0]}") for key in keys}
    for key in keys[::2]:
        worlds.act(key, str(key))
    assert heard(worlds, 6) == {key: Reply(f"1:{key}") for key in keys[::2]}
    assert list(worlds.answers()) == []
    worlds.close(keys)
    worlds.close(keys)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise", "OSError: the disk is gone"),
        ("exit", "SystemExit: 3"),
        ("number", "TypeError: it said int, not a text"),
        ("nothing", "TypeError: it said NoneType, not a text"),
        ("right", "TypeError: its verdict is bool, not a Verdict"),
        ("flood", "an observation of 20,000,000 bytes, more than 1,048,576"),
    ],
)
def test_what_it_raises_is_its_failure(worlds: Worlds, text: str, why: str) -> None:
    assert ask(worlds, "a", text)[2] == Failed(why)
    assert ask(worlds, "a")[1] == Reply("1:a")


def test_observations_are_as_long_as_they_may_be_and_can_be_written(worlds: Worlds) -> None:
    _, long, short, odd, done = ask(worlds, "long", "short", "surrogate", "done")
    assert long == Reply("ä" * 50, cut=True)
    assert short == Reply("short", cut=True)
    assert odd == Reply("a?b", error=True)
    assert done == Reply("left out", done=True, verdict=correct("7", "a?b"))


def test_a_success_without_a_score_is_an_error(worlds: Worlds) -> None:
    _, reply = ask(worlds, "doubtful")
    assert isinstance(reply, Reply)
    assert reply.verdict is not None
    assert (reply.verdict.outcome, reply.verdict.success) == (Outcome.ERROR, False)
    assert reply.verdict.detail == "its verdict is correct with the score nan: by half"


def test_a_world_that_ends_well_may_close_what_it_holds(worlds: Worlds, tmp_path: Path) -> None:
    file = tmp_path / "closed"
    ask(worlds, "a", "b", problem=Problem("p", "", str(file)))
    assert file.read_text() == "closed after 2"


def test_worlds_that_do_not_close_are_waited_for_once() -> None:
    worlds = WorldsApart(Zoo, WorldLimits(seconds=2.0))
    keys = [(0, k) for k in range(4)]
    for key in keys:
        worlds.begin(key, Problem("p", "", "hang"), 0)
    heard(worlds, 4)
    begun = time.monotonic()
    worlds.close(keys)
    assert 2.0 <= time.monotonic() - begun < 6.0


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("die", Failed("its process died")),
        ("kill", Failed("its process died")),
        ("grow", Failed("MemoryError: ")),
    ],
)
def test_a_process_that_dies_costs_its_own_world(apart: WorldsApart, text: str, failed: Failed) -> None:
    apart.begin((1, 1), PROBLEM, 0)
    heard(apart, 1)
    assert ask(apart, "a", text)[2] == failed
    apart.act((1, 1), "on")
    assert heard(apart, 1) == {(1, 1): Reply("1:on")}
    apart.close([(1, 1)])


def test_what_a_world_forks_answers_for_nobody_and_ends_with_it(apart: WorldsApart) -> None:
    assert ask(apart, "fork", "a") == [Reply("3>5"), Reply("1:fork"), Reply("2:a")]
    apart.begin((2, 2), PROBLEM, 0)
    heard(apart, 1)
    group = apart._worlds[2, 2].pid
    apart.act((2, 2), "child")
    heard(apart, 1)
    assert len(of_group(group)) == 2
    apart.close([(2, 2)])
    wait_until(lambda: not of_group(group))


def of_group(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_what_a_world_prints_goes_nowhere(apart: WorldsApart, capfd: pytest.CaptureFixture[str]) -> None:
    assert ask(apart, "print")[1] == Reply("1:print")
    assert capfd.readouterr() == ("", "")


def test_one_that_hangs_is_killed_and_the_others_go_on_meanwhile() -> None:
    worlds = WorldsApart(Zoo, WorldLimits(seconds=2.0))
    for key in ((0, 0), (0, 1)):
        worlds.begin(key, PROBLEM, 0)
    heard(worlds, 2)
    worlds.act((0, 0), "hang")
    begun = time.monotonic()
    turns = 0
    while time.monotonic() - begun < 1.0:
        worlds.act((0, 1), "a")
        turns += len(heard(worlds, 1))
    assert turns > 10
    assert heard(worlds, 1) == {(0, 0): Failed("no answer in 2 s", hung=True)}
    worlds.close([(0, 1)])


def test_an_environment_that_cannot_begin_fails() -> None:
    for worlds in (WorldsHere(Unbegun, LIMITS), WorldsApart(Unbegun, LIMITS)):
        worlds.begin((0, 0), PROBLEM, 0)
        assert heard(worlds, 1) == {(0, 0): Failed("ValueError: no world for p")}


def test_when_the_process_that_starts_them_dies_their_rollouts_fail_and_others_begin() -> None:
    worlds = WorldsApart(Zoo, WorldLimits(seconds=5.0))
    worlds.begin((0, 0), PROBLEM, 0)
    heard(worlds, 1)
    assert worlds._template is not None
    worlds._template.process.kill()
    worlds._template.process.wait()
    worlds.begin((0, 1), PROBLEM, 0)
    assert heard(worlds, 1) == {(0, 1): Reply("3>0")}
    worlds.act((0, 0), "a")
    [answer] = heard(worlds, 1).values()
    assert answer in (Reply("1:a"), Failed("its process died")), "it ends within a second of the other"
    worlds.close([(0, 0), (0, 1)])


def test_a_class_of_the_main_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Zoo, "__module__", "__main__")
    with pytest.raises(UserError, match=r"move the environment .*Zoo.* to a module"):
        WorldsApart(Zoo, LIMITS)
