"""What a bench refuses, and what it would do: the command line without any run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from outrider.bench.begin import _differences
from outrider.bench.cell import cells_of, recipe_file
from outrider.bench.spec import Bench, Tune, load_recipes, settle
from outrider.cli import main
from outrider.config import Recipe, dump_yaml, load_recipe, read_yaml

TWO = ["bench", "grpo", "dr-grpo", "--out", "there"]
TABLE = "{table: {train_data: train.jsonl, heldout_data: heldout.jsonl}}"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, model, changes in (("other", "base:countdown", {"max_tokens": 50}), ("moved", "base:other", {})):
        data = load_recipe("grpo").resolved() | {"name": name, "model": model}
        data["sample"] |= changes
        Path(f"{name}.yaml").write_text(dump_yaml(data))
    for name, start in (("train", 0), ("heldout", 9)):
        rows = [json.dumps({"problem": f"{i} + 1 =", "answer": str(i + 1)}) for i in range(start, start + 4)]
        Path(f"{name}.jsonl").write_text("\n".join(rows))
    Path("twin.yaml").write_text(dump_yaml(load_recipe("grpo").resolved()))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bench", "seed=1", "--out", "x"], "bench needs at least one recipe, as in `outrider bench grpo dr-grpo"),
        (["bench", "gropo", "--out", "x"], "there is no recipe 'gropo' (did you mean 'grpo'?)"),
        ([*TWO, "seed=3"], "seed=3: the bench sets seed; use --seeds and --first-seed"),
        ([*TWO, "train.tokens=5"], "train.tokens=5: the bench sets train.tokens; use --tokens"),
        (
            [*TWO, "train={problems: 2, steps: 5}"],
            "train={problems: 2, steps: 5}: the bench sets train.steps; use",
        ),
        ([*TWO, "lr=1e-4"], "lr=1e-4: lr is not a key (did you mean 'learn.lr'?)"),
        ([*TWO, "twin.yaml"], "two recipes have the name 'grpo'; set another `name` in one of the files"),
        ([*TWO, "--seeds", "0"], "bench: seeds is 0, but should be at least 1"),
        ([*TWO, "--first-seed", "-1"], "bench: first_seed is -1, but should be at least 0"),
        (
            [*TWO, "--first-seed", "996"],
            "bench: first_seed 996 and 5 seeds exceed 999; seeds from 1000 on are reserved for",
        ),
        ([*TWO, "--tokens", "0"], "bench: tokens is 0, but should be at least 1"),
        ([*TWO, "--points", "0"], "bench: points is 0, but should be at least 1"),
        (
            [*TWO, "--base", "drgrpo"],
            "bench: base is 'drgrpo', which is not among the compared recipes (did you mean 'dr-grpo'?)",
        ),
        ([*TWO, "--at-once", "0"], "at_once is 0, but should be from 1 to "),
        (
            [*TWO, "other.yaml"],
            "other has other evaluation settings than grpo: sample.max_tokens is 50, not 96; set it for all recipes",
        ),
        (
            [*TWO, "moved.yaml"],
            'moved has other evaluation settings than grpo: model is "base:other", not "base:countdown"; set',
        ),
        ([*TWO, "--tune", "learn.lr"], "--tune must be key=value,value, such as learn.lr=5e-5,1e-4, not 'learn.lr'"),
        (
            [*TWO, "--tune", "learn.lr=1e-4"],
            "bench: tune: there is nothing to tune: give at least one key two or more values",
        ),
        (
            [*TWO, "--tune", "learn.lr=1e-4,1e-3", "--tune", "learn.lr=1"],
            "--tune learn.lr=1: learn.lr is given twice",
        ),
        ([*TWO, "--tune", "learn.lr=1e-4,fast"], 'learn.lr="fast": learn.lr is "fast", but should be a number'),
        ([*TWO, "--tune", "lr=1e-4,1e-3"], "lr=0.0001: lr is not a key (did you mean 'learn.lr'?)"),
        ([*TWO, "--tune", "train.steps=1,2"], "--tune train.steps=1,2: the bench sets train.steps"),
        (
            [*TWO, "--tune", "learn.lr=1e-4,1e-3", "--tune-by", "pass@2"],
            'bench: tune.by is "pass@2", but should be \'p',
        ),
        ([*TWO, "--tune-seeds", "2"], "--tune-seeds is given, but --tune is not"),
        ([*TWO, "--final-test-skip", "2"], "--final-test-skip is given, but --final-test is not"),
        (
            [*TWO, "--final-test", "9", "--final-test-skip", "299"],
            "--final-test-skip 299 is too small: this bench itself evaluates on 300 problems",
        ),
        (
            [*TWO, f"task={TABLE}", "--final-test", "9"],
            "task 'table' has 4 held-out problems, but 300 are requested (evaluate.problems) and 9 for the final test "
            "set after the first 300 (--final-test)",
        ),
        (
            [*TWO, "--steps", "9", "--tune", "learn.lr=1,2"],
            "--tune needs --tune-tokens where the budget is not in tokens",
        ),
        (
            [*TWO, f"task={TABLE}", "--tune", "learn.lr=1e-4,1e-3", "--tune-problems", "3"],
            "task 'table' has 4 held-out problems, but 300 are requested (evaluate.problems) and 3 others for tuning",
        ),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"outrider: {sentence}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not Path("there").exists()


def test_two_budgets_do_not_parse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*TWO, "--tokens", "9", "--steps", "3"])
    assert ended.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_a_dry_run_counts_the_tokens_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "3", "--tokens", "1_000_000", "--tune", "learn.lr=1e-4,2e-4", "--tune-seeds", "2", "--dry-run"]
    assert main([*TWO, *words, "evaluate.problems=100", "--final-test", "50"]) == 0
    out = capsys.readouterr().out
    assert "training: 6 runs (grpo, dr-grpo; 3 seeds), 6 x 1,000,000 = 6,000,000 generated tokens" in out
    assert "tuning: 8 runs" in out
    assert "8 x 1,000,000 = 8,000,000 generated tokens" in out
    # 4 points of 6 runs and twice before, 100 problems of 64 samples and a greedy response, 96 tokens each
    assert f"26 x 6,500 responses of at most 96 tokens: at most {26 * 6500 * 96:,}" in out
    # the last policies of 6 runs and the first one, 50 problems
    assert f"7 x 3,250 responses of at most 96 tokens: at most {7 * 3250 * 96:,}" in out
    assert f"8 x 13,000 responses of at most 96 tokens: at most {8 * 13000 * 96:,}" in out
    settings = read_yaml(out.split("\n\n")[1], "plan")
    assert Bench.model_validate(settings).tune.tokens == 1_000_000
    assert not Path("there").exists()


def test_a_dry_run_tells_where_the_seeds_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TWO, "--seeds", "3", "--first-seed", "5", "--dry-run"]) == 0
    assert "training: 6 runs (grpo, dr-grpo; 3 seeds from 5 on), " in capsys.readouterr().out


def test_a_bench_of_one_tuned_key_is_read_as_it_was_written() -> None:
    old = {"key": "learn.lr", "values": [1e-4, 4e-4], "tokens": 10}
    assert Bench(recipes=["grpo"], base="grpo", tokens=9, tune=old).tune == Tune(
        values={"learn.lr": [1e-4, 4e-4]}, tokens=10
    )


def test_a_dry_run_tells_every_key_that_is_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "3", "--tune", "learn.lr=1e-4,2e-4", "--tune", "learn.minibatches=1,2,4", "--dry-run"]
    assert main([*TWO, *words]) == 0
    out = capsys.readouterr().out
    assert (
        "tuning: 12 runs before the comparison (learn.lr in 0.0001, 0.0002 x learn.minibatches in 1, 2, 4; 1 seeds"
        in out
    )


@pytest.mark.parametrize(
    ("budget", "limits"),
    [({"tokens": 500}, (500, None, None)), ({"steps": 7}, (None, 7, None)), ({"seconds": 2.5}, (None, None, 2.5))],
)
def test_every_recipe_gets_the_same_budget_and_points(budget: dict, limits: tuple) -> None:
    bench = Bench(recipes=["grpo", "dr-grpo"], base="grpo", points=4, **budget)
    for recipe in load_recipes(bench.recipes, ["train.problems=8"]).values():
        settled = settle(recipe, bench)
        train = settled.train
        assert (train.tokens, train.steps, train.seconds) == limits
        assert (train.evaluate_at, train.evaluate_every, train.ranks) == ([0.25, 0.5, 0.75], 0, 1)
        assert (settled.evaluate.before, settled.evaluate.after, settled.evaluate.skip) == (False, True, 0)
        changed = {re.split(r": ", line)[0] for line in recipe.difference(settled)}
        assert {key.split(".")[0] for key in changed} <= {"train", "evaluate"}
        assert Recipe.model_validate(settled.resolved()) == settled


def test_a_bench_begins_with_the_seed_that_it_is_asked_for(tmp_path: Path) -> None:
    recipe_file(tmp_path, "grpo").parent.mkdir()
    recipe_file(tmp_path, "grpo").write_text(dump_yaml(load_recipe("grpo").resolved()))
    bench = Bench(recipes=["grpo"], base="grpo", seeds=3, first_seed=5, tokens=100)
    cells = cells_of(tmp_path, bench, "grpo", {})
    assert [(cell.seed, cell.path.name) for cell in cells] == [(5, "5"), (6, "6"), (7, "7")]
    assert all(f"seed={cell.seed}" in cell.overrides for cell in cells)


def test_a_bench_may_grow_and_not_shrink(tmp_path: Path) -> None:
    tune = {"values": {"learn.lr": [1e-4, 4e-4]}, "tokens": 10}
    began = Bench(recipes=["grpo"], base="grpo", seeds=3, tokens=100, tune=tune)

    def more(*rates: float) -> dict[str, object]:
        return {"values": {"learn.lr": list(rates)}}

    def differences(**changes: object) -> list[str]:
        asked = Bench.model_validate(began.model_dump() | changes)
        return _differences(began, asked, dict.fromkeys(asked.recipes), tmp_path)

    assert differences(seeds=5, recipes=["grpo", "dapo"], tune=tune | more(1e-4, 2e-4, 4e-4)) == []
    kept = {"problems": 9, "skip": None}
    assert differences(final_test=kept) == []
    began = Bench.model_validate(began.model_dump() | {"final_test": kept})
    for other in (None, kept | {"problems": 10}, kept | {"skip": 500}):
        assert [line.split(":")[0] for line in differences(final_test=other)] == ["final_test"]
    assert differences(seeds=2) == ["seeds: 3 -> 2"]
    assert differences(first_seed=1) == ["first_seed: 0 -> 1"]
    assert differences(recipes=["dapo"], base="dapo") == ["base: grpo -> dapo", "without grpo"]
    for other in (tune | more(1e-4, 2e-4), tune | {"tokens": 20}, None):
        assert [line.split(":")[0] for line in differences(tune=other)] == ["tune"]


def test_a_bench_without_a_folder_goes_to_one_of_its_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says before it runs what the dry run says it costs."""
    monkeypatch.chdir(tmp_path)
    words = ["bench", "grpo", "dr-grpo", "--tokens", "1000", "evaluate.problems=5", "evaluate.n=2"]
    assert main([*words, "--dry-run"]) == 0
    planned = capsys.readouterr().out.splitlines()
    monkeypatch.setattr("outrider.bench.bench_command._compare", lambda *_: sys.exit(7))  # no run begins
    with pytest.raises(SystemExit, match="7"):
        main(words)
    assert (tmp_path / "runs" / "bench-grpo-dr-grpo" / "bench.yaml").is_file()
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == planned[:2]
    assert said[0].startswith("training: 10 runs (grpo, dr-grpo; 5 seeds), 10 x 1,000 = 10,000 generated tokens")
    assert said[-1] == "bench folder: runs/bench-grpo-dr-grpo"


@pytest.mark.parametrize(("old", "now"), [("--untouched", "--final-test"), ("--untouched-skip", "--final-test-skip")])
def test_an_option_of_0_2_is_an_error_with_its_present_name(old: str, now: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "grpo", "dr-grpo", old, "9"])
    assert capsys.readouterr().err.endswith(f"{old} is now {now}\n")
