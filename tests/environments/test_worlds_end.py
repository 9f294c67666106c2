"""What worlds in processes of their own leave behind, what they wait for at their end, and what a system refuses."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from test_worlds import LIMITS, PROBLEM, heard

from child_processes import wait_until
from outrider.environments.apart import WorldsApart
from outrider.environments.environment import Reply
from outrider.environments.worlds import WorldLimits, WorldsHere
from outrider.errors import UserError
from outrider.record import Problem
from outrider.tasks.trl import Trl
from outrider.validate.worlds import compare_worlds
from outrider.verify.processes import NoMoreProcessesError, TemplateProcess
from world_zoo import FewProcesses, Zoo


def test_others_go_on_while_a_world_closes_what_it_holds() -> None:
    worlds = WorldsApart(Zoo, WorldLimits(seconds=20.0))
    worlds.begin((0, 0), Problem("p", "", "slow"), 0)
    worlds.begin((0, 1), PROBLEM, 0)
    heard(worlds, 2)
    begun = time.monotonic()
    worlds.close([(0, 0)])
    worlds.act((0, 1), "a")
    assert heard(worlds, 1) == {(0, 1): Reply("1:a")}
    assert time.monotonic() - begun < 1.4
    worlds.close([(0, 1)])
    assert time.monotonic() - begun > 1.4, "the last waits for those that still close"
    assert not worlds._closing
    worlds.end()


def test_one_that_never_closes_is_killed_at_its_deadline_while_others_go_on() -> None:
    worlds = WorldsApart(Zoo, WorldLimits(seconds=1.0))
    worlds.begin((0, 0), Problem("p", "", "hang"), 0)
    worlds.begin((0, 1), PROBLEM, 0)
    heard(worlds, 2)
    [closing] = [worlds._worlds[0, 0].pid]
    worlds.close([(0, 0)])
    deadline = time.monotonic() + 20.0
    while Path(f"/proc/{closing}").exists() and time.monotonic() < deadline:
        worlds.act((0, 1), "a")
        heard(worlds, 1)
    assert not Path(f"/proc/{closing}").exists()
    worlds.end()


def test_the_end_of_worlds_is_the_end_of_all_their_processes() -> None:
    worlds = WorldsApart(Zoo, LIMITS)
    for _ in range(2):
        worlds.begin((0, 0), PROBLEM, 5)
        worlds.begin((0, 1), PROBLEM, 5)
        assert heard(worlds, 2) == {(0, 0): Reply("3>5"), (0, 1): Reply("3>5")}
        assert worlds._template is not None
        pids = [worlds._template.process.pid, *(world.pid for world in worlds._worlds.values())]
        worlds.act((0, 1), "hang")
        worlds.end()
        worlds.end()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))  # noqa: B023 - called at once
        assert list(worlds.answers()) == []
    here = WorldsHere(Zoo, LIMITS)
    here.begin((0, 0), PROBLEM, 5)
    here.end()
    assert list(here.answers()) == []


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> list[TemplateProcess]:
    """Those that were started."""
    started: list[TemplateProcess] = []
    begin = TemplateProcess.__init__

    def noted(self: TemplateProcess, *args: object) -> None:
        started.append(self)
        begin(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(TemplateProcess, "__init__", noted)
    return started


TRL_CLASS = """
class Echo:
    def reset(self, **row):
        return " go"

    def get_reward(self):
        return 1.0

    def say(self, word: str) -> str:
        '''Say a word.

        Args:
            word: what to say.
        '''
        return word
