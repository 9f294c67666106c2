"""Making a small model from a task's solutions: what is written, and what happens when it diverges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from outrider.commands import sft_command as sft_module
from outrider.commands.sft_command import sft_command
from outrider.config import load_sft
from outrider.errors import UserError
from outrider.learn.sft import solution_row
from outrider.model.load import load_policy
from outrider.model.options import NewModel
from outrider.model.tiny import subword_tokenizer, untrained
from outrider.screen.progress import Progress
from outrider.tasks import WordProblems


def test_a_model_is_written_with_the_loss_it_came_to(tmp_path: Path) -> None:
    sft = load_sft("countdown", ["steps=3", "problems=2", "learn.warmup=0 steps"])
    assert sft_command(sft, tmp_path / "m") == 0
    about = json.loads((tmp_path / "m" / "outrider.json").read_text())
    assert list(about["loss"]) == ["0", "1", "2"]
    assert about["loss"]["2"] < about["loss"]["0"]
    assert about["skipped_nonfinite"] == 0
    assert load_policy(str(tmp_path / "m")).model.num_parameters() == 448_128


def test_a_loss_that_stays_not_finite_ends_in_one_sentence_and_no_model(tmp_path: Path) -> None:
    sft = load_sft("countdown", ["steps=6", "problems=2", "learn.lr=1e30"])
    with pytest.raises(UserError, match=r"not finite in 3 steps in a row; no model is written \(lower learn\.lr\)"):
        sft_command(sft, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_fewer_than_three_steps_that_are_not_finite_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step is taken with a finite loss; its enormous weights spoil the two that follow."""
    sft = load_sft("countdown", ["steps=3", "problems=2", "learn.lr=1e30"])
    assert sft_command(sft, tmp_path / "m") == 0
    about = json.loads((tmp_path / "m" / "outrider.json").read_text())
    assert list(about["loss"]) == ["0"]
    assert about["skipped_nonfinite"] == 2
    assert "2 updates skipped" in capsys.readouterr().out


