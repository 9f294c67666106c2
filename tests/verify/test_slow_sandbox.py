"""Why a program is late: what it does to itself is its failure, and a busy machine is not, however either looks."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import ECHO, SUMS, fenced, needs_sandbox, verdict

from outrider.record import Outcome, Verdict
from outrider.verify import slow_sandbox
from outrider.verify.slow_sandbox import TICK, Watch

OUTER, GUEST, PROGRAM = 10, 11, 12
SECONDS = 10


class Machine:
    """A /proc of processes that a test writes, on a machine with two processors, and its clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.now = folder, 100.0
        monkeypatch.setattr(slow_sandbox, "PROC", folder)
        monkeypatch.setattr(slow_sandbox, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(slow_sandbox, "_uptime", lambda: self.now)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    def show(self, *processes: dict[str, float | str]) -> None:
        """Nothing but a sandbox's two own processes, which wait, and these."""
        for old in self.folder.iterdir():
            subprocess.run(["rm", "-r", str(old)], check=True)
        given = [{"pid": OUTER, "parent": 0, "state": "S"}, {"pid": GUEST, "parent": OUTER, "state": "S"}, *processes]
        for one in given:
            self._write(one, [other["pid"] for other in given if other["parent"] == one["pid"]])

    def _write(self, one: dict[str, float | str], children: list[float | str]) -> None:
        fields = ["0"] * 50
        fields[0], fields[16] = str(one["state"]), str(one.get("nice", 0))
        fields[11] = str(round(float(one.get("cpu", 0)) * TICK))
        fields[19] = str(round(float(one.get("born", 90.0)) * TICK))
        line = f"{one['pid']} (a ) S (b) {' '.join(fields)}\n"
        task = self.folder / str(one["pid"]) / "task" / str(one["pid"])
        task.mkdir(parents=True)
        (task.parents[1] / "stat").write_text(line)
        (task / "stat").write_text(line)
        (task / "children").write_text(" ".join(map(str, children)))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def program(state: str, **more: float) -> dict[str, float | str]:
    return {"pid": PROGRAM, "parent": GUEST, "state": state, **more}


def child(state: str, pid: int = 13, parent: int = PROGRAM, **more: float) -> dict[str, float | str]:
    return {"pid": pid, "parent": parent, "state": state, **more}


Looks = Callable[[int], list[dict[str, float | str]]]  # the program's processes at each second

HONEST: dict[str, Looks] = {
    "waits for a core": lambda t: [program("R", cpu=0.1 * t)],
    "waits for memory": lambda t: [program("D")],
    "is not begun yet": lambda t: [program("R", born=100.5)],
    "waits for a child that waits for a core": lambda t: [program("S"), child("R")],
    "two workers": lambda t: [program("S"), child("R"), child("D", pid=14)],
    "a quick child now and then": lambda t: [program("R"), child("R", pid=20 + t, born=99.9 + t)],
    "waits by turns with its tester": lambda t: [program("S" if t % 2 else "R"), child("R" if t % 2 else "S")],
    "has used half of its time": lambda t: [program("R", cpu=0.5 * t)],
}
TO_BLAME: dict[str, Looks] = {
    "sleeps": lambda t: [program("S")],
    "is stopped": lambda t: [program("T")],
    "is slow": lambda t: [program("R", cpu=0.9 * t)],
    "waits in vfork for a child that sleeps": lambda t: [program("D"), child("S")],
    "waits in vfork for one that does the same": lambda t: [program("D"), child("D"), child("S", pid=14, parent=13)],
    "fifteen that want to run": lambda t: [program("R"), *(child("R", pid=20 + k) for k in range(14))],
    "each child begets the next and ends": lambda t: [program("S"), child("R", pid=20 + t, born=99.9 + t)],
    "makes way for all others": lambda t: [program("R", nice=19)],
    "children that nobody waits for": lambda t: [program("R"), child("R", pid=20 + t, born=99.9 + t, cpu=0.9)],
}


def told(machine: Machine, looks: Looks, cpu_seconds: float = 10) -> str:
    machine.show()
    watch = Watch(OUTER, cpu_seconds)
    watch.asked()
    for second in range(1, SECONDS + 1):
        machine.now += 1.0
        machine.show(*looks(second))
        watch.look(2.0)
    return watch.own


@pytest.mark.parametrize("name", HONEST)
def test_what_the_machine_keeps_waiting_is_not_to_blame(machine: Machine, name: str) -> None:
    assert told(machine, HONEST[name]) == ""


@pytest.mark.parametrize("name", TO_BLAME)
def test_what_waits_for_itself_is_to_blame(machine: Machine, name: str) -> None:
    assert told(machine, TO_BLAME[name])


def test_more_cpu_time_than_a_program_and_its_tests_may_use_is_its_own(machine: Machine) -> None:
    """In all its processes together: each is within its limit."""

    def looks(second: int) -> list[dict[str, float | str]]:
        return [program("R", cpu=0.25 * second), child("R", cpu=0.25 * second)]

    assert told(machine, looks, cpu_seconds=1)
    assert not told(machine, looks, cpu_seconds=2)


def test_the_time_of_the_input_before_is_not_this_ones(machine: Machine) -> None:
    machine.show(program("R", cpu=5))
    watch = Watch(OUTER, 1)
    watch.asked()
    machine.now += 10.0
    assert watch.own == ""


def test_looks_come_at_times_that_differ() -> None:
    watch = Watch(os.getpid(), 1)
    pauses = [watch.next_look(1.0) for _ in range(100)]
    assert 0.5 <= min(pauses) < 0.7 < 1.3 < max(pauses) <= 1.5


FIFO = """
import os, sys
os.mkfifo("fifo")
os.posix_spawn(sys.executable, ["x"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "fifo", os.O_RDONLY, 0)])
"""
VFORK = """
import ctypes, os, time
if ctypes.CDLL(None).syscall(56 if os.uname().machine == "x86_64" else 220, 0x4000 | 17, 0, 0, 0, 0) == 0:
    time.sleep(1000)
"""
FIFTEEN = """
import os
for _ in range(12):
    if os.fork() == 0: break
while True: pass
"""
HEIR = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.9: pass
    print(sum(map(int, input().split())), flush=True)
    os._exit(0)
os.wait()
"""


def verified(code: str, seconds: float, **options: object) -> Verdict:
    return verdict(ECHO.model_copy(update={"seconds": seconds, "cpu_seconds": 20, **options}), SUMS, fenced(code))


@contextmanager
def one_busy_core(others: int) -> Iterator[None]:
    """What begins meanwhile shares a core with so many that never wait."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) for _ in range(others)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()


@needs_sandbox
@pytest.mark.parametrize("code", [FIFO, VFORK], ids=["posix_spawn", "clone"])
@pytest.mark.parametrize("isolation", ["required", "none"])
def test_waiting_in_vfork_is_no_busy_machine(code: str, isolation: str) -> None:
    for seconds in (4, 16, 64):  # on a machine that is in truth busy, starting alone takes its part of a short time
        found = verified(code, seconds, sandbox=isolation)
        if found.outcome is not Outcome.TIMEOUT:
            break
    assert (found.outcome, found.score) == (Outcome.INCORRECT, 0), found.detail


@needs_sandbox
def test_many_children_on_a_busy_machine_are_the_programs_own_doing() -> None:
    with one_busy_core(4):
        for seconds in (4, 16, 64):
            found = verified(FIFTEEN, seconds)
            if found.outcome is not Outcome.TIMEOUT:
                break
    assert (found.outcome, found.score) == (Outcome.INCORRECT, 0), found.detail
    assert found.detail.startswith("not done after")


@needs_sandbox
def test_an_honest_child_on_a_busy_machine_says_nothing_of_its_program() -> None:
    with one_busy_core(6):
        found = verified(HEIR, 2.5)
    assert found.outcome is Outcome.TIMEOUT, found.detail
    assert math.isnan(found.score)


@needs_sandbox
def test_subprocess_works_without_vfork() -> None:
    code = "import subprocess, sys\ninput()\nprint(subprocess.run([sys.executable, '-c', 'print(3)']).returncode + 3)"
    row = {"tests": [{"input": "1\n", "output": "3 3"}]}
    assert verdict(ECHO, row, fenced(code)).success
