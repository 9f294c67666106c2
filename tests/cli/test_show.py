"""Rollouts as a table to read, and the command that shows those of a run."""

from __future__ import annotations

import io
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import outrider
from outrider.cli import main
from outrider.model.tiny import character_tokenizer
from outrider.record import Observation, correct, incorrect
from outrider.screen.show_command import rollouts_to_read
from runs import python, rollout, run_of


def text_of(table: object, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


TOKENIZER = character_tokenizer().backend_tokenizer


def ids_of(text: str) -> np.ndarray:
    return np.array(TOKENIZER.encode(text, add_special_tokens=False).ids, np.int32)


def test_what_was_observed_is_told_apart_also_before_a_branch() -> None:
    """Of a branch the tokens before it are dim, and its parent knows which of them were observed."""
    parent = replace(rollout(0), text="1+2=3", observations=(Observation(2, 2, 2, 4), Observation(5, 0, 5, 5)))
    branch = replace(
        rollout(1), parent=parent.id, prefix_text="1+2=", text="4>5", observations=(Observation(1, 1, 1, 2),)
    )
    last = replace(rollout(2), parent=branch.id, prefix_text="1+2=4>", text="6")
    output = text_of(rollouts_to_read([parent, branch, last], 5))
    assert "3 of 3 rollouts; «…» is text of the environment" in output
    assert "1+«2=»3 " in output
    assert "1+«2=»4«>»5 " in output
    assert "1+«2=»4«>»6 " in output
    assert "«" not in text_of(rollouts_to_read([rollout(0)], 5))


def test_rollouts_are_shown_with_their_verdict_and_harmless_text() -> None:
    wrong = replace(
        rollout(0),
        text="\x1b[2J3+4=8 [bold]",
        prefix_text="1+2=3;",
        verdict=incorrect(detail="3+4 is 7"),
        reward=math.nan,
        advantage=-0.25,
        unused="unscorable",
        prompt_ids=ids_of("1 2 3 4>8:"),
    )
    output = text_of(rollouts_to_read([wrong], 5, TOKENIZER))
    for part in (
        *("1 of 1 rollouts", "1 2 3 4>8:", r"1+2=3;\x1b[2J3+4=8 [bold]", "incorrect", "3+4 is 7"),
        *("reward NaN, advantage -0.25", "2 tokens, stop", "unused: unscorable"),
    ):
        assert part in output
    assert "\x1b" not in output
    bare = text_of(rollouts_to_read([rollout(0)], 5))
    assert "no verdict" in bare
    assert "reward —" in bare
    assert "advantage" not in bare


@given(total=st.integers(0, 40), n=st.integers(0, 12))
def test_shown_rollouts_are_spread_over_all(total: int, n: int) -> None:
    many = [replace(rollout(0), problem_id=f"problem-{i}.") for i in range(total)]
    output = text_of(rollouts_to_read(many, n))
    found = [i for i in range(total) if f"problem-{i}." in output]
    assert len(found) == min(n, total)
    gaps = np.diff([*found, total])
    assert not found or (found[0] == 0 and gaps.max() - gaps.min() <= 1)


def show(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["show", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_a_step_of_a_run_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run_of(tmp_path / "run", 2) as run:
        verified = [replace(rollout(3), member=i, text=f"text {i}.", verdict=incorrect()) for i in range(20)]
        run.rollouts.write(3, verified)
        run.rollouts.write(0, [replace(rollout(0), text="measured")], "evaluate")
        last = show(capsys, run.path)  # while another process may still write it
    assert "train, step 3: 8 of 20 rollouts" in last
    assert [i for i in range(20) if f"text {i}." in last] == [0, 2, 5, 7, 10, 12, 15, 17]
    assert "train, step 1: 1 of 1 rollouts" in show(capsys, run.path, "--step", 1)
    assert show(capsys, run.path, "--n", 1, "--step", 3).count("incorrect") == 1
    measured = show(capsys, run.path, "--name", "evaluate")
    assert "evaluate, step 0" in measured
    assert "measured" in measured


def test_problems_are_shown_by_their_prompts_where_the_run_has_a_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = Path(outrider.__file__).parent / "base/countdown"
    with run_of(tmp_path / "run", 0) as run:
        prompt = np.array([1, 6, 23, 7, 20], np.int32)  # <s>, and the place of each in the alphabet plus three
        run.rollouts.write(1, [replace(rollout(1), problem_id="an id", prompt_ids=prompt)])
        assert "an id" in show(capsys, run.path)
        run.model.mkdir()
        shutil.copy(base / "tokenizer.json", run.model)
    shown = show(capsys, run.path)
    assert "3 4:" in shown
    assert "an id" not in shown
    assert "<s>" not in shown


def test_what_cannot_be_shown_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run_of(tmp_path / "run", 2) as run:
        run.rollouts.write(9, [rollout(9)])
    run_of(tmp_path / "empty", 0).close()
    for words, sentence in [
        ([tmp_path / "nowhere"], f"{tmp_path / 'nowhere'} holds no run: it has no config.yaml."),
        ([tmp_path / "empty"], f"{tmp_path / 'empty'} has no train rollouts (it has no rollouts)"),
        ([run.path, "--name", "greedy"], f"{run.path} has no greedy rollouts (known: train)"),
        ([run.path, "--step", 7], f"{run.path} has no train rollouts of step 7; the nearest step is 9"),
        ([run.path, "--step", -3], f"{run.path} has no train rollouts of step -3; the nearest step is 1"),
        ([run.path, "--n", 0], "--n is 0, but should be at least 1"),
    ]:
        assert main(["show", *map(str, words)]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", f"outrider: {sentence}\n")


def test_showing_needs_no_torch(tmp_path: Path) -> None:
    run_of(tmp_path / "run", 1).close()
    program = "import sys; from outrider.cli import main; main(['show', sys.argv[1]]); print('torch' in sys.modules)"
    output, errors = python(program, tmp_path / "run").communicate()
    assert output.endswith("\nFalse\n"), errors


def test_prose_is_read_at_full_width_and_a_problem_once_for_its_siblings() -> None:
    """A prompt of several lines in a column of a table would be a tower of words."""
    prompt = "Q: 1 2 3\n" + "4 5 6 7 8 9 " * 8
    long = [
        replace(rollout(i), problem_id="a", text=f"\n1+{i}=" + "2" * 100, prompt_ids=ids_of(prompt)) for i in range(2)
    ]
    other = replace(rollout(2), problem_id="b", text="1", prompt_ids=ids_of("3>3:"), verdict=incorrect(), reward=0.5)
    lines = [line.rstrip() for line in text_of(rollouts_to_read([*long, other], 5, TOKENIZER), width=80).splitlines()]
    assert lines[0] == "3 of 3 rollouts"
    assert sum(set(line) == {"─"} for line in lines) == 2  # one rule for each problem
    assert max(map(len, lines)) == 80
    assert [line[:4] for line in lines if line.startswith("1+")] == ["1+0=", "1+1="]
    assert lines[-2].startswith("incorrect · reward 0.5 · ")


def test_shown_rollouts_are_filtered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def one(i: int, **changes: object) -> object:
        return replace(rollout(3), member=i, text=f"text {i}.", **changes)

    with run_of(tmp_path / "run", 2) as run:
        found = [
            one(0, problem_id="sum:1", verdict=incorrect()),
            one(1, problem_id="sum:1", verdict=correct(), stage="1-branch"),
            one(2, problem_id="sum:12", verdict=correct()),
            one(3, problem_id="sum:12", token_ids=np.arange(9, dtype=np.int32), logprobs_T=np.zeros(9, np.float32)),
        ]
        run.rollouts.write(3, found)

    def numbers(*words: str) -> list[int]:
        output = show(capsys, run.path, *words)
        return sorted((i for i in range(4) if f"text {i}." in output), key=lambda i: output.index(f"text {i}."))

    assert numbers() == [0, 1, 2, 3]
    assert numbers("--verdict", "correct") == [1, 2]
    assert numbers("--verdict", "none") == [3]
    assert numbers("--problem", "sum:1") == [0, 1]  # and not what begins with it, where it is an id itself
    assert numbers("--problem", "sum:") == [0, 1, 2, 3]
    assert numbers("--problem", "sum:1", "--verdict", "correct", "--stage", "1-branch") == [1]
    assert numbers("--longest", "--n", "1") == [3]
    for words, says in (
        (("--verdict", "corect"), "no rollout with the verdict 'corect' (did you mean 'correct'?)"),
        (("--problem", "sun:1"), "no rollout of problem 'sun:1'; did you mean 'sum:1'?"),
    ):
        assert main(["show", str(run.path), *words]) == 2
        assert says in capsys.readouterr().err


def test_a_full_text_is_not_cut(tmp_path: Path) -> None:
    long = replace(rollout(0), text="word " * 200 + "end")
    assert "characters)" in text_of(rollouts_to_read([long], 5))
    whole = text_of(rollouts_to_read([long], 5, full=True))
    assert "characters)" not in whole
    assert "end" in whole
