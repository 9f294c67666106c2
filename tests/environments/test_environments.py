"""Environments in this process and in processes of their own: what they answer, and what a bad one costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from child_processes import wait_until
from environment_zoo import Unbegun, Zoo
from outrider.environments.apart import ProcessEnvironments
from outrider.environments.environment import Reply
from outrider.environments.environments import EnvironmentLimits, Environments, Failed, Key, LocalEnvironments
from outrider.errors import UserError
from outrider.record import Outcome, Problem, correct

PROBLEM = Problem("p", "3>")
LIMITS = EnvironmentLimits(seconds=30.0, most_bytes=100)


@pytest.fixture(scope="module")
def apart() -> Iterator[ProcessEnvironments]:
    """One for all: nothing may stay of a bad environment."""
    environments = ProcessEnvironments(Zoo, LIMITS, memory_gb=1.0)
    yield environments
    assert not environments._environments


@pytest.fixture(params=["here", "apart"])
def environments(request: pytest.FixtureRequest) -> Environments:
    return LocalEnvironments(Zoo, LIMITS) if request.param == "here" else request.getfixturevalue("apart")


def heard(environments: Environments, count: int) -> dict[Key, Reply | Failed]:
    found: dict[Key, Reply | Failed] = {}
    while len(found) < count:
        answers = dict(environments.answers())
        assert answers, "nobody was asked"
        found |= answers
    return found


def ask(environments: Environments, *texts: str, problem: Problem = PROBLEM) -> list[Reply | Failed]:
    """The answers of one environment, its beginning's too; it is ended."""
    key = (0, 0)
    environments.begin(key, problem, 5)
    found = [heard(environments, 1)[key]]
    for text in texts:
        environments.act(key, text)
        found.append(heard(environments, 1)[key])
    environments.close([key])
    return found


def test_an_environment_remembers_its_turns(environments: Environments) -> None:
    assert ask(environments, "a", "b") == [Reply("3>5"), Reply("1:a"), Reply("2:b")]
    assert ask(environments, "a") == [Reply("3>5"), Reply("1:a")], "the next is another"


def test_many_are_asked_at_once_and_nobody_waits_for_another(environments: Environments) -> None:
    keys = [(i, k) for i in range(4) for k in range(3)]
    for key in keys:
        environments.begin(key, PROBLEM, key[0])
    assert heard(environments, 12) == {key: Reply(f"3>{key[0]}") for key in keys}
    for key in keys[::2]:
        environments.act(key, str(key))
    assert heard(environments, 6) == {key: Reply(f"1:{key}") for key in keys[::2]}
    assert list(environments.answers()) == []
    environments.close(keys)
    environments.close(keys)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise", "OSError: the disk is gone"),
        ("exit", "SystemExit: 3"),
        ("number", "TypeError: its observation is int, not a string"),
        ("nothing", "TypeError: its observation is NoneType, not a string"),
        ("right", "TypeError: its verdict is bool, not a Verdict"),
        ("flood", "an observation of 20,000,000 bytes, more than 1,048,576"),
    ],
)
def test_what_it_raises_is_its_failure(environments: Environments, text: str, why: str) -> None:
    assert ask(environments, "a", text)[2] == Failed(why)
    assert ask(environments, "a")[1] == Reply("1:a")


def test_observations_are_as_long_as_they_may_be_and_can_be_written(environments: Environments) -> None:
    _, long, short, odd, done = ask(environments, "long", "short", "surrogate", "done")
    assert long == Reply("ä" * 50, cut=True)
    assert short == Reply("short", cut=True)
    assert odd == Reply("a?b", error=True)
    assert done == Reply("excluded", done=True, verdict=correct("7", "a?b"))


def test_a_success_without_a_score_is_an_error(environments: Environments) -> None:
    _, reply = ask(environments, "doubtful")
    assert isinstance(reply, Reply)
    assert reply.verdict is not None
    assert (reply.verdict.outcome, reply.verdict.success) == (Outcome.ERROR, False)
    assert reply.verdict.detail == "its verdict is correct with the score nan: by half"


