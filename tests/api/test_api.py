"""Outrider from Python: the same runs as from the command line, and what only Python can be given."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import outrider
from outrider.api.arguments import recipe_of
from outrider.api.rewards import InProcess, style_of, verifier_of
from outrider.api.rows import table_of
from outrider.cli import main
from outrider.errors import UserError
from outrider.importing import load_object
from outrider.record import Outcome, Problem
from outrider.tasks.heldout import heldout_problems
from outrider.testing import check_stage

SMALL = {
    "train.problems": 4,
    "train.tokens": None,
    "train.steps": 2,
    "train.save_every": 1,
    "train.trackers": [],
    "sample.max_tokens": 24,
    "evaluate.problems": 4,
    "evaluate.n": 2,
    "evaluate.bootstrap": 50,
}
ROWS = [{"problem": f"{a}+{b}", "answer": str(a + b)} for a in range(5) for b in range(5)]


def contains(problem: Problem, completion: str) -> float:
    """A reward function of a module."""
    return float(problem.answer["answer"] in completion)


def with_trl(completions: list[str], answer: list[str], **columns: Any) -> list[float]:
    """With TRL's signature."""
    return [float(a in c) for c, a in zip(completions, answer, strict=True)]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def overrides() -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in {"train.ranks": 1, **SMALL}.items()]


# the three others of tools/same_results.py, and an agent's, take minutes
@pytest.mark.parametrize(
    ("recipe", "setting"),
    [
        ("grpo", None),
        ("dars-hw", None),
        *(
            pytest.param(name, setting, marks=pytest.mark.slow)
            for name, setting in (("xrpo", None), ("deep-grpo", None), ("treerl", None), ("grpo", "hops"))
        ),
    ],
)
def test_python_and_the_command_line_give_equal_runs(recipe: str, setting: str | None) -> None:
    run = outrider.train(recipe, setting=setting, config=SMALL, out="python")
    where = [] if setting is None else ["--setting", setting]
    assert main(["train", recipe, *where, *overrides(), "--out", "command"]) == 0
    other = outrider.load_run("command")
    for file in ("config.yaml", "metrics.jsonl", "model/model.safetensors"):
        assert (run.path / file).read_bytes() == (other.path / file).read_bytes(), file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> outrider.Run:
    place = tmp_path_factory.mktemp("run")
    options = {
        "model": "base:countdown",
        "data": ROWS[:20],
        "eval_data": pd.DataFrame(ROWS[20:]),
        "prompt": "{problem}",
    }
    return outrider.train(reward=contains, config=SMALL | {"explore.0.n": 4}, out=place / "a", **options)


def test_a_run_is_read_as_frames(run: outrider.Run) -> None:
    assert list(run.metrics["step"]) == [1, 2]
    assert run.metrics["tokens"].is_monotonic_increasing
    assert list(run.evaluations["step"]) == [0, 2]
    assert {"pass@1", "pass@1_low", "pass@2_high", "greedy", "entropy"} <= {*run.evaluations.columns}
    both = [run.rollouts(step=2, correct=correct) for correct in (True, False)]
    assert sum(map(len, both)) == len(run.rollouts(step=2)) == 16
    assert set(both[0]["outcome"]) <= {"correct"}
    assert "correct" not in set(both[1]["outcome"])
    assert list(run.rollouts(columns=["text", "reward"], correct=False).columns) == ["text", "reward"]
    assert len(run.rollouts()) == 32
    with pytest.raises(UserError, match=r"holds no train rollouts of step 9 \(there are: 1 to 2\)"):
        run.rollouts(step=9)


