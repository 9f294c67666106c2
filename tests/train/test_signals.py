"""A run that is told to end, or that loses one of its ranks: real signals to real processes, and an exact resume."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from pydantic import BaseModel
from small_run import SMALL, contents

from child_processes import Started, begun, begun_by_the_interpreter, wait_until
from interrupted_import import waits_for_the_end_of_the_import
from outrider.components import ComponentOf
from outrider.config import load_recipe

STEPS, EVALUATED = 8, 3  # so many that none is at its end before a busy machine has sent the signal
# Nothing but a signal saves before the end; an evaluation takes as long as a few steps.
RUN = [
    *(word for word in SMALL if word != "explore.0.n=4"),
    "explore.1.n=4",
    "explore.2.target=3",
    "train.problems=2",
    f"train.steps={STEPS}",
    "train.save_every=100",
    f"train.evaluate_every={EVALUATED}",
]
RUN += ["evaluate.problems=12", "evaluate.n=4"]
AGAIN = "`outrider train … --resume` goes on"


def words_of(folder: Path, *overrides: str) -> list[str]:
    """A run, begun or gone on with."""
    again = ["--resume"] if (folder / "config.yaml").exists() else []
    return ["train", "greso", *RUN, *overrides, "--out", str(folder), *again]


def begin(folder: Path, *overrides: str, **environment: str) -> Started:
    errors = folder.with_name(f"errors-{environment.get('RANK', 0)}.txt")
    return begun(words_of(folder, *overrides), errors, **environment)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def servers(pid: int) -> list[int]:
    """What it has started to fork others from."""
    return [child for child in children(pid) if b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()]


def has_torch(pid: int) -> bool:
    return b"libtorch_cpu" in Path(f"/proc/{pid}/maps").read_bytes()


def rank_1(process: Started) -> int:
    """It is forked by a server: by that which has forked the run, or by one that the run has started."""
    own = servers(process.pid)
    server = own[0] if own else int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
    [other] = set(children(server)) - {process.pid}
    return other


def ended(pid: int) -> bool:
    """It is not there any more, or nobody has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def spent(process: Started) -> float:
    """Its seconds of CPU time, which pass only while it gets on."""
    return time.clock_gettime(~process.pid << 3 | 2)  # CLOCK_PROCESS_CPUTIME_ID of another process


