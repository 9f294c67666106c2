"""Several processes: the rollouts of one, the weights of one, and errors that reach the user."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

import rank_mains
from outrider.config import load_recipe
from outrider.credit.assign import assign
from outrider.errors import UserError
from outrider.processes import warm
from outrider.processes.cores import usable_cores
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.processes.warm import warm_processes
from outrider.record import Group
from outrider.testing.scripted import ScriptedEngine


def drawn(ranks: int, folder: Path) -> list:
    out = folder / f"rollouts-{ranks}"
    assert launch(ranks, rank_mains.draw, out) == 0
    return pickle.loads(out.read_bytes())


def test_two_processes_draw_what_one_draws_and_learn_what_one_learns(tmp_path: Path) -> None:
    one, two = drawn(1, tmp_path), drawn(2, tmp_path)
    assert [r.id for r in one] == [r.id for r in two]
    assert len(one) == 30
    assert [r.seed for r in one] == [r.seed for r in two]
    different = sum(not np.array_equal(a.token_ids, b.token_ids) for a, b in zip(one, two, strict=True))
    assert different <= 1  # a near-tie may fall either way in another batch

    groups: dict[str, Group] = {}
    task = load_recipe("grpo", rank_mains.OVERRIDES).task
    problems = {p.id: p for p in map(task.train, range(20))}
    for r in one:
        group = groups.setdefault(r.problem_id, Group(problems[r.problem_id], r.group_id))
        groups[r.problem_id] = group.joined([r])
    credit = load_recipe("grpo", rank_mains.OVERRIDES).credit
    rows = assign(list(groups.values()), credit, 1, False, ScriptedEngine().encode).rows
    assert any(row.has_signal for row in rows)
    (tmp_path / "rows").write_bytes(pickle.dumps(rows))
    weights, metrics = {}, {}
    for ranks in (1, 2):
        out = tmp_path / f"weights-{ranks}"
        assert launch(ranks, rank_mains.learn, tmp_path / "rows", out) == 0
        weights[ranks], metrics[ranks] = pickle.loads(out.read_bytes())
    for a, b in zip(weights[1], weights[2], strict=True):
        assert (a - b).abs().max() < 1e-5
    for a, b in zip(metrics[1], metrics[2], strict=True):
        assert a.keys() == b.keys()
        assert a == pytest.approx(b, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(("rank", "where"), [(0, "gather"), (1, "gather"), (0, "planning")])
def test_a_mistake_that_one_rank_meets_is_told_by_rank_0(
    rank: int, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="problem 'p' is too long"):
        launch(2, rank_mains.refuse_on, rank, where)
    assert "Traceback" not in capfd.readouterr().err


def test_a_meeting_that_failed_before_keeps_nobody_apart(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):  # nobody else comes
        dist.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/ranks", rank=0, world_size=2, timeout=timedelta(seconds=0.5)
        )
    assert launch(2, rank_mains.gather_in_order) == 7


def test_collectives_are_ordered_and_the_caller_is_left_as_it_was() -> None:
    before = os.sched_getaffinity(0)
    assert launch(2, rank_mains.gather_in_order) == 7
    assert os.sched_getaffinity(0) == before


def test_collectives_beside_others_do_not_meet_them() -> None:
    assert launch(2, rank_mains.two_threads) == 7
    alone = Ranks()
    assert alone.beside() is alone


def test_nobody_begins_before_all_are_connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that ends at once would close a connection that another one is still making."""
    connect = dist.init_process_group

    def slowly(*arguments, **named) -> None:
        connect(*arguments, **named)
        time.sleep(1.0)
        (tmp_path / "connected").touch()

    monkeypatch.setattr(dist, "init_process_group", slowly)  # of rank 0, which is this process
    assert launch(2, rank_mains.all_find, tmp_path / "connected") == 0


def test_a_rank_that_is_pinned_to_a_core_knows_of_the_others_cores() -> None:
    """Else a run with a rank on every core would be told that there are fewer cores than ranks."""
    assert launch(2, rank_mains.cores) == len(usable_cores())


def test_ranks_have_the_surroundings_of_their_own_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that they are forked from may be that of an earlier run, or of a bench."""
    launch(2, rank_mains.cores)
    monkeypatch.setenv("OF_THIS_RUN", "yes")
    assert launch(2, rank_mains.surroundings) == 0


def test_a_folder_of_temporary_files_may_have_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket of the process that the others are forked from has a name of 108 bytes at most."""
    assert warm_processes("json").get_start_method() == "forkserver"
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    process = warm_processes("json").Process(target=os.getpid)
    process.start()
    process.join()
    assert (process.exitcode, warm_processes("json").get_start_method()) == (0, "spawn")


@pytest.mark.parametrize(
    ("ranks", "cores", "gpu", "launcher", "warmed"),
    [
        (0, 2, False, False, ["m"]),
        (2, 1, False, False, ["m"]),
        (0, 1, False, False, []),
        (1, 2, False, False, []),
        (0, 2, True, False, []),  # one process has the GPU
        (2, 2, True, False, ["m"]),
        (2, 2, False, True, []),  # torchrun has started them
    ],
)
def test_others_import_while_this_process_does_where_there_will_be_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ranks: int, cores: int, gpu: bool, launcher: bool, warmed
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(warm, "warm_processes", seen.append)
    monkeypatch.setattr(warm, "usable_cores", lambda: list(range(cores)))
    monkeypatch.setattr(warm, "_GPUS", (str(tmp_path) if gpu else "no/such/device",))
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if launcher:
        monkeypatch.setenv("WORLD_SIZE", "2")
    warm.warm_ahead("m", ranks)
    assert seen == warmed


def test_one_rank_checks_for_all_what_will_be_shared_out_and_nobody_copies_it(tmp_path: Path) -> None:
    assert launch(2, rank_mains.open_shares, tmp_path / "seen") == 0
    (path, sentence, done, logprob), other = json.loads((tmp_path / "seen").read_text())
    assert path == "packed"
    assert "difference of log-probabilities from its own forward pass" in sentence
    assert done == ["checked"]
    assert other == [path, sentence, [], pytest.approx(logprob, abs=1e-6)]