"""


def trl(folder: Path) -> Trl:
    (folder / "echo.py").write_text(TRL_CLASS)
    for side, prompts in {"train": "abc", "held": "de"}.items():
        (folder / f"{side}.jsonl").write_text("".join(f'{{"prompt": "{prompt}"}}\n' for prompt in prompts))
    return Trl(
        environment_factory=f"{folder}/echo.py:Echo",
        train_data=f"{folder}/train.jsonl",
        heldout_data=f"{folder}/held.jsonl",
    )


def test_no_process_is_left_of_a_comparison_of_worlds(tmp_path: Path, templates: list[TemplateProcess]) -> None:
    task = trl(tmp_path)
    problems = task.heldout(2)
    task.close()
    templates.clear()
    assert compare_worlds(task, problems).played == 2
    assert [template.dead for template in templates] == [True]


def test_no_process_is_left_of_openings_once_all_are_known(tmp_path: Path, templates: list[TemplateProcess]) -> None:
    task = trl(tmp_path)
    assert len(task.heldout(2)) == 2
    assert [template.dead for template in templates] == [False]
    prompts = {task.train(index).prompt for index in range(3)}
    assert prompts == {"a go", "b go", "c go"}
    assert [template.dead for template in templates] == [True]
    other = trl(tmp_path)
    other.train(0)
    other.close()
    assert [template.dead for template in templates] == [True, True]
    other.heldout(1)
    other.close()
    assert len(templates) == 3


def test_more_worlds_than_files_are_a_sentence() -> None:
    """In a process with few, whatever is refused first: a channel, or the handle that goes to another process."""
    source = """
        import os, resource
        from outrider.environments.apart import WorldsApart
        from outrider.environments.worlds import WorldLimits
        from outrider.errors import UserError
        from outrider.record import Problem
        from world_zoo import Zoo
        for spare in range(4):
            worlds = WorldsApart(Zoo, WorldLimits(seconds=30.0))
            worlds.begin((9, 9), Problem("p", ""), 0)
            assert len(list(worlds.answers())) == 1
            used = max(map(int, os.listdir("/dev/fd")))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8 + spare, 4096))
            try:
                for k in range(100):
                    worlds.begin((0, k), Problem("p", ""), 0)
            except UserError as error:
                print(error)
            resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
            worlds.act((9, 9), "a")
            print(*{answer.observation for answer in dict([*worlds.answers()]).values()} - {"0"})
            worlds.end()
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[1],
    )
    assert (done.returncode, done.stderr) == (0, "")
    sentences = [line for line in done.stdout.splitlines() if line.startswith("the system")]
    assert len(sentences) == 4
    for sentence in sentences:
        assert sentence.startswith("the system starts no further process (Too many open files; open files: ulimit -n")
        assert "lower limits.worlds" in sentence


def test_a_process_that_is_refused_is_a_sentence_and_the_others_go_on() -> None:
    worlds = WorldsApart(FewProcesses(2), WorldLimits(seconds=20.0))
    worlds.begin((0, 0), PROBLEM, 5)
    worlds.begin((0, 1), PROBLEM, 5)
    heard(worlds, 2)
    with pytest.raises(UserError, match=r"no further process \(Resource temporarily unavailable; .*limits.worlds"):
        worlds.begin((0, 2), PROBLEM, 5)
    worlds.act((0, 1), "a")
    assert heard(worlds, 1) == {(0, 1): Reply("1:a")}
    worlds.end()


def test_worlds_that_still_close_make_room_for_others() -> None:
    worlds = WorldsApart(Zoo, WorldLimits(seconds=20.0))
    worlds.begin((0, 0), Problem("p", "", "slow"), 0)
    worlds.begin((0, 1), PROBLEM, 0)
    heard(worlds, 2)
    worlds.close([(0, 0)])
    assert worlds._closing
    with pytest.MonkeyPatch.context() as patch:
        fork, refused = TemplateProcess.fork, iter([True])

        def short(self: TemplateProcess, channel: object) -> int:
            if next(refused, False):
                raise NoMoreProcessesError("Too many open files")
            return fork(self, channel)  # type: ignore[arg-type]

        patch.setattr(TemplateProcess, "fork", short)
        worlds.begin((0, 2), PROBLEM, 0)
    assert not worlds._closing
    assert heard(worlds, 1) == {(0, 2): Reply("3>0")}
    worlds.end()