def test_an_environment_that_ends_well_may_close_what_it_holds(environments: Environments, tmp_path: Path) -> None:
    file = tmp_path / "closed"
    ask(environments, "a", "b", problem=Problem("p", "", str(file)))
    assert file.read_text() == "closed after 2"


def test_environments_that_do_not_close_are_waited_for_once() -> None:
    environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=2.0))
    keys = [(0, k) for k in range(4)]
    for key in keys:
        environments.begin(key, Problem("p", "", "hang"), 0)
    heard(environments, 4)
    begun = time.monotonic()
    environments.close(keys)
    assert 2.0 <= time.monotonic() - begun < 6.0


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("die", Failed("its process died")),
        ("kill", Failed("its process died")),
        ("grow", Failed("MemoryError: ")),
    ],
)
def test_a_process_that_dies_costs_its_own_environment(apart: ProcessEnvironments, text: str, failed: Failed) -> None:
    apart.begin((1, 1), PROBLEM, 0)
    heard(apart, 1)
    assert ask(apart, "a", text)[2] == failed
    apart.act((1, 1), "on")
    assert heard(apart, 1) == {(1, 1): Reply("1:on")}
    apart.close([(1, 1)])


def test_what_an_environment_forks_answers_for_nobody_and_ends_with_it(apart: ProcessEnvironments) -> None:
    assert ask(apart, "fork", "a") == [Reply("3>5"), Reply("1:fork"), Reply("2:a")]
    apart.begin((2, 2), PROBLEM, 0)
    heard(apart, 1)
    group = apart._environments[2, 2].pid
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


def test_what_an_environment_prints_goes_nowhere(apart: ProcessEnvironments, capfd: pytest.CaptureFixture[str]) -> None:
    assert ask(apart, "print")[1] == Reply("1:print")
    assert capfd.readouterr() == ("", "")


def test_one_that_hangs_is_killed_and_the_others_go_on_meanwhile() -> None:
    environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=2.0))
    for key in ((0, 0), (0, 1)):
        environments.begin(key, PROBLEM, 0)
    heard(environments, 2)
    environments.act((0, 0), "hang")
    begun = time.monotonic()
    turns = 0
    while time.monotonic() - begun < 1.0:
        environments.act((0, 1), "a")
        turns += len(heard(environments, 1))
    assert turns > 10
    assert heard(environments, 1) == {(0, 0): Failed("no answer in 2 s", hung=True)}
    environments.close([(0, 1)])


def test_an_environment_that_cannot_begin_fails() -> None:
    for environments in (LocalEnvironments(Unbegun, LIMITS), ProcessEnvironments(Unbegun, LIMITS)):
        environments.begin((0, 0), PROBLEM, 0)
        assert heard(environments, 1) == {(0, 0): Failed("ValueError: no environment for p")}


def test_when_the_process_that_starts_them_dies_their_rollouts_fail_and_others_begin() -> None:
    environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=5.0))
    environments.begin((0, 0), PROBLEM, 0)
    heard(environments, 1)
    assert environments._template is not None
    environments._template.process.kill()
    environments._template.process.wait()
    environments.begin((0, 1), PROBLEM, 0)
    assert heard(environments, 1) == {(0, 1): Reply("3>0")}
    environments.act((0, 0), "a")
    [answer] = heard(environments, 1).values()
    assert answer in (Reply("1:a"), Failed("its process died")), "it ends within a second of the other"
    environments.close([(0, 0), (0, 1)])


def test_a_class_of_the_main_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Zoo, "__module__", "__main__")
    with pytest.raises(
        UserError,
        match=r"the environment .*Zoo.* is defined in the main script, .*: move it to a module",
    ):
        ProcessEnvironments(Zoo, LIMITS)
