"""What environments in processes leave behind, what they wait for at their end, and what a system refuses."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from test_environments import LIMITS, PROBLEM, heard

from child_processes import wait_until
from environment_zoo import FewProcesses, Zoo
from outrider.environments.apart import ProcessEnvironments
from outrider.environments.environment import Reply
from outrider.environments.environments import EnvironmentLimits, LocalEnvironments
from outrider.errors import UserError
from outrider.record import Problem
from outrider.tasks.trl import Trl
from outrider.validate.environments import compare_environments
from outrider.verify.processes import NoMoreProcessesError, TemplateProcess


def test_others_go_on_while_an_environment_closes_what_it_holds() -> None:
    environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=20.0))
    environments.begin((0, 0), Problem("p", "", "slow"), 0)
    environments.begin((0, 1), PROBLEM, 0)
    heard(environments, 2)
    begun = time.monotonic()
    environments.close([(0, 0)])
    environments.act((0, 1), "a")
    assert heard(environments, 1) == {(0, 1): Reply("1:a")}
    assert time.monotonic() - begun < 1.4
    environments.close([(0, 1)])
    assert time.monotonic() - begun > 1.4, "the last waits for those that still close"
    assert not environments._closing
    environments.end()


def test_one_that_never_closes_is_killed_at_its_deadline_while_others_go_on() -> None:
    environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=1.0))
    environments.begin((0, 0), Problem("p", "", "hang"), 0)
    environments.begin((0, 1), PROBLEM, 0)
    heard(environments, 2)
    [closing] = [environments._environments[0, 0].pid]
    environments.close([(0, 0)])
    deadline = time.monotonic() + 20.0
    while Path(f"/proc/{closing}").exists() and time.monotonic() < deadline:
        environments.act((0, 1), "a")
        heard(environments, 1)
    assert not Path(f"/proc/{closing}").exists()
    environments.end()


def test_the_end_of_environments_is_the_end_of_all_their_processes() -> None:
    environments = ProcessEnvironments(Zoo, LIMITS)
    for _ in range(2):
        environments.begin((0, 0), PROBLEM, 5)
        environments.begin((0, 1), PROBLEM, 5)
        assert heard(environments, 2) == {(0, 0): Reply("3>5"), (0, 1): Reply("3>5")}
        assert environments._template is not None
        pids = [
            environments._template.process.pid,
            *(environment.pid for environment in environments._environments.values()),
        ]
        environments.act((0, 1), "hang")
        environments.end()
        environments.end()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))  # noqa: B023 - called at once
        assert list(environments.answers()) == []
    here = LocalEnvironments(Zoo, LIMITS)
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


def test_no_process_is_left_of_a_comparison_of_environments(tmp_path: Path, templates: list[TemplateProcess]) -> None:
    task = trl(tmp_path)
    problems = task.heldout(2)
    task.close()
    templates.clear()
    assert compare_environments(task, problems).played == 2
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


def test_more_environments_than_files_are_a_sentence() -> None:
    """In a process with few, whatever is refused first: a channel, or the handle that goes to another process."""
    source = """
        import os, resource
        from outrider.environments.apart import ProcessEnvironments
        from outrider.environments.environments import EnvironmentLimits
        from outrider.errors import UserError
        from outrider.record import Problem
        from environment_zoo import Zoo
        for spare in range(4):
            environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=30.0))
            environments.begin((9, 9), Problem("p", ""), 0)
            assert len(list(environments.answers())) == 1
            used = max(map(int, os.listdir("/dev/fd")))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8 + spare, 4096))
            try:
                for k in range(100):
                    environments.begin((0, k), Problem("p", ""), 0)
            except UserError as error:
                print(error)
            resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
            environments.act((9, 9), "a")
            print(*{answer.observation for answer in dict([*environments.answers()]).values()} - {"0"})
            environments.end()
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
        assert "lower limits.max_concurrent" in sentence


def test_a_process_that_is_refused_is_a_sentence_and_the_others_go_on() -> None:
    environments = ProcessEnvironments(FewProcesses(2), EnvironmentLimits(seconds=20.0))
    environments.begin((0, 0), PROBLEM, 5)
    environments.begin((0, 1), PROBLEM, 5)
    heard(environments, 2)
    with pytest.raises(
        UserError, match=r"no further process \(Resource temporarily unavailable; .*limits.max_concurrent"
    ):
        environments.begin((0, 2), PROBLEM, 5)
    environments.act((0, 1), "a")
    assert heard(environments, 1) == {(0, 1): Reply("1:a")}
    environments.end()


def test_environments_that_still_close_make_room_for_others() -> None:
    environments = ProcessEnvironments(Zoo, EnvironmentLimits(seconds=20.0))
    environments.begin((0, 0), Problem("p", "", "slow"), 0)
    environments.begin((0, 1), PROBLEM, 0)
    heard(environments, 2)
    environments.close([(0, 0)])
    assert environments._closing
    with pytest.MonkeyPatch.context() as patch:
        fork, refused = TemplateProcess.fork, iter([True])

        def short(self: TemplateProcess, channel: object) -> int:
            if next(refused, False):
                raise NoMoreProcessesError("Too many open files")
            return fork(self, channel)  # type: ignore[arg-type]

        patch.setattr(TemplateProcess, "fork", short)
        environments.begin((0, 2), PROBLEM, 0)
    assert not environments._closing
    assert heard(environments, 1) == {(0, 2): Reply("3>0")}
    environments.end()
