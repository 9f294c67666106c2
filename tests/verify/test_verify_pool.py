"""The verifier pool: whatever a verifier does, every item gets a verdict in time, and only the culprit's is lost."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict, correct
from outrider.verify.pool import VerifierPool

PROBLEM = Problem("p", "what?", answer="yes")

# In a module of its own: the functions reach the workers by name, as those of a third-party package would.
MISBEHAVIOUR = """
import os, subprocess, sys, time
from pathlib import Path
from outrider.errors import UserError
from outrider.record import Verdict, Outcome, correct

def obey(problem, text, finished):
    command, _, argument = text.partition(" ")
    if command == "sleep":
        time.sleep(float(argument))
    elif command == "meet":  # here, and not before the other is there too
        mine, other = argument.split()
        Path(mine).touch()
        while not Path(other).exists():
            time.sleep(0.01)
    elif command == "spin":
        10 ** 10 ** 10  # one long C call that holds the interpreter lock: no alarm, no thread gets in
    elif command == "exit":
        os._exit(int(argument))
    elif command == "raise":
        raise {"KeyError": KeyError, "SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[argument]("why")
    elif command == "bomb":
        bytearray(10 ** 11)
    elif command == "grow":
        heap = []
        while True:
            heap.append(bytes(10 ** 8))
    elif command == "none":
        return None
    elif command == "doubt":
        return Verdict(Outcome.CORRECT, float(argument), detail="by half")
    elif command == "late":
        return Verdict(Outcome.TIMEOUT, 0.0, detail="late")
    elif command == "surrogate":
        return correct("\\ud800")
    elif command == "modules":
        return correct(",".join(sorted(sys.modules)))
    elif command == "pid":
        return correct(str(os.getpid()))
    elif command == "child":
        return correct(str(subprocess.Popen(["sleep", "60"]).pid))
    elif command == "print":
        print("noise")
    elif command == "fork":  # and both processes come back, or the child raises, or ends as a program would
        if os.fork() == 0:
            if argument == "raise":
                raise ValueError("in the child")
            if argument == "exit":
                sys.exit(0)
            if argument == "late":
                time.sleep(0.2)
            return correct(f"{text}: the child of {problem.id}")
    elif command == "fork_in_c":
        import ctypes
        if ctypes.CDLL(None).fork() == 0:
            return correct(f"{text}: the child of {problem.id}")
    elif command == "log":
        time.sleep(0.002)
        with open(argument.split()[0], "a") as file:
            print(argument.split()[1], file=file)
    elif command == "heir":  # a child that stays, and holds open what it has inherited
        if os.fork() == 0:
            time.sleep(600)
        os._exit(5)
    elif command == "orphan":  # ends the process that the workers are forked from
        os.kill(os.getppid(), 9)
        time.sleep(float(argument or 0))
    return correct(f"{problem.id} {text} {finished}")

class Deadly:
    def __reduce__(self):
        return os._exit, (7,)

class Refuses:
    def __init__(self, kind):
        if kind:
            raise {"user": UserError, "bug": ValueError}[kind]("no licence key")
    def __reduce__(self):
        return Refuses, (self.kind,)
    def __call__(self, problem, text, finished):
        return correct()
"""


@pytest.fixture(scope="module")
def misbehaviour(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verifiers")
    (folder / "misbehaviour.py").write_text(MISBEHAVIOUR)
    sys.path.insert(0, str(folder))
    import misbehaviour

    yield misbehaviour
    sys.path.remove(str(folder))
    del sys.modules["misbehaviour"]


@pytest.fixture(scope="module")
def pool(misbehaviour):
    """With a limit that no honest verdict reaches, however busy the machine is."""
    with VerifierPool(misbehaviour.obey, workers=2, seconds=60, memory_gb=0.5) as pool:
        yield pool


@pytest.fixture(scope="module")
def strict(misbehaviour):
    """With a limit that a hang reaches soon; an honest verdict beside it takes microseconds of the second."""
    with VerifierPool(misbehaviour.obey, workers=2, seconds=1) as pool:
        yield pool


def items(*texts: str) -> list[tuple[Problem, str, bool]]:
    return [(PROBLEM, text, True) for text in texts]


def state(pid: int) -> tuple[int, ...]:
    """The pid of a running process and of its parent; nothing for one that is gone or a zombie."""
    try:
        letter, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()
    return () if letter == "Z" else (pid, int(parent))


def alive(pid: int) -> bool:
    return bool(state(pid))


def children(parent: int) -> list[int]:
    """The running processes that a process has started."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if state(pid)[1:] == (parent,)]


def wait_until_dead(pid: int, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_verdicts_come_in_the_order_of_the_items(pool):
    problems = [Problem(str(i), "") for i in range(500)]
    verdicts = pool.verify([(p, "x" * (i % 7), i % 2 == 0) for i, p in enumerate(problems)])
    assert [v.answer for v in verdicts] == [f"{i} {'x' * (i % 7)} {i % 2 == 0}" for i in range(500)]
    assert all(0 < v.seconds < 60 for v in verdicts)


def test_no_items_no_verdicts(pool):
    assert pool.verify([]) == []


def test_a_hang_ends_at_its_limit(strict):
    start = time.monotonic()
    [verdict] = strict.verify(items("sleep 600"))
    assert 1 <= time.monotonic() - start < 60, "after its limit, and by it"
    assert verdict.outcome is Outcome.TIMEOUT
    assert math.isnan(verdict.score)
    assert verdict.seconds == 1


def test_a_hang_in_c_code_ends_too(strict):
    assert [v.outcome for v in strict.verify(items("spin", "fine"))] == [Outcome.TIMEOUT, Outcome.CORRECT]


@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        ("raise KeyError", Outcome.ERROR, "KeyError: 'why'"),
        ("raise SystemExit", Outcome.ERROR, "SystemExit: why"),
        ("raise KeyboardInterrupt", Outcome.ERROR, "KeyboardInterrupt: why"),
        ("none", Outcome.ERROR, "TypeError: its verdict is NoneType, not a Verdict"),
        ("doubt nan", Outcome.ERROR, "its verdict is correct with the score nan: by half"),
        ("doubt inf", Outcome.ERROR, "its verdict is correct with the score inf: by half"),
        ("late", Outcome.TIMEOUT, "late"),
        ("exit 3", Outcome.ERROR, "the worker died, with status 3"),
        ("bomb", Outcome.ERROR, "MemoryError"),
        ("grow", Outcome.ERROR, "MemoryError"),
    ],
)
def test_only_the_culprit_loses_its_verdict(pool, text, outcome, detail):
    texts = [f"before {i}" for i in range(40)] + [text] + [f"after {i}" for i in range(40)]
    verdicts = pool.verify(items(*texts))
    culprit = verdicts.pop(40)
    assert culprit.outcome is outcome
    assert math.isnan(culprit.score)
    assert culprit.detail.startswith(detail)
    assert [v.answer for v in verdicts] == [f"p {t} True" for t in texts if t != text]