def test_a_run_shows_itself(run: outrider.Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert repr(run) == f"Run({str(run.path)!r}, 2 steps, 2 evaluations)"
    assert len(run.plot().axes) >= 4
    assert run._repr_html_().startswith("<p>Run(")
    assert run.report().read_text().lower().startswith("<!doctype html>")
    assert capsys.readouterr().out == ""
    model, tokenizer = run.model()
    assert model.config.vocab_size >= len(tokenizer)
    assert run.recipe.name == "grpo"


def test_rows_are_kept_beside_the_run(run: outrider.Run) -> None:
    table = run.config["task"]["table"]
    kept = [json.loads(line) for line in Path(table["train_data"]).read_text().splitlines()]
    assert kept == ROWS[:20]
    assert Path(table["heldout_data"]).parent == run.path.parent / "data"
    assert table["verifier"] == {"function": table["verifier"]["function"]}
    assert table["verifier"]["function"]["function"].endswith(":contains")


def test_a_run_goes_on(tmp_path: Path) -> None:
    whole = outrider.train(config=SMALL | {"train.steps": 3}, out="whole")
    short = outrider.train(config=SMALL | {"train.steps": 3, "evaluate.after": False}, out="cut")
    with pytest.raises(UserError, match=r"was started with other settings \(evaluate.after: false -> true"):
        short.resume({"evaluate.after": True})
    for step in (2, 3):  # as a kill after step 1 leaves it
        for folder in (short.path / "checkpoints").glob(f"*{step:08d}*"):
            folder.rename(tmp_path / folder.name)
    again = short.resume()
    assert [*again.metrics["reward"]] == [*whole.metrics["reward"]]


def test_a_function_of_this_process_alone_is_called_here() -> None:
    seen = []

    def reward(problem: Problem, completion: str) -> float:
        seen.append(completion)
        if len(seen) == 3:
            raise ValueError("the author's mistake")
        return 1.0

    data = {"data": ROWS[:20], "eval_data": ROWS[20:], "prompt": "{problem}"}
    run = outrider.train(model="base:countdown", reward=reward, config=SMALL | {"explore.0.n": 4}, out="a", **data)
    assert len(seen) > 32
    assert (
        "the reward function can only be called in this process, without a time limit"
        in (run.path / "notices.txt").read_text()
    )
    with pytest.raises(UserError, match=r"train.ranks asks for others"):
        outrider.train(model="base:countdown", reward=reward, config=SMALL | {"train.ranks": 2}, out="b", **data)
    assert not Path("b").exists()


def test_what_such_a_function_raises_is_an_error_and_no_zero() -> None:
    def fails(problem: Problem, completion: str) -> float:
        raise ValueError("the author's mistake")

    problem = Problem("p", "1+1", {"answer": "2", "fields": {}})
    for reward, detail in (
        (fails, "ValueError: the author's mistake"),
        (lambda problem, completion: None, "returned None, not a number"),
    ):
        verdict = verifier_of(reward).verify(problem, "2", finished=True)
        assert verdict.outcome is Outcome.ERROR
        assert verdict.score != verdict.score
        assert detail in verdict.detail


def test_a_function_of_a_module_is_named_and_one_of_trls_signature_is_called_so() -> None:
    assert style_of(with_trl) == "trl"
    assert style_of(contains) == "plain"
    where = verifier_of(with_trl)["function"]
    assert where == {"function": f"{__name__}:with_trl", "style": "trl"}
    assert isinstance(verifier_of(lambda completions, **columns: [1.0]), InProcess)
    for given in ("math", {"exact": {}}):
        assert verifier_of(given) == given


def test_a_run_whose_component_is_gone_goes_on_by_force_alone() -> None:
    Path("mine.py").write_text(STAGE)
    config = SMALL | {"explore": ["uniform", "mine.py:Idle"], "train.steps": 1}
    outrider.train(config=config, out="a")
    Path("mine.py").rename("other.py")
    config["explore"] = ["uniform", "other.py:Idle"]
    with pytest.raises(
        UserError, match=r"started with other settings .*cannot be read: explore.1: stage 'mine.py:Idle'"
    ):
        outrider.train(config=config, out="a", resume=True)
    assert len(outrider.train(config=config | {"train.steps": 2}, out="a", resume=True, force=True).metrics) == 2


def test_a_run_whose_reward_function_changed_goes_on_by_force_alone() -> None:
    given = {"data": ROWS[:20], "eval_data": ROWS[20:], "prompt": "{problem}", "model": "base:countdown"}
    config = SMALL | {"train.steps": 1, "task.table.verifier": {"function": {"function": "mine.py:reward"}}}
    Path("mine.py").write_text("def reward(problem, completion):\n    return 1.0\n")
    run = outrider.train(config=config, out="a", **given)
    assert run.config["components"]["mine.py:reward"]["source"]
    assert len(outrider.train(config=config, out="a", resume=True, **given).metrics) == 1
    Path("mine.py").write_text("def reward(problem, completion):\n    return 0.0\n")
    with pytest.raises(UserError, match=r"started with other settings \(components.mine.py:reward.source: "):
        outrider.train(config=config, out="a", resume=True, **given)
    outrider.train(config=config, out="a", resume=True, force=True, **given)

    here = outrider.train(config=SMALL | {"train.steps": 1}, out="b", reward=lambda problem, completion: 1.0, **given)
    with pytest.raises(UserError, match=r"started with other settings \(components."):
        here.resume(reward=lambda problem, completion: 0.0)


STAGE = """
from outrider import Stage

class Idle(Stage):
    def plan(self, view):
        return []
"""


def test_a_session_trains_as_the_function_does_step_by_step() -> None:
    whole = outrider.train(config=SMALL | {"train.evaluate_every": 1}, out="whole")
    seen = []
    with outrider.Session(config=SMALL | {"train.evaluate_every": 1}, out="steps") as session:
        assert session.evaluate().overall.pass_at[1].problems == 4
        for step in session:
            seen.append((step.number, len(step.groups), step.metrics["tokens"]))
    assert seen == [(row.step, 4, row.tokens) for row in whole.metrics.itertuples()]
    for file in ("config.yaml", "metrics.jsonl", "model/model.safetensors", "evaluations/step-00000001.json"):
        assert (session.path / file).read_bytes() == (whole.path / file).read_bytes(), file


def test_a_run_that_schedules_no_evaluation_generates_held_out_problems_only_if_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never = SMALL | {"evaluate.before": False, "evaluate.after": False}
    assert not recipe_of("grpo", config=never).evaluates
    for scheduled in ({"evaluate.before": True}, {"train.evaluate_at": [0.5]}, {"train.evaluate_every": 1}):
        assert recipe_of("grpo", config=never | scheduled).evaluates
    made: list[int] = []

    def counted(*arguments: Any) -> list[Problem]:
        made.append(1)
        return heldout_problems(*arguments)

    monkeypatch.setattr("outrider.train.run.heldout_problems", counted)
    outrider.train(config=never, out="never")
    assert not made
    with outrider.Session(config=never, out="asked") as session:
        for _ in session:
            assert session.evaluate().overall.pass_at[1].problems == 4
    assert len(made) == 1
    assert len(list(Path("asked/evaluations").glob("*.json"))) == 2


def test_a_session_that_is_left_goes_on_to_the_same_end() -> None:
    config = SMALL | {"train.steps": 3, "train.save_every": 9}
    whole = outrider.train(config=config, out="whole")
    with outrider.Session(config=config, out="left") as session:
        for step in session:
            if step.number == 2:
                break
    assert not (session.path / "model").exists(), "it has not reached its limit"
    with outrider.Session(config=config, out="left", resume=True) as session:
        assert [step.number for step in session] == [3]
        assert session.save() == "after step 3"
    files = [(path / "model" / "model.safetensors").read_bytes() for path in (whole.path, session.path)]
    assert files[0] == files[1]
    assert list(session.run.metrics["step"]) == [1, 2, 3]


def test_an_error_in_a_session_is_the_callers_and_lets_go_of_the_folder() -> None:
    def fails() -> None:
        with outrider.Session(config=SMALL, out="a") as session:
            for _ in session:
                _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fails()
    with outrider.Session(config=SMALL, out="a", resume=True) as session:
        assert [step.number for step in session] == [1, 2]


class Watch(outrider.Callback):
    """What it was told, in order; ends the run after a step."""

    def __init__(self, last: int = 99) -> None:
        self.last = last
        self.seen: list[Any] = []

    def on_begin(self, session: outrider.Session) -> None:
        self.seen.append("begin")

    def on_step(self, session: outrider.Session, step: Any) -> bool:
        self.seen.append(step.number)
        return step.number == self.last

    def on_evaluation(self, session: outrider.Session, step: int, evaluation: Any) -> None:
        self.seen.append((step, evaluation.overall.problems))

    def on_end(self, session: outrider.Session) -> None:
        self.seen.append("end")


def test_callbacks_are_told_what_happens_and_change_nothing() -> None:
    watch, config = Watch(), SMALL | {"train.evaluate_every": 1, "train.steps": 3}
    plain = outrider.train(config=config, out="plain")
    watched = outrider.train(config=config, out="watched", callbacks=[watch])
    assert watch.seen == ["begin", (0, 4), 1, (1, 4), 2, (2, 4), 3, (3, 4), "end"]
    for file in ("metrics.jsonl", "model/model.safetensors", "evaluations/step-00000003.json", "table.md"):
        assert (plain.path / file).read_bytes() == (watched.path / file).read_bytes(), file


def test_a_callback_ends_the_run_with_evaluation_and_model() -> None:
    watch = Watch(last=2)
    run = outrider.train(config=SMALL | {"train.steps": 9, "train.save_every": 9}, out="a", callbacks=[watch, Watch()])
    assert watch.seen == ["begin", (0, 4), 1, 2, (2, 4), "end"]
    assert list(run.evaluations["step"]) == [0, 2]
    assert (run.path / "model" / "model.safetensors").exists()
    more = run.resume({"train.steps": 3}, force=True)
    assert list(more.metrics["step"]) == [1, 2, 3]


def test_a_session_left_at_its_last_step_is_finished() -> None:
    with outrider.Session(config=SMALL, out="a") as session:
        for step in session:
            if step.number == 2:
                break
    assert list(session.run.evaluations["step"]) == [0, 2]
    assert (session.path / "model" / "model.safetensors").exists()


def test_a_callback_that_ends_the_run_ends_a_loop_that_is_left_too() -> None:
    watch = Watch(last=1)
    with outrider.Session(config=SMALL | {"train.steps": 9}, out="a", callbacks=[watch]) as session:
        for _ in session:
            break
    assert watch.seen == ["begin", (0, 4), 1, (1, 4), "end"]
    assert (session.path / "model" / "model.safetensors").exists()


def test_a_session_is_finished_once_and_not_inside_an_evaluation() -> None:
    class Twice(Watch):
        def on_step(self, session: outrider.Session, step: Any) -> bool:
            session.finish()
            return super().on_step(session, step)

    watch = Twice(last=1)
    outrider.train(config=SMALL, out="a", callbacks=[watch])
    assert watch.seen.count("end") == 1

    class Inside(outrider.Callback):
        def on_evaluation(self, session: outrider.Session, step: int, evaluation: Any) -> None:
            session.finish()

    with pytest.raises(UserError, match="not for on_evaluation"):
        outrider.train(config=SMALL, out="b", callbacks=[Inside()])


def test_sigterm_in_a_session_saves_it_after_its_last_step(tmp_path: Path) -> None:
    code = f"""
import os, signal, outrider
with outrider.Session(config={SMALL | {"train.steps": 9, "train.save_every": 9}!r}, out="a") as session:
    for step in session:
        if step.number == 2:
            os.kill(os.getpid(), signal.SIGTERM)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert said.returncode != 0
    assert "`outrider train … --resume` goes on after step 2" in said.stderr
    assert [path.name for path in (tmp_path / "a" / "checkpoints").glob("step-*2")]


def test_a_callback_is_an_instance_of_its_class() -> None:
    with pytest.raises(UserError, match=r"is no outrider\.Callback"):
        outrider.train(config=SMALL, out="a", callbacks=[Watch])  # type: ignore[list-item]
    with pytest.raises(UserError, match="with callbacks, trains in this process alone"):
        outrider.train(config=SMALL | {"train.ranks": 2}, out="a", callbacks=[Watch()])


def test_a_session_is_of_one_process_and_used_in_its_block() -> None:
    with pytest.raises(UserError, match="a session, and a run with callbacks, trains in this process alone"):
        outrider.Session(config=SMALL | {"train.ranks": 2}, out="a")
    with pytest.raises(UserError, match="used in its block"):
        outrider.Session(config=SMALL, out="a").save()
    with pytest.raises(UserError, match="used in its block"):
        [*outrider.Session(config=SMALL, out="a")]
    with outrider.Session(config=SMALL, out="a") as session:
        pass
    for after in (session.save, session.evaluate, session.finish):
        with pytest.raises(UserError, match="used in its block"):
            after()
    assert session.run.path == Path("a")


class Twice(outrider.Stage):
    """Defined where it is used."""

    def plan(self, view: outrider.View) -> list[outrider.SampleRequest]:
        return [] if view.round else [outrider.SampleRequest(group.problem, n=2) for group in view.groups]


def test_stages_are_added_behind_those_of_the_recipe() -> None:
    run = outrider.train("grpo", stages=[Twice(), {"rebalance": {"n_max": 16}}], config=SMALL, out="a")
    assert [next(iter(stage)) for stage in run.config["explore"]] == ["uniform", f"{__name__}:Twice", "rebalance"]
    assert (run.rollouts(step=1)["stage"] == "1-twice").sum() == 8
    assert run.config["components"][f"{__name__}:Twice"]["source"]


def test_config_may_set_options_of_the_stages_that_are_added() -> None:
    config = {"explore.1.n_max": 24, "explore.0.n": 2}
    made = recipe_of("grpo", stages=[{"rebalance": {"n_max": 16}}], config=config)
    assert [stage.model_dump().get("n_max") for stage in made.explore] == [None, 24]
    assert made.explore[0].n == 2  # type: ignore[attr-defined]
    both = recipe_of("grpo", stages=["rebalance"], config={"explore": [{"uniform": {"n": 3}}]})
    assert len(both.explore) == 2
    with pytest.raises(UserError, match=r"explore\.1 is an instance of Twice; set 'n' where it is made"):
        recipe_of("grpo", stages=[Twice()], config={"explore.1.n": 3})


def test_a_recipe_that_is_loaded_is_trained_as_its_name_is() -> None:
    recipe = outrider.load_recipe("dr-grpo", {"explore.0.n": 4})
    made = recipe_of(recipe, config={"train.steps": 3})
    assert (
        made.resolved()
        == outrider.load_recipe("dr-grpo", {"explore.0.n": 4, "train.steps": 3, "train.ranks": 1}).resolved()
    )
    with pytest.raises(UserError, match="the recipe is loaded already"):
        recipe_of(recipe, setting="hops")


def test_an_evaluation_is_returned() -> None:
    found = outrider.evaluate("base:countdown", "countdown", n=2, problems=4, config={"evaluate.bootstrap": 50})
    assert sorted(found.overall.pass_at) == [1, 2]
    assert found.overall.problems == 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"data": ROWS}, "eval_data is missing: a table has training problems"),
        ({"reward": contains}, "data is missing"),
        ({"data": [], "eval_data": ROWS}, "data has no rows"),
        ({"data": 7, "eval_data": ROWS}, "data is int: give a path, a list of dicts, a frame or a dataset"),
        ({"data": [1], "eval_data": ROWS}, "data: row 0 is int, not a mapping"),
        (
            {"data": [{"problem": {1}, "answer": "2"}], "eval_data": ROWS},
            "data: row 0, column 'problem' is no plain JSON data",
        ),
        ({"config": {"learn.lrr": 1}}, "learn.lrr=1: learn.lrr is not a key (did you mean 'lr'?)"),
        ({"recipe": "gropo"}, "there is no recipe 'gropo' (did you mean 'grpo'?)"),
        ({"stages": [outrider.Problem("p", "", None)]}, "explore.1: a stage is a name, or one name with its options"),
        ({"stages": ["retry"]}, "explore.1: 'retry' is not a stage"),
        ({"stages": [outrider.Stage]}, "explore.1: Stage is a class: make an instance, Stage()"),
        ({"model": "base:countdown"}, "task is missing: give data=…, or setting='countdown'"),
        ({"stages": "rebalance"}, "stages is one stage: give a list"),
        ({"config": ["train.steps=2"]}, "config is list: give a mapping"),
        ({"callbacks": outrider.Callback()}, "callbacks is one callback: give a list"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError) as found:
        outrider.train(**{"config": SMALL, "out": "a", **options})
    assert expected in str(found.value)
    assert not Path("a").exists()


def test_a_mistake_in_config_leaves_no_rows_behind() -> None:
    given = {"data": ROWS[:20], "eval_data": ROWS[20:], "model": "base:countdown"}
    with pytest.raises(UserError, match="not a key"):
        outrider.train(config={"learn.lrr": 1}, out="x/a", **given)
    assert not Path("x").exists()
    kept = Path(table_of(ROWS[:20], Path("x/data"), "data"))  # of another run, in the folder that they share
    with pytest.raises(UserError, match="not a key"):
        outrider.train(config={"learn.lrr": 1}, out="x/a", **given)
    assert [*Path("x/data").iterdir()] == [kept]


def test_several_rewards_are_a_weighted_sum_also_of_a_notebooks_functions() -> None:
    where = f"{__name__}:contains"
    assert verifier_of([contains, "number"], [1.0, 0.5], 0.7) == {
        "weighted_sum": {
            "verifiers": [{"function": {"function": where, "style": "plain"}}, "number"],
            "weights": [1.0, 0.5],
            "success_at": 0.7,
        }
    }
    lengths = []

    def brief(problem: Problem, completion: str) -> float | None:
        lengths.append(len(completion))
        return None if completion.startswith("1") else 0.5

    data = {"data": ROWS[:20], "eval_data": ROWS[20:], "prompt": "{problem}"}
    given = {"reward": [brief, contains], "reward_weights": [0.1, 1.0], "success_at": 1.0}
    run = outrider.train(model="base:countdown", config=SMALL | {"explore.0.n": 4}, out="a", **data, **given)
    assert len(lengths) > 32
    rows = run.rollouts()
    expected = [
        (0.0 if t.startswith("1") else 0.05) + (o == "correct") for t, o in zip(rows.text, rows.outcome, strict=True)
    ]
    assert list(rows.score) == pytest.approx(expected)
    with pytest.raises(UserError, match=r"train\.ranks asks for others"):
        outrider.train(model="base:countdown", config=SMALL | {"train.ranks": 2}, out="b", **data, **given)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"reward": contains, "reward_weights": [1.0]}, "reward_weights is given, but reward is not a list"),
        ({"reward": "math", "success_at": 0.5}, "success_at is of reward functions and of several rewards"),
        ({"reward": [contains, "exact"], "reward_weights": [1.0]}, "weights has 1 numbers for 2 verifiers"),
        ({"reward": [contains], "reward_weights": 1.0}, "reward_weights is float: give a list"),
        ({"reward": [[contains], contains]}, "reward is a list with a list inside"),
        ({"reward": contains, "success_at": "high"}, "success_at is 'high', not a number"),
        ({"reward": max}, "its parameters cannot be inspected"),
        ({"environment": 7}, "environment is int: give its class, or the import path of it"),
        ({"environment": "nowhere.py:Guess"}, "no such file"),
        ({"environment": outrider.Problem}, "is no environment"),
    ],
)
def test_rewards_and_environments_that_do_not_fit_are_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError) as found:
        outrider.train(model="base:countdown", data=ROWS[:20], eval_data=ROWS[20:], out="a", config=SMALL, **options)
    assert expected in str(found.value)
    assert not Path("a").exists()


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (lambda problem, completion: completion.nothing, "AttributeError: 'str' object has no attribute 'nothing'"),
        (lambda problem, completion: None, "returned None, not a number"),
        (lambda problem, completion: float("nan"), "returned nan, not a finite number"),
        (lambda problem, completion: "1", "returned '1' of type str, not a number"),
        (lambda completions, **columns: [1.0, 0.0], "not a list with the score of one completion"),
        (lambda completions, **columns: np.ones(1), "not a list with the score of one completion"),
        (lambda completions, answers, **columns: [1.0], "no field 'answers' (did you mean 'answer'?)"),
    ],
)
def test_a_reward_that_fails_on_every_problem_is_refused_before_the_run_begins(reward: Any, expected: str) -> None:
    with pytest.raises(UserError) as found:
        outrider.train(
            model="base:countdown", data=ROWS[:20], eval_data=ROWS[20:], reward=reward, out="a", config=SMALL
        )
    assert expected in str(found.value)
    assert not Path("a").exists()


def test_a_reward_that_reads_one_form_of_a_response_trains() -> None:
    """A worked solution, or a gold answer that is a number: each of the others fails."""
    data = {"model": "base:countdown", "prompt": "{problem}"}
    config = SMALL | {"train.steps": 1, "task.table.solution": "solution"}
    rows = [row | {"answer": int(row["answer"]), "solution": f"so #### {row['answer']}"} for row in ROWS]
    for name, reward in (
        ("number", lambda problem, completion: int(completion) == problem.answer["answer"]),
        ("marks", lambda problem, completion: float(completion.split("####")[1]) > 0),
    ):
        run = outrider.train(reward=reward, data=rows[:20], eval_data=rows[20:], config=config, out=name, **data)
        assert len(run.metrics) == 1


def test_a_reward_that_fails_on_some_problems_trains() -> None:
    def reward(problem: Problem, completion: str) -> float | None:
        return None if problem.answer["answer"] == "4" else 1.0

    data = {"model": "base:countdown", "data": ROWS[:20], "eval_data": ROWS[20:], "prompt": "{problem}"}
    config = SMALL | {"train.steps": 1, "train.problems": 20}
    assert outrider.train(reward=reward, config=config, out="a", **data).metrics["verdict/error"][0] > 0


GUESS = """
from outrider import Environment, Reply
from outrider.record import correct, incorrect

class Guess(Environment):
    def begin(self, problem, seed):
        self.gold, self.left = problem.answer, 3
        return ""

    def step(self, text):
        self.left -= 1
        if self.left == 0 or self.gold in text:
            return Reply(done=True, verdict=correct(text) if self.gold in text else incorrect(text))
        return Reply("-;")
"""


def test_an_environment_answers_turns_by_its_path_and_as_a_class() -> None:
    Path("guess.py").write_text(GUESS)
    given = {"model": "base:countdown", "data": ROWS[:20], "eval_data": ROWS[20:], "prompt": "{problem}:"}
    config = SMALL | {"explore.0.n": 4, "task.environment.stop": [";"], "train.steps": 1}
    runs = [
        outrider.train(environment=environment, config=config, out=f"of-{i}", **given)
        for i, environment in enumerate(["guess.py:Guess", load_object("guess.py:Guess")])
    ]
    assert all(len(run.rollouts()) == 16 for run in runs)
    assert list(runs[0].rollouts().text) == list(runs[1].rollouts().text)
    assert any("-;" in text for text in runs[0].rollouts().text)
    with pytest.raises(UserError, match="this process alone has, and environments run in others"):
        outrider.train(environment="guess.py:Guess", reward=lambda problem, completion: 1.0, out="b", **given)


@pytest.mark.parametrize("reward", [lambda x: 1.0, lambda: 1.0])
def test_a_reward_that_takes_something_else_is_refused(reward: Any) -> None:
    with pytest.raises(UserError, match=r"takes .*, not \(problem, completion\)"):
        verifier_of(reward)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        outrider.load_run(tmp_path)


def test_three_steps_without_a_rollout_end_the_run_saved() -> None:
    Path("mine.py").write_text(STAGE)
    config = SMALL | {"explore": ["mine.py:Idle"], "train.steps": 5, "train.save_every": 100}
    with pytest.raises(UserError, match="step 3: no stage requested a rollout in 3 steps in a row; the run is stopped"):
        outrider.train(config=config, out="a")
    assert len(outrider.load_run("a").metrics) == 3
    assert Path("a/checkpoints/step-00000003").is_dir()
    assert len(outrider.train(config=SMALL | {"explore": ["mine.py:Idle"]}, out="b").metrics) == 2


def test_a_table_in_memory_is_a_file_named_by_its_content(tmp_path: Path) -> None:
    one, two = (table_of(rows, tmp_path, "data") for rows in (ROWS, pd.DataFrame(ROWS)))
    assert one == two
    assert table_of(ROWS[:-1], tmp_path, "data") != one
    assert table_of("hf:some/data", tmp_path, "data") == "hf:some/data"


@pytest.mark.parametrize("name", outrider.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    found = getattr(outrider, name)
    assert inspect.getdoc(found)


def test_importing_outrider_is_quick_and_brings_no_torch() -> None:
    code = "import sys, outrider; outrider.Stage; outrider.Baseline; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = outrider.nothing


def test_a_script_without_a_guard_trains_on_several_processes(tmp_path: Path) -> None:
    """They do not import the script, which would start the training again."""
    config = SMALL | {"train.ranks": 2, "train.steps": 1}
    (tmp_path / "go.py").write_text(f"import outrider\nprint(outrider.train(config={config!r}, out='a'))\n")
    said = subprocess.run([sys.executable, "go.py"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert said.stdout.count("Run('a', 1 steps, 2 evaluations)") == 1


def test_a_model_without_a_setting_has_the_recipes_own_lengths_and_rate() -> None:
    """As a recipe that names its model; not those of the setting countdown."""
    given = recipe_of("dars-hw", model="./a-model", data=ROWS[:20], eval_data=ROWS[20:])
    assert given.from_setting is None
    named = Path("mine.yaml")
    named.write_text("extends: dars-hw\nmodel: ./a-model\ntask: {table: {train_data: a, heldout_data: b}}")
    written = outrider.load_recipe("mine.yaml")
    assert (given.model, given.sample, given.learn) == (written.model, written.sample, written.learn)


def test_missing_values_of_a_frame_are_null_and_dates_are_refused(tmp_path: Path) -> None:
    path = table_of(pd.DataFrame({"problem": ["1+1", "1+2"], "hint": [1.5, None]}), tmp_path, "data")
    assert [json.loads(line)["hint"] for line in Path(path).read_text().splitlines()] == [1.5, None]
    with pytest.raises(UserError, match="row 0, column 'when' is no plain JSON data"):
        table_of(pd.DataFrame({"when": [pd.Timestamp("2020-01-01")]}), tmp_path, "data")


class Counted:
    """Rewards, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def reward(self, problem: Problem, completion: str) -> float:
        self.calls += 1
        return 1.0

    __call__ = reward


def test_a_method_and_an_object_are_called_themselves() -> None:
    counted = Counted()
    problem = Problem("p", "1+1", {"answer": "2", "fields": {}})
    for reward in (counted.reward, counted):
        copied = copy.deepcopy(verifier_of(reward))
        assert copied.verify(problem, "2", finished=True).success
    assert counted.calls == 2


def test_an_async_reward_is_awaited_beside_the_loop_of_a_notebook() -> None:
    async def reward(problem: Problem, completion: str) -> float:
        await asyncio.sleep(0)
        return 1.0

    async def cell() -> bool:
        return (
            verifier_of(reward).verify(Problem("p", "1+1", {"answer": "2", "fields": {}}), "2", finished=True).success
        )

    assert asyncio.run(cell())


def test_a_class_of_a_notebook_trains() -> None:
    """Of a main module without a file."""
    code = (
        "import outrider\nclass Mine(outrider.Stage):\n    def plan(self, view):\n        return []\n"
        "found = outrider.load_recipe('grpo', {'explore': ['uniform', Mine()]})\n"
        "print(found.resolved()['explore'][1], found.components['__main__:Mine'].source == '')"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "{'__main__:Mine': {}} True\n"


def test_a_run_is_measured_and_resumed_with_its_own_weights_and_threshold() -> None:
    """Of reward functions that only the process that began it had."""
    data = {"data": ROWS[:20], "eval_data": ROWS[20:], "prompt": "{problem}", "model": "base:countdown"}

    def half(problem: Problem, completion: str) -> float:
        return 0.5

    for name, given in {
        "one": {"reward": half, "success_at": 0.5},
        "two": {"reward": [half, "exact"], "reward_weights": [0.3, 0.1], "success_at": 0.15},
    }.items():
        run = outrider.train(config=SMALL, out=name, **data, **given)
        assert run.evaluations["pass@1"].iloc[-1] == 1.0
        assert run.evaluate(reward=given["reward"]).overall.pass_at[1].value == 1.0
        assert list(run.resume(reward=given["reward"]).metrics["step"]) == [1, 2]
    with pytest.raises(UserError, match="the run has 2 rewards; give a list of all of them"):
        run.evaluate(reward=half)
    with pytest.raises(UserError, match="the run's verifier needs none"):
        outrider.train(config=SMALL | {"train.steps": 1}, out="countdown").evaluate(reward=half)
    plain = outrider.train(config=SMALL, out="plain", reward="exact", **data)
    with pytest.raises(UserError, match="the run's verifier needs none"):
        plain.evaluate(reward=half)


@pytest.mark.parametrize("version", ["0_1", "0_2"])
def test_a_run_of_an_older_version_is_measured_on_its_own_problems(version: str, tmp_path: Path) -> None:
    kept = Path(__file__).parents[1] / f"run_of_{version}"
    if not kept.is_dir():
        pytest.skip("no such folder")
    shutil.copytree(kept, tmp_path / "run")
    run = outrider.load_run(tmp_path / "run")
    if not (tmp_path / "run" / "model" / "config.json").is_file():
        with pytest.raises(UserError, match="holds no model yet"):
            run.evaluate(n=1)
        return
    found = run.evaluate(n=1, problems=2)
    first = run.rollouts(name="evaluate", columns=["problem_id"])["problem_id"]
    assert {tally.problem for tally in found.tallies} <= {*first}


def test_help_is_of_the_function() -> None:
    assert inspect.getdoc(outrider.train) == inspect.getdoc(outrider.api.training.train)  # type: ignore[attr-defined]
    assert "seeds" in (inspect.getdoc(outrider.bench) or "")


PAGES = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in blocks("docs/python.md"):
        exec(block, names)
    assert names["found"].overall.pass_at[2].problems == 4
    assert len(names["run"].metrics) == 2
    assert names["scored"].evaluation.overall.pass_at[1].value == 0.5
    assert list(names["bench"].differences.index) == ["dr-grpo"]
    assert Path("runs/sft/model.safetensors").is_file()


def test_the_readme_runs() -> None:
    """With a budget of this test's."""
    (block,) = blocks("README.md")
    budget = 'config={"train.tokens": 200_000}'
    assert budget in block
    names: dict[str, Any] = {"SMALL": SMALL | {"train.steps": 10, "explore.0.n": 2}}
    exec(block.replace(budget, "config=SMALL"), names)
    check_stage(names["Retry"])
    run = names["run"]
    assert len(run.metrics) == 10
    assert (run.rollouts()["stage"] == "1-retry").any()
