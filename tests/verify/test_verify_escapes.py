"""What a program does to itself or to what verifies it scores zero; what the machine does to it says nothing of it."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import ECHO, MBPP, ROW, SUMS, fenced, needs_sandbox, verdict

from outrider.record import Outcome, Problem
from outrider.verify.memory import _own_counts, memory_failures
from outrider.verify.verifiers import VERIFIERS

pytestmark = needs_sandbox

CORPUS = Path(__file__).parents[1] / "corpus" / "programs"

# What a program does to itself, or to what verifies it: it fails, whatever it does. Those of the second table wait.
KILL = "import os\nos.kill(os.getpid(), 9)"
ESCAPES = {
    "kills itself": (KILL, "ended with status -9"),
    "kills itself when called": (f"def add(a, b):\n    {KILL.replace(chr(10), '; ')}", "ended with status -9"),
    "lowers its limit and is killed": (
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
        "loading the program: ",
    ),
    "is killed by a child's end": (
        "import ctypes, time\nif ctypes.CDLL(None).syscall(56, 9, 0, 0, 0, 0) == 0:\n    import os; os._exit(0)\n"
        "time.sleep(1)",
        "loading the program: ",
    ),
    "is traced by its tester": (
        "import ctypes, os\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos.kill(os.getpid(), 5)",
        "loading the program: ended with status -5",
    ),
    "limits its tester": (
        "import ctypes, os\nlibc, none = ctypes.CDLL(None), (ctypes.c_uint64 * 2)(0, 0)\n"
        "for which in range(16):\n    libc.syscall(302, os.getppid(), which, none, None)\nprint(3)",
        "test 1 of 2: NameError",
    ),
    "slows its tester": (
        "import os\nos.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
        "loading the program: PermissionError",
    ),
    "colliding hashes": (
        "class Slow(dict):\n    def items(self): return [(i * (2 ** 61 - 1), 0) for i in range(1, 10 ** 5)]\n"
        "def add(a, b): return Slow()",
        "the returned value used up 1 s of CPU time of the tests",
    ),
    "a value without an end": ("def add(a, b): return range(10 ** 18)", "the returned value used up 1 s of CPU time"),
    "a value that cannot go back": (
        "def add(a, b):\n    x = []\n    for _ in range(400): x = [x]\n    return x",
        "test 1 of 2: RecursionError",
    ),
    "closes its pipes": ("import os, time\nos.closerange(3, 9)\ntime.sleep(0.5)", "loading the program: closed its pi"),
    "forks and returns twice": ("import os\ndef add(a, b):\n    os.fork()\n    return a", "test 1 of 2: Assertion"),
    "forks while it is loaded": ("import os\nos.fork()\nadd = max", "test 1 of 2: AssertionError"),
}  # fmt: skip
WAITS = {
    "sleeps": "import time\ntime.sleep(100)",
    "wakes up now and then": "import time\nwhile True: time.sleep(0.01)",
    "stops itself": "import os\nos.kill(os.getpid(), 19)",
    "deadlock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "an heir that holds its pipes": "import os, time\nif os.fork() == 0: time.sleep(100)\nos._exit(0)",
}
NESTED = {"test_list": ["assert add(add(2, 3), 4) == 9", "assert add(2, 3) == 5"], "answer": None}
SUMMED = {"test_list": ["assert sum(add(2, 3)) == 5"], "answer": None}


@pytest.mark.parametrize("name", ESCAPES)
def test_what_a_program_does_to_itself_is_its_failure(name):
    code, detail = ESCAPES[name]
    found = verdict(MBPP, SUMMED if name == "a value without an end" else NESTED, fenced(code))
    assert (found.outcome, found.score) == (Outcome.INCORRECT, 0), found.detail
    assert found.detail.startswith(detail) or f": {detail}" in found.detail
    if "def add" not in code:
        found = verdict(ECHO, SUMS, fenced(code))
        assert (found.outcome, found.score) == (Outcome.INCORRECT, 0), found.detail


def test_a_program_that_waits_until_its_time_is_over_has_failed():
    """Nothing wanted to run: the machine was not too busy for it. All at once, as they leave the processor alone."""
    asked = [(verifier, name) for name in WAITS for verifier in (MBPP, ECHO)]
    asked.remove((ECHO, "an heir that holds its pipes"))  # its output is a file, so it ends with the first process

    def verified(verifier, name):
        row = SUMS if verifier is ECHO else ROW
        for seconds in (4, 16, 64):  # where the machine is in truth busy, starting alone takes its part of a short time
            found = verdict(verifier.model_copy(update={"seconds": seconds}), row, fenced(WAITS[name]))
            if found.outcome is not Outcome.TIMEOUT:
                break
        return found, seconds

    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(verified, *zip(*asked, strict=True)))
    for (_, name), (one, seconds) in zip(asked, found, strict=True):
        assert (one.outcome, one.score) == (Outcome.INCORRECT, 0), (name, one.detail)
        assert one.detail.startswith(f"not done after {0.9 * seconds:.1f} s ("), name


def test_a_program_that_is_slow_on_a_machine_with_time_for_it_has_failed():
    """Each of its processes is within its limit; together they have the processor until the time is over."""
    slow = (
        "import os, time\nfor _ in range(100):\n    if os.fork() == 0:\n        while time.process_time() < 0.3: pass\n"
        "        os._exit(0)\n    os.wait()"
    )
    for _ in range(5):  # the machine may in truth be busy
        found = verdict(ECHO.model_copy(update={"seconds": 2}), SUMS, fenced(slow))
        assert not found.success
        if found.outcome is Outcome.INCORRECT:
            used = re.match(r"not done after 1\.8 s \(([\d.]+) s of CPU time used", found.detail)
            assert used is not None, found.detail
            assert float(used[1]) > 0.3, "its children's time counts too; on a busy machine it is less than the 1.8 s"
            return
    pytest.skip("the machine is busy")


def test_cpu_time_is_the_programs_own_fault():
    spin = verdict(MBPP, ROW, fenced("def add(a, b):\n    while True: pass"))
    assert spin.outcome is Outcome.INCORRECT
    assert "used up its 1 s of CPU time" in spin.detail


def test_a_busy_machine_is_not_the_programs_fault():
    """Five processes share one core; what would take a second is not done after two, and says nothing."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    # in sessions of their own, of which a scheduler may make groups that share the core
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) for _ in range(4)]
    code = "import time\nwhile time.process_time() < 0.9: pass\nprint(sum(map(int, input().split())))"
    try:
        slow = verdict(ECHO.model_copy(update={"seconds": 2.5, "cpu_seconds": 2}), SUMS, fenced(code))
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()
    assert slow.outcome is Outcome.TIMEOUT
    assert math.isnan(slow.score)