def test_what_is_too_long_for_the_context_is_excluded_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A context that holds the shorter solutions alone, and one that holds none."""
    short = ["steps=3", "problems=8", "learn.warmup=0 steps"]
    policy = load_policy("base:countdown")
    task = load_sft("countdown", short).task
    lengths = [solution_row(policy, task.train(index)).length for index in range(24)]
    assert sft_command(load_sft("countdown", [*short, "model.context=80"]), tmp_path / "m") == 0
    expected = sum(length > 80 for length in lengths)
    assert 4 < expected < 20
    assert json.loads((tmp_path / "m" / "outrider.json").read_text())["too_long"] == expected
    printed = capsys.readouterr()
    said = " ".join(f"{printed.err} {printed.out}".split())
    assert said.count("excluded: a problem with more tokens than its context, 80") == 1
    assert f"{expected / 24:.1%} of the problems excluded, longer than its context, 80" in said
    with pytest.raises(
        UserError, match="step 1: all problems with their solutions are longer than the context of 8 tokens"
    ):
        sft_command(load_sft("countdown", [*short, "model.context=8"]), tmp_path / "n")


def test_a_problem_without_a_solution_among_others_is_named(tmp_path: Path) -> None:
    """Whether the first one has a solution is all that is known before."""
    row = {"id": "3", "problem": "3=", "answer": "1"}
    (tmp_path / "test.jsonl").write_text(json.dumps({**row, "problem": "33="}))
    sides = {"train_data": str(tmp_path / "train.jsonl"), "heldout_data": str(tmp_path / "test.jsonl"), "id": "id"}
    rows = [{**row, "steps": "1"}, {**row, "id": "5", "problem": "5=", "steps": None}]
    for order in (rows, rows[::-1]):  # one of the two begins with the solved one
        (tmp_path / "train.jsonl").write_text("".join(json.dumps(each) + "\n" for each in order))
        sft = load_sft({"table": {**sides, "solution": "steps"}}, ["steps=2", "problems=2", "learn.warmup=0 steps"])
        with pytest.raises(UserError, match=r"problem '5' has no solution to train on|'table' has no worked solutions"):
            sft_command(sft, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_what_was_interrupted_goes_on_as_if_it_had_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted in the middle between two saves; warm-up and cosine, which depend on the step, go on too."""
    monkeypatch.setattr(sft_module, "SAVE_EVERY", 2)
    sft = load_sft("countdown", ["steps=8", "problems=2", "learn.warmup=3 updates"])
    assert sft_command(sft, tmp_path / "whole") == 0
    advance, steps = Progress.advance, iter(range(100))

    def interrupted(progress: Progress, amount: int) -> None:
        if next(steps) == 5:  # the first call says where it begins
            raise KeyboardInterrupt
        advance(progress, amount)

    monkeypatch.setattr(Progress, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sft_command(sft, tmp_path / "m")
    monkeypatch.setattr(Progress, "advance", advance)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.unfinished", "whole"]
    with pytest.raises(
        UserError, match=r"m\.unfinished has an unfinished training with other settings \(learn, task\); remove it"
    ):
        sft_command(load_sft("countdown", ["steps=8", "problems=2", "task.countdown.seed=1"]), tmp_path / "m")
    capsys.readouterr()
    assert sft_command(sft, tmp_path / "m") == 0
    assert "going on after step 4" in " ".join(capsys.readouterr().err.split())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m", "whole"]
    one, other = (load_policy(str(tmp_path / name)).model.state_dict() for name in ("whole", "m"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    told = [json.loads((tmp_path / name / "outrider.json").read_text())["loss"] for name in ("whole", "m")]
    assert told[0] == told[1]
    assert len(told[0]) == 8


@pytest.mark.parametrize("prompts", [False, True])
def test_what_is_learnt_of_a_text(prompts: bool) -> None:
    """Its tokens are those that the model reads when it is asked; of a prompt none is learnt, or all but the first."""
    task = WordProblems(examples=1.0, steps=(2, 3))
    problems = [task.train(i) for i in range(10)]
    policy = untrained(0, subword_tokenizer((p.prompt + p.metadata["solution"] for p in problems), 500), NewModel())
    encode = policy.tokenizer
    for problem in problems:
        row, asked = solution_row(policy, problem, prompts), encode(problem.prompt)["input_ids"]
        assert [*row.context_ids, *row.token_ids][: len(asked)] == asked
        learnt = encode.decode(row.token_ids[row.trainable_N])
        solution = problem.metadata["solution"] + encode.eos_token
        assert learnt == problem.prompt + solution if prompts else learnt == solution


def test_a_model_goes_on_from_what_it_has_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In two calls with constant rates the first loss of the second is near the last of the first, and it is not in a
    model from nothing; the first model stays as it was."""
    told = ["steps=120", "problems=8", "learn.schedule=constant"]
    assert sft_command(load_sft("countdown", told), tmp_path / "one") == 0
    before = load_policy(str(tmp_path / "one")).model.state_dict()
    more = [*told[1:], "steps=1", f"base={tmp_path / 'one'}", "learn.lr=2e-3", "task.countdown.seed=1"]
    capsys.readouterr()
    assert sft_command(load_sft("countdown", more), tmp_path / "two") == 0
    assert "on the packed path" in capsys.readouterr().err
    one, two = (json.loads((tmp_path / name / "outrider.json").read_text()) for name in ("one", "two"))
    assert two["settings"]["base"] == str(tmp_path / "one")
    assert two["loss"]["0"] == pytest.approx(one["loss"]["114"], rel=0.15)
    assert two["loss"]["0"] < 0.6 * one["loss"]["0"]
    after = load_policy(str(tmp_path / "one")).model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ([], r"^base=base:hops is already trained: set learn\.lr=\.\.\. too; the default, 0\.002, is for new models$"),
        (
            ["learn.lr=1e-3", "model.layers=4"],
            "^model.layers applies only to new models, and base=base:hops is trained$",
        ),
        (["learn.lr=1e-3", "seed=0"], "^seed applies only to new models, and base=base:hops is trained$"),
    ],
)
def test_what_is_of_new_models_is_not_said_of_others(told: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_sft("countdown", ["base=base:hops", *told])


@pytest.mark.parametrize("init", [0.02, 0.07])
def test_the_first_weights_are_as_large_as_asked(tmp_path: Path, init: float) -> None:
    sft = load_sft("countdown", ["steps=1", "problems=2", "learn.lr=1e-9", f"model.init={init}"])
    assert sft_command(sft, tmp_path / "m") == 0
    for name, matrix in load_policy(str(tmp_path / "m")).model.named_parameters():
        if matrix.ndim == 2:  # 4,864 numbers at least: a hundredth off by chance
            assert matrix.std().item() == pytest.approx(init, rel=0.05), name


def test_prompts_are_learnt_where_that_is_asked_for(tmp_path: Path) -> None:
    missed = {}
    for prompts in ("true", "false"):
        sft = load_sft("countdown", ["steps=40", "problems=8", "learn.lr=3e-3", f"prompts={prompts}"])
        assert sft_command(sft, tmp_path / prompts) == 0
        policy = load_policy(str(tmp_path / prompts))
        ids = policy.encode(sft.task.train(0))
        with torch.no_grad():
            logits_TV = policy.model(torch.as_tensor(ids)[None]).logits[0]
        missed[prompts] = -logits_TV[:-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]].mean().item()
    assert missed["true"] < missed["false"] - 0.5


def test_prompts_of_demonstrations_with_turns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^prompts=true is not supported for task 'hops'"):
        sft_command(load_sft("hops", ["steps=1", "problems=2", "prompts=true"]), tmp_path / "m")
    assert not (tmp_path / "m").exists()