def test_time_limits_are_per_verdict_not_per_batch(misbehaviour):
    """Nine waits of 0.2 s, synced as five, two, one and one, and each is well within the limit of 0.9 s."""
    with VerifierPool(misbehaviour.obey, workers=1, seconds=0.9) as pool:
        verdicts = pool.verify(items(*["sleep 0.2"] * 9))
    assert [v.outcome for v in verdicts] == [Outcome.CORRECT] * 9


def test_a_hundred_hangs_leave_the_pool_as_it_was(misbehaviour):
    texts = [f"fine {i}" if i % 2 else "sleep 30" for i in range(200)]
    with VerifierPool(misbehaviour.obey, workers=8, seconds=0.3) as pool:
        verdicts = pool.verify(items(*texts))
        template = pool._template.process.pid
        assert len(children(template)) == 8
    assert {v.outcome for v in verdicts[::2]} == {Outcome.TIMEOUT}
    assert sum(v.success for v in verdicts[1::2]) >= 80  # a busy machine may well sleep through 0.3 s
    assert not children(template)


def test_workers_stay_warm(pool):
    first = {v.answer for v in pool.verify(items(*["pid"] * 100))}
    second = {v.answer for v in pool.verify(items(*["pid"] * 100))}
    assert first | second == first
    assert len(first) <= 2


