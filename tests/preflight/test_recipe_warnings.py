"""What a dry run and a run say beforehand: work for nothing, or out of proportion, and what is not there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from outrider.cli import main
from outrider.config import list_recipes, load_recipe
from outrider.preflight import recipe_warnings as module
from outrider.preflight.recipe_warnings import OUT_OF_PROPORTION, recipe_warnings

SMALL = [
    *("train.problems=4", "train.tokens=null", "train.steps=2", "train.trackers=[]", "train.ranks=1"),
    *("sample.max_tokens=40", "evaluate.problems=2", "evaluate.n=2", "evaluate.bootstrap=0"),
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(name: str, *overrides: str, heldout: int | None = None, setting: str = "countdown") -> list[str]:
    return recipe_warnings(load_recipe(name, overrides, setting), heldout)


@pytest.mark.parametrize("name", [info.name for info in list_recipes()])
@pytest.mark.parametrize("setting", ["countdown", "paper"])
def test_nothing_is_said_of_a_shipped_recipe(name: str, setting: str) -> None:
    assert said(name, setting=setting) == []


# nothing to learn from


ZERO = "every advantage will be 0, whatever the verdicts, so "


@pytest.mark.parametrize(
    ("name", "overrides", "reason"),
    [
        ("grpo", ["explore.0.n=1"], "explore.0 gives a problem 1 rollout, which credit.main cannot compare"),
        ("dr-grpo", ["explore.0.n=1"], "explore.0 gives a problem 1 rollout,"),
        ("rloo", ["explore.0.n=1"], "explore.0 gives a problem 1 rollout,"),
        ("maxrl", ["explore.0.n=1"], "explore.0 gives a problem 1 rollout,"),
        ("reinforce-pp", ["explore.0.n=1"], "explore.0 gives a problem 1 rollout,"),
        ("greso", ["explore.1.n=1"], "explore.1 gives a problem 1 rollout,"),
        ("dapo", ["explore.0.n=1"], "explore.0 gives a problem 1 rollout,"),
        ("passk-training", ["credit={main: [{passk: {k: 8}}]}"], "explore.0 gives a problem 8 rollouts,"),
        ("grpo", ["reward={correct: 1, incorrect: 1, unparseable: 1}"], "all verdicts have the same reward"),
        # and where there is something
        ("grpo", ["explore.0.n=2"], ""),
        ("nsr", ["explore.0.n=1"], ""),
        ("remax", ["explore.0.n=1"], ""),
        ("reinforce-pp", ["explore.0.n=1", "credit={main: [{reinforce_pp: {group_mean: false}}]}"], ""),
        ("dars-hw", ["explore.0.n=1"], ""),  # the second pass adds to it
        ("grpo", ["reward={correct: 1, incorrect: 1, unparseable: 0}"], ""),
        ("passk-training", ["credit={main: [{passk: {k: 7}}]}"], ""),
    ],
)
def test_a_run_that_cannot_learn_is_told(name: str, overrides: list[str], reason: str) -> None:
    found = said(name, *overrides)
    assert found == [] if not reason else found[0].startswith(f"{ZERO}the policy is never updated: {reason}")


def test_with_a_kl_it_is_only_the_verdicts_that_teach_nothing() -> None:
    assert said("grpo", "explore.0.n=1", "objective.kl=0.1")[0].startswith(f"{ZERO}nothing is learned from them: ")


def test_a_run_says_it_and_it_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "grpo", *SMALL, "explore.0.n=1", "--out", "run"]) == 0
    sentence = f"warning: {ZERO}the policy is never updated: explore.0 gives a problem 1 rollout"
    assert sentence in Path("run/notices.txt").read_text()
    assert sentence in " ".join(capsys.readouterr().err.split())
    steps = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [step.get("learn/updates", 0) for step in steps] == [0, 0]
    assert [step["learn/skipped_no_signal"] for step in steps] == [1, 1]


def test_what_learns_later_on_is_not_said_to_learn_nothing() -> None:
    """Of nine samples of which the best counts, eight rollouts say nothing; k falls to 1."""
    assert said("passk-annealed", "credit.main.0.annealed_passk.first=9") == [
        "every advantage will be 0 in the first steps, whatever the verdicts: explore.0 gives a problem 8 rollouts, "
        "which credit.main cannot compare then"
    ]
    assert said("passk-annealed", "credit.main.0.annealed_passk.first=8") != []
    truncated = ("credit.main.0.annealed_passk={first: 9, steps: 1000}", "train.steps=10", FEW)
    assert said("passk-annealed", *truncated)[0].startswith(f"{ZERO}the policy is never updated")
    assert said("passk-annealed", "credit.main.0.annealed_passk.first=7") == []


def test_updates_in_which_problems_count_unevenly_are_told() -> None:
    """Groups of one size count the same in every update."""
    [sentence] = said("invest", "learn.minibatches=4")
    assert sentence == (
        "credit.main assumes that all problems have equal weight, but learn.minibatches is 4: a problem has less "
        "weight in an update in which others have many rollouts"
    )
    assert said("invest", "learn.minibatches=4", "explore=[uniform]") == []


def test_a_reward_for_errors_is_told() -> None:
    [sentence] = said("grpo", "reward={correct: 0, incorrect: 1, unparseable: 0}")
    assert sentence == "reward.correct is 0, less than reward.incorrect, 1: errors are rewarded"


# too short

FEW = "evaluate={problems: 1, n: 1}"


@pytest.mark.parametrize(
    ("name", "overrides", "sentence"),
    [
        (
            "dapo",
            ["train.steps=19"],
            "learn.warmup is 20 steps, but the run ends during warm-up, after 19 steps (train.steps)",
        ),
        ("dapo", ["train.steps=20"], ""),
        (
            "rloo",
            ["train.steps=17"],
            "learn.warmup is 36 updates, but the run ends during warm-up, after 17 steps (train.steps)",
        ),
        ("rloo", ["train.steps=18"], ""),  # of two updates each
        (
            "position",
            ["train.steps=199"],
            "credit.main.2 is active from step 200 on, but the run ends after 199 (train.steps)",
        ),
        ("position", ["train.steps=200"], ""),
    ],
)
def test_a_run_that_ends_before_something_begins_is_told(name: str, overrides: list[str], sentence: str) -> None:
    assert said(name, FEW, *overrides, setting="paper") == ([sentence] if sentence else [])


def test_a_bench_says_it_of_each_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "grpo", "nsr", "explore.0.n=1", "--tokens", "2000000", "--out", "b", "--dry-run"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")]
    assert [line.split()[1] for line in told] == ["grpo:"]


# out of proportion


@pytest.mark.parametrize(
    ("overrides", "times"),
    [
        # 300 problems, 64 samples and a greedy one, before and after; a step of 32 * 8 responses; 96 tokens each
        (["train.tokens=null", "train.steps=2"], 2 * 300 * 65 / (2 * 32 * 8)),
        (["train.tokens=null", "train.steps=2", "evaluate.before=false"], 300 * 65 / (2 * 32 * 8)),
        (["train.tokens=null", "train.steps=40", "train.evaluate_every=1"], 42 * 300 * 65 / (40 * 32 * 8)),
        (["train.tokens=20000"], 2 * 300 * 65 * 96 / 20_000),
        (["train.tokens=20000", "train.evaluate_at=[0.5]"], 3 * 300 * 65 * 96 / 20_000),
        (["train.tokens=2000000"], 0),
        (["train.tokens=null", "train.steps=0"], 0),  # none was wanted
        (["train.tokens=null", "train.seconds=1"], 0),  # unknown
    ],
)
def test_evaluations_out_of_proportion_are_told(overrides: list[str], times: float) -> None:
    found = said("grpo", "learn.warmup=0 steps", *overrides)
    if times <= OUT_OF_PROPORTION:
        assert found == []
    else:
        assert f", {times:,.0f} times the " in found[0]
        assert "evaluate.problems=300, evaluate.n=64" in found[0]


def test_what_there_is_to_evaluate_on_counts_and_not_what_was_asked_for() -> None:
    few = ["train.tokens=null", "train.steps=40", "evaluate.problems=100000"]
    assert len(said("grpo", *few)) == 1
    assert said("grpo", *few, heldout=10) == []


def test_more_ranks_than_cores_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cores", lambda: [0, 1])
    assert said("grpo", "train.ranks=2") == []
    [sentence] = said("grpo", "train.ranks=3")
    assert sentence == "train.ranks is 3, but there are 2 cores for them; the ranks share cores and wait for each other"
    assert said("grpo", "train.ranks=1", "train.lag=1") == []
    [sentence] = said("grpo", "train.ranks=2", "train.lag=1")
    assert "2 cores for them and their sampling processes;" in sentence


def test_a_dry_run_says_all_of_it_in_comments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    asked = ["explore.0.n=1", "train.steps=1", "train.ranks=999", "train.trackers=[tensorboard, wandb]"]
    assert main(["train", "grpo", *asked, "--dry-run"]) == 2, "999 processes do not fit the memory, which comes last"
    shown = capsys.readouterr().out
    Path("shown.yaml").write_text(shown)
    assert load_recipe("shown.yaml").train.ranks == 999, "what is printed is a recipe still"
    told = [line for line in shown.splitlines() if line.startswith("# warning: ")]
    assert [line.split()[2] for line in told] == ["every", "learn.warmup", "train.ranks", "the", "tracker"]


# what is not there


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_missing_tracker_is_told_before_a_folder_is_made(
    package: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # what an import finds where nothing is installed
    overrides = [o for o in SMALL if "trackers" not in o]
    assert main(["train", "grpo", *overrides, f"train.trackers=[{package}]", "--out", "run"]) == 2
    assert f"tracker '{package}' needs a package that is not installed" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["train", "grpo"],
        ["evaluate", "base:countdown", "--task", "countdown"],
        ["bench", "grpo"],
        ["sft", "countdown"],
        ["score", "x.jsonl", "--task", "countdown"],
        ["report", "x"],
        ["compare", "x", "y"],
        ["validate", "countdown"],
        ["analyse", "tokens", "x"],
    ],
)
@pytest.mark.parametrize("empty", ["", " "])
def test_no_command_takes_nothing_for_a_folder(
    command: list[str], empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main([*command, "--out", empty])
    assert exited.value.code == 2
    assert "argument --out: it is empty; name a folder, as in runs/a" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["report", ""],
        ["show", ""],
        ["compare", "x", ""],
        ["score", "", "--task", "countdown"],
        ["analyse", "tokens", " "],
    ],
)
def test_no_command_reads_the_working_directory_for_nothing(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(command)
    assert exited.value.code == 2
    assert "it is empty; name a folder, as in runs/a" in capsys.readouterr().err
