"""A rank that fails alone, or dies: all end, and the cause is told in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rank_mains
from outrider.commands.train_command import train_command
from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.estimate.estimate import layout_of
from outrider.processes.launch import launch
from outrider.processes.ranks import RankLostError


def test_a_failure_between_two_collectives_is_heard_by_all(tmp_path: Path) -> None:
    assert launch(3, rank_mains.fail_between, tmp_path / "said") == 0
    names = {"user": "UserError", "lost": "EngineLostError", "unsendable": "UnsendableError"}
    for said in json.loads((tmp_path / "said").read_text()):
        assert len(said) == 9
        for case, sentence in said.items():
            assert names[case.split()[0]] in sentence, case
            assert "rank cannot" in sentence, case


def test_what_one_rank_cannot_open_or_take_ends_all_with_its_sentence(tmp_path: Path) -> None:
    assert launch(2, rank_mains.open_and_sync, tmp_path / "said") == 0
    one, other = json.loads((tmp_path / "said").read_text())
    assert one == other
    for rank in range(2):
        assert one[f"model {rank}"] == "UserError: model 'no/such/folder': no such folder"
        assert one[f"engine {rank}"] == "EngineLostError: vLLM fails in this process (OutOfMemoryError)"


def test_a_rank_that_dies_while_shares_learn_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RankLostError, match="rank 1 was killed by signal 9, as when memory runs out; start it again"):
        launch(2, rank_mains.die_learning, 1)
    assert "Traceback" not in capfd.readouterr().err


def test_what_ended_one_rank_is_told_though_no_collective_carried_it() -> None:
    with pytest.raises(RankLostError, match="rank 1 ended: this machine has no disk"):
        launch(2, rank_mains.end_alone)


def started(main: str) -> subprocess.CompletedProcess[str]:
    program = (
        "from outrider.processes.warm import warm_ahead\nwarm_ahead('rank_mains', 2)\n"
        "import sys, rank_mains\nfrom outrider.errors import UserError\nfrom outrider.processes import launch\n"
        f"launch._NOTICE_SECONDS = 0.5\ntry: launch.launch(2, rank_mains.{main})\n"
        "except UserError as error: sys.stdout.write(f'said: {error}')"
    )
    paths = [str(Path(__file__).parents[1]), *sys.path]
    start = f"import sys; sys.path[:] = {paths!r}\n{program}"
    return subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, timeout=100)


def test_a_rank_that_waits_in_vain_for_a_dead_one_is_ended_with_a_sentence() -> None:
    begun = time.monotonic()
    ended = started("wait_in_vain")
    assert ended.stderr == "outrider: rank 1 was killed by signal 9, as when memory runs out; start it again\n"
    assert ended.returncode == 2
    assert time.monotonic() - begun < 60


@pytest.mark.slow
def test_a_rank_that_does_not_wait_may_end_what_it_does() -> None:
    assert started("verify_long").stdout == "saved"


def test_another_number_of_ranks_than_torchrun_started_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recipe = load_recipe("grpo", ["train.ranks=3"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    for use in (lambda: train_command(recipe, tmp_path / "run"), lambda: layout_of(recipe, None)):
        with pytest.raises(UserError, match=r"train.ranks is 3, but torchrun.* has started 2 processes"):
            use()
    assert layout_of(load_recipe("grpo", ["train.ranks=2"]), None).processes == 2
    assert layout_of(load_recipe("grpo"), None).processes == 2