IN_A_CONTROL_GROUP = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
from outrider.record import Problem
from outrider.verify.code import Stdio
verifier = Stdio(memory_gb=1)
problem = Problem("p", "", verifier.reference({"tests": [{"input": "", "output": "1"}]}, "answer"))
for code in ("x = bytearray(700 << 20)", "import os\\nos.kill(os.getpid(), 9)", "print(1)"):
    found = verifier.verify(problem, f"```python\\n{code}\\n```", True)
    print(found.outcome, found.score, found.detail)
"""


def test_memory_that_runs_out_on_the_machine_is_not_the_programs_fault(tmp_path):
    """A real killer: a control group too small for what the program may use. Who is outside of it is not touched."""
    root = Path("/sys/fs/cgroup")
    group = (root / "memory" if (root / "memory").is_dir() else root) / f"outrider-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        limit = next((f for f in (group / "memory.max", group / "memory.limit_in_bytes") if f.exists()), None)
        if limit is None:
            pytest.skip("control groups here do not limit memory")
        limit.write_text(str(300 << 20))
        ours, machines = memory_failures(), _killed_on_the_machine()
        done = subprocess.run([sys.executable, "-c", IN_A_CONTROL_GROUP, str(group)], capture_output=True, text=True)
    finally:
        group.rmdir()
    assert _killed_on_the_machine() > machines
    if list(_own_counts()):
        assert memory_failures() == ours
    assert done.returncode == 0, done.stderr
    machine, itself, fine = done.stdout.splitlines()
    assert machine == "error nan the program was killed while memory ran out on the machine"
    assert itself == "incorrect 0.0 test 1 of 1: ended with status -9"
    assert fine.startswith("correct 1.0")


def _killed_on_the_machine():
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts["oom_kill"])


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: file.stem)
def test_what_fuzzing_found(file):
    found = json.loads(file.read_text())
    [(name, options)] = found["verifier"].items()
    verifier = VERIFIERS[name](**options)
    seen = verifier.verify(Problem("p", "", found["reference"]), found["text"], found["finished"])
    assert seen.outcome.value in found["allowed"], seen.detail


def test_a_few_seconds_of_fuzzing_find_nothing():
    """``python tools/fuzz_programs.py --seconds 3600`` looks for longer."""
    tool = CORPUS.parents[2] / "tools" / "fuzz_programs.py"
    command = [sys.executable, str(tool), "--seconds", "1", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"verified \d+ responses in \d+ s with seed \d+: 0 findings \(.*\)", done.stdout.strip())