def test_workers_run_side_by_side(pool, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    assert [v.outcome for v in pool.verify(items(f"meet {a} {b}", f"meet {b} {a}"))] == [Outcome.CORRECT] * 2


def test_works_from_threads_and_while_torch_computes(strict):
    torch = pytest.importorskip("torch")
    busy = threading.Event()

    def compute() -> None:
        while not busy.is_set():
            torch.randn(64, 64) @ torch.randn(64, 64)

    results: dict[int, list[Verdict]] = {}

    def call(caller: int) -> None:
        results[caller] = strict.verify(
            [(Problem(f"{caller}", ""), text, True) for text in ("a", "sleep 600", "exit 1", "b")]
        )

    background = threading.Thread(target=compute)
    callers = [threading.Thread(target=call, args=(i,)) for i in range(3)]
    for thread in [background, *callers]:
        thread.start()
    for thread in callers:
        thread.join(60)
    busy.set()
    background.join()
    expected = [Outcome.CORRECT, Outcome.TIMEOUT, Outcome.ERROR, Outcome.CORRECT]
    for caller in range(3):
        assert [v.outcome for v in results[caller]] == expected
        assert results[caller][3].answer == f"{caller} b True"


def test_workers_import_neither_torch_nor_the_callers_modules(pool):
    [verdict] = pool.verify(items("modules"))
    modules = verdict.answer.split(",")
    assert "outrider.record" in modules
    assert not {"torch", "transformers", "pytest", Path(__file__).stem} & set(modules)


def test_a_worker_prints_nothing_into_the_runs_output(misbehaviour, capfd):
    with VerifierPool(misbehaviour.obey, workers=1) as pool:
        pool.verify(items("print"))
    assert capfd.readouterr().out == ""


def test_text_that_no_file_can_hold_is_made_plain(pool):
    assert pool.verify(items("surrogate"))[0].answer == "?"


def test_what_a_killed_verifier_has_started_ends_with_it(misbehaviour):
    with VerifierPool(misbehaviour.obey, workers=1) as pool:
        child = int(pool.verify(items("child"))[0].answer)
        assert alive(child)
    assert wait_until_dead(child)


def test_workers_end_with_a_parent_that_is_killed_even_while_they_hang(misbehaviour, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(misbehaviour.__file__).parent)!r})\n"
        "import misbehaviour, threading, time\n"
        "from outrider.record import Problem\n"
        "from outrider.verify.pool import VerifierPool\n"
        "pool = VerifierPool(misbehaviour.obey, workers=1, seconds=60)\n"
        "print(pool.verify([(Problem('p', ''), 'pid', True)])[0].answer, flush=True)\n"
        "pool.verify([(Problem('p', ''), 'sleep 60', True)])\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert alive(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until_dead(worker)