def test_ctrl_c_while_a_recipe_becomes_plain_data_stays_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The serializer calls Python for every component, where a signal may arrive, and wraps what is raised there."""
    recipe, name_of = load_recipe("grpo"), ComponentOf._name

    def interrupted(self: ComponentOf, component: BaseModel) -> str:
        signal.raise_signal(signal.SIGINT)
        return name_of(self, component)

    monkeypatch.setattr(ComponentOf, "_name", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell put into the background
    try:
        for written in (recipe.resolved, recipe.fingerprint):
            with pytest.raises(KeyboardInterrupt):
                written()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (["train", "grpo"], "outrider.commands.train_command"),
        (["evaluate", "base:countdown", "--task", "countdown"], "outrider.commands.evaluate_command"),
        (["sft", "countdown"], "outrider.commands.sft_command"),
    ],
)
def test_ctrl_c_while_torch_is_imported_waits_for_the_end_of_the_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str], module: str
) -> None:
    """C++ calls Python there, and what is raised in it ends the process without a sentence."""
    waits_for_the_end_of_the_import(monkeypatch, [*command, "--out", str(tmp_path / "out")], module)
    assert not (tmp_path / "out").exists()


def test_sigterm_while_torch_is_imported_waits_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "base:countdown", "--task", "countdown", "--out", str(tmp_path / "out")]
    waits_for_the_end_of_the_import(monkeypatch, words, "outrider.commands.evaluate_command", signal.SIGTERM)
    assert capsys.readouterr().err.strip() == "outrider: ended by SIGTERM"


def newest(folder: Path) -> int:
    """The step of the last checkpoint."""
    return max(int(path.name[5:]) for path in (folder / "checkpoints").glob("step-*"))


@pytest.fixture(scope="module", params=[1, 2])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """How many ranks, and a run that nobody disturbed."""
    ranks, folder = f"train.ranks={request.param}", tmp_path_factory.mktemp("whole") / "run"
    process = begin(folder, ranks)
    assert process.wait() == 0, process.errors()
    return ranks, folder


MOMENTS: dict[str, tuple[str, float, int]] = {  # a file, CPU seconds after it is there, the step that is saved then
    "first evaluation": ("config.yaml", 0.1, 0),
    "step": ("rollouts/train-00000001.parquet", 0.02, 1),
    "evaluation": (f"rollouts/train-{EVALUATED:08d}.parquet", 0.1, EVALUATED),
    "later step": (f"rollouts/train-{EVALUATED + 1:08d}.parquet", 0.05, EVALUATED + 1),
}


@pytest.mark.parametrize(
    "moments",
    [["first evaluation", "evaluation"], pytest.param(list(MOMENTS), marks=pytest.mark.slow)],
    ids=["two", "all"],
)
def test_sigterm_saves_the_last_step_and_the_resumed_run_is_the_undisturbed_one(whole, moments, tmp_path: Path) -> None:
    """In the first evaluation, in steps and in an evaluation between them; to all processes or one."""
    ranks, undisturbed = whole
    folder = tmp_path / "run"
    if ranks.endswith("2") and len(moments) == 2:  # their start takes seconds
        moments = ["step"]
    for number, moment in enumerate(moments, len(moments) == 1):
        file, delay, step = MOMENTS[moment]
        if ranks.endswith("2") and number > 1:  # its start takes seconds, of every process
            process = begun_by_the_interpreter(words_of(folder, ranks), tmp_path / "errors.txt")
        else:
            process = begin(folder, ranks)
        process.wait_for((folder / file).exists)
        there = spent(process)
        process.wait_for(lambda: spent(process) > there + delay)  # noqa: B023 - called at once
        (os.killpg if number % 2 else os.kill)(process.pid, signal.SIGTERM)
        said = process.last_words()
        assert process.wait() == 143, said
        assert said == f"outrider: ended by SIGTERM; {AGAIN} after step {newest(folder)}"
        assert newest(folder) >= step
        assert not (folder / "rollouts" / f"train-{newest(folder) + 1:08d}.parquet").exists(), "all of it is saved"
    process = begin(folder, ranks)
    assert process.wait() == 0, process.errors()
    assert contents(folder) == contents(undisturbed)


def test_a_rank_that_is_killed_is_named_and_the_resumed_run_is_the_undisturbed_one(whole, tmp_path: Path) -> None:
    ranks, undisturbed = whole
    if ranks.endswith("1"):
        pytest.skip("there is no other rank")
    folder = tmp_path / "run"
    process = begin(folder, ranks)
    process.wait_for((folder / "rollouts" / "train-00000002.parquet").exists)
    os.kill(rank_1(process), signal.SIGKILL)
    said = process.last_words()
    assert said == f"outrider: rank 1 was killed by signal 9, as when memory runs out; {AGAIN} from the last checkpoint"
    assert process.wait() == 2
    assert newest(folder) >= 2
    process = begun_by_the_interpreter(words_of(folder, ranks), tmp_path / "errors.txt")
    process.wait_for((folder / "rollouts" / "train-00000004.parquet").exists)
    other = rank_1(process)
    process.send(signal.SIGKILL)
    wait_until(lambda: ended(other))
    assert process.last_words() == f"outrider: rank 0 died; {AGAIN} from the last checkpoint"
    process = begin(folder, ranks)
    assert process.wait() == 0, process.errors()
    assert contents(folder) == contents(undisturbed)
    assert list((folder / "superseded").rglob("*.parquet"))  # what the kills made worthless is kept, not overwritten


def test_ctrl_c_is_heard_while_the_other_ranks_get_ready(tmp_path: Path) -> None:
    """Their imports take seconds, in which nobody may be ignore signals but they."""
    process = begun_by_the_interpreter(words_of(tmp_path / "run", "train.ranks=2"), tmp_path / "errors.txt")
    process.wait_for(lambda: [pid for pid in servers(process.pid) if has_torch(pid)])
    os.killpg(process.pid, signal.SIGINT)
    assert process.last_words() == "outrider: interrupted; `outrider train … --resume` goes on from the last checkpoint"
    assert process.wait() == 130


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_of_a_launcher_end_with_a_sentence_each(sent: signal.Signals, tmp_path: Path) -> None:
    """As torchrun and Slurm start them: each process by itself, and a warning goes to all of them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    folder = tmp_path / "run"
    ranks = [begin(folder, "train.ranks=0", RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(2)]
    ranks[0].wait_for((folder / "rollouts" / "train-00000001.parquet").exists)
    for process in ranks if sent is signal.SIGTERM else ranks[1:]:
        process.send(sent)
    said = ranks[0].last_words()
    if sent is signal.SIGTERM:
        assert said == f"outrider: ended by SIGTERM; {AGAIN} after step {newest(folder)}"
        assert [process.wait() for process in ranks] == [143, 143]
        assert "Traceback" not in ranks[1].errors()
    else:
        assert said == f"outrider: rank 1 died; {AGAIN} from the last checkpoint"
        assert [process.wait() for process in ranks] == [2, -9]
    assert newest(folder) >= 1


@pytest.mark.parametrize(
    ("command", "again"),
    [
        pytest.param(["evaluate", "base:countdown", "--task", "countdown"], "", marks=pytest.mark.slow),
        (["sft", "countdown"], "; run the same command again to continue"),
    ],
)
def test_other_commands_end_by_sigterm_with_a_sentence(tmp_path: Path, command: list[str], again: str) -> None:
    process = begun_by_the_interpreter([*command, "--out", str(tmp_path / "out")], tmp_path / "errors.txt")
    process.wait_for(lambda: has_torch(process.pid))
    process.send(signal.SIGTERM)
    assert process.last_words() == f"outrider: ended by SIGTERM{again}"
    assert process.wait() == 143