def test_verdicts_of_an_interrupted_call_do_not_reach_the_next(misbehaviour, monkeypatch):
    """Ctrl-C while items are under way, then the same pool is used again."""
    from outrider.verify import pool as module

    with VerifierPool(misbehaviour.obey, workers=1, seconds=5) as pool:
        pool.verify(items("warm"))
        wait = module.wait

        def interrupted(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.verify(items("old 1", "old 2"))
        monkeypatch.setattr(module, "wait", wait)
        assert [v.answer for v in pool.verify(items("new"))] == ["p new True"]


def test_a_worker_that_dies_between_calls_costs_nothing(misbehaviour):
    with VerifierPool(misbehaviour.obey, workers=1) as pool:
        pid = int(pool.verify(items("pid"))[0].answer)
        os.kill(pid, 9)
        assert wait_until_dead(pid)
        assert pool.verify(items("again"))[0].success


@pytest.mark.parametrize("fork", ["fork", "fork raise", "fork exit", "fork late", "fork_in_c"])
def test_a_verifier_that_forks_and_comes_back_twice_speaks_for_no_other_item(misbehaviour, fork):
    problems = [Problem(f"p{i}", "") for i in range(60)]
    texts = [fork if i % 3 == 0 else f"plain {i}" for i in range(60)]
    with VerifierPool(misbehaviour.obey, workers=2, seconds=60) as pool:
        for _ in range(2):
            verdicts = pool.verify([(p, text, True) for p, text in zip(problems, texts, strict=True)])
            assert [v.answer for v in verdicts] == [f"p{i} {text} True" for i, text in enumerate(texts)]


def test_a_worker_whose_heir_lives_on_is_dead_at_once(pool):
    """The child holds what the worker held; only its end can tell that nothing will come any more."""
    start = time.monotonic()
    heir, fine = pool.verify(items("heir", "fine"))
    assert time.monotonic() - start < 30, "the limit is 60 s"
    assert (heir.outcome, heir.detail) == (Outcome.ERROR, "the worker died, with status 5")
    assert fine.success


@pytest.mark.parametrize("workers", [1, 2])
def test_a_template_killed_in_the_middle_of_a_batch_costs_no_verdict(misbehaviour, tmp_path, workers):
    """Killed five times, while workers verifier: every item has its own verdict, and one alone."""
    log = tmp_path / "verified"
    texts = [f"log {log} {i}" for i in range(300)]
    killed = []

    def kill() -> None:
        while len(killed) < 5:
            done = len(log.read_text().split()) if log.exists() else 0
            template = pool._template
            if done > 40 * len(killed) and template is not None and template.process.pid not in killed:
                killed.append(template.process.pid)
                os.kill(template.process.pid, signal.SIGKILL)
            time.sleep(0.005)

    with VerifierPool(misbehaviour.obey, workers=workers, seconds=60) as pool:
        killer = threading.Thread(target=kill)
        killer.start()
        verdicts = pool.verify([(Problem(f"p{i}", ""), text, True) for i, text in enumerate(texts)])
        killer.join(60)
        assert len(killed) == 5
        assert [v.answer for v in verdicts] == [f"p{i} {text} True" for i, text in enumerate(texts)]
        again = [int(i) for i in log.read_text().split()]
        assert set(again) == set(range(300))
        assert len(again) <= 300 + 2 * 5 * workers, "only what was in work is verified anew"
        assert [v.outcome for v in pool.verify(items("fine", "exit 3"))] == [Outcome.CORRECT, Outcome.ERROR]
        assert len(children(pool._template.process.pid)) == workers


def test_a_template_that_dies_between_calls_costs_nothing(misbehaviour):
    with VerifierPool(misbehaviour.obey, workers=2, seconds=60) as pool:
        first = pool.verify(items("pid"))[0].answer
        os.kill(pool._template.process.pid, signal.SIGKILL)
        assert wait_until_dead(int(first))
        assert pool.verify(items("pid"))[0].answer != first


def test_an_item_that_ends_the_template_each_time_is_found_and_costs_no_other_verdict(misbehaviour):
    texts = ["sleep 0.3", "fine", "orphan 60", "sleep 0.3", *["fine"] * 20]
    with VerifierPool(misbehaviour.obey, workers=2, seconds=60) as pool:
        verdicts = pool.verify(items(*texts))
        culprit = verdicts.pop(2)
        assert (culprit.outcome, math.isnan(culprit.score)) == (Outcome.ERROR, True)
        assert culprit.detail == "the process that starts the verifiers died 3 times while this was verified"
        assert all(v.success for v in verdicts)


def test_a_template_that_dies_whenever_it_is_started_is_an_error_and_not_a_loop(misbehaviour):
    with (
        VerifierPool(misbehaviour.Deadly(), workers=1) as pool,
        pytest.raises(RuntimeError, match="the process that imports the verifier died 3 times, with status 7"),
    ):
        pool.verify(items("a"))


def test_a_worker_that_cannot_take_its_items_ends_the_matter(misbehaviour):
    """Items that kill whoever unpickles them: an error each, and no endless supply of workers."""
    deadly = Problem("p", "", answer=misbehaviour.Deadly())
    with VerifierPool(misbehaviour.obey, workers=2) as pool:
        assert pool.verify(items("fine"))[0].success
        verdicts = pool.verify([(deadly, "a", True), (deadly, "b", True)])
        assert [v.outcome for v in verdicts] == [Outcome.ERROR] * 2
        assert pool.verify(items("fine"))[0].success


def test_a_verifier_that_cannot_be_loaded_is_an_error_and_not_a_loop(misbehaviour):
    bug, user = misbehaviour.Refuses(None), misbehaviour.Refuses(None)
    bug.kind, user.kind = "bug", "user"
    with (
        VerifierPool(bug, workers=1) as pool,
        pytest.raises(RuntimeError, match=r"cannot be loaded: ValueError.*licence"),
    ):
        pool.verify(items("a"))
    with VerifierPool(user, workers=1) as pool, pytest.raises(UserError, match="cannot be loaded: no licence key"):
        pool.verify(items("a"))


def test_a_verifier_of_the_main_script_is_refused():
    def verify(problem: Problem, text: str, finished: bool) -> Verdict:
        return correct()

    verify.__module__ = "__main__"
    with pytest.raises(UserError, match="move the verifier"):
        VerifierPool(verify)


def test_a_closed_pool_says_so(misbehaviour):
    pool = VerifierPool(misbehaviour.obey, workers=1)
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.verify(items("a"))
