"""Keys of older versions: an error with one sentence where a person writes them, and read in what a run has saved."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.bench.begin import refuse_another
from outrider.bench.cell import recipe_file
from outrider.bench.spec import Bench
from outrider.cli import main
from outrider.config import config_of_run, dump_yaml, load_recipe, recipe_of_run
from outrider.config.renamed import with_old_keys, with_present_keys
from outrider.errors import UserError
from outrider.plugins import load_component
from outrider.tasks import Suite, Table
from outrider.tasks.environment import EnvironmentTask
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnLimits, TurnTask
from outrider.verify.verifier import Verifier

TABLE = {"train_data": "a.jsonl", "heldout_data": "b.jsonl"}


def sentence(*arguments: Any) -> str:
    with pytest.raises(UserError) as refused:
        load_recipe(*arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("override", "old", "now"),
    [
        ("task.table.judge=exact", "task.table.judge", "task.table.verifier"),
        ("task.judge=exact", "task.table.judge", "task.table.verifier"),
        ("task.table.judge.math.no_box=last_number", "task.table.judge", "task.table.verifier"),
        ("task.judge.no_box=last_number", "task.table.judge", "task.table.verifier"),
        ("task={table: {heldout_data: b, judge: {math: {}}}}", "task.table.judge", "task.table.verifier"),
        ("task={suite: {table: {judge: exact}}}", "task.suite.table.judge", "task.suite.table.verifier"),
        (
            "task={search: {problems: {heldout_data: b, judge: qa}}}",
            "task.search.problems.judge",
            "task.search.problems.verifier",
        ),
        ("task={hops: {limits: {worlds: 4}}}", "task.hops.limits.worlds", "task.hops.limits.max_concurrent"),
        ("task={world: {world: 'a.py:A'}}", "task.world", "task.environment"),
        ("task.world.world=a.py:A", "task.world", "task.environment"),
        ("task=world", "task.world", "task.environment"),
        ("task={environment: {world: 'a.py:A'}}", "task.environment.world", "task.environment.environment"),
    ],
)
def test_an_old_key_on_the_command_line_is_one_sentence_with_the_present_key(override: str, old: str, now: str) -> None:
    assert sentence("grpo", [override], "gsm8k-0.5b") == f"{override}: {old} is now {now}"


def test_an_old_key_in_python_is_the_same_sentence() -> None:
    expected = "task.table.judge='exact': task.table.judge is now task.table.verifier"
    assert sentence("grpo", {"task.table.judge": "exact"}, "gsm8k-0.5b") == expected
    said = sentence("grpo", {"task": {"table": {**TABLE, "judge": "exact"}}}, "gsm8k-0.5b")
    assert said.endswith(": task.table.judge is now task.table.verifier")


def test_an_old_key_in_a_recipe_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: grpo\ntask: {table: {heldout_data: b, judge: exact}}\n")
    assert sentence(str(file)) == f"{file}: task.table.judge is now task.table.verifier"
    file.write_text("extends: grpo\ntask.table.judge: exact\n")
    assert sentence(str(file), [], "gsm8k-0.5b") == f"{file}: task.table.judge is now task.table.verifier"
    file.write_text("extends: grpo\nsettings: {gsm8k-0.5b: {task: {table: {judge: exact}}}}\n")
    place = "settings.gsm8k-0.5b.task.table"
    assert sentence(str(file), [], "gsm8k-0.5b") == f"{file}: {place}.judge is now {place}.verifier"


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "{world: {world: 'a.py:A'}}"],
        ["score", "a.jsonl", "--task", "{world: {world: 'a.py:A'}}"],
        ["evaluate", "base:countdown", "--task", "{world: {world: 'a.py:A'}}"],
        ["sft", "{world: {world: 'a.py:A'}}", "--out", "x"],
    ],
)
def test_an_old_task_of_a_command_is_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("outrider: ")
    assert line.endswith("task.world is now task.environment")


def test_an_old_task_in_a_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "task.yaml").write_text("world: {world: 'a.py:A'}\n")
    assert main(["validate", str(tmp_path / "task.yaml")]) == 2
    assert "task.world is now task.environment" in capsys.readouterr().err


def test_an_old_option_of_a_class_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"^Table: judge is now verifier$"):
        Table(heldout_data="b.jsonl", judge="exact")  # type: ignore[call-arg]
    with pytest.raises(UserError, match=r"^TurnLimits: worlds is now max_concurrent$"):
        TurnLimits(worlds=4)  # type: ignore[call-arg]
    with pytest.raises(UserError, match=r"^EnvironmentTask: world is now environment$"):
        EnvironmentTask(world="a.py:A", problems=Table(heldout_data="b"))  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"^outrider.Judge is now outrider.Verifier$"):
        _ = outrider.Judge


def test_an_old_key_in_a_suite_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^Suite: table.judge is now table.verifier$"):
        Suite(table={"judge": "exact"})
    file = tmp_path / "mine.yaml"
    for table, place in (("{judge: exact}", ""), ("{}", "sets.")):
        own = "{judge: exact}" if place else "{}"
        file.write_text(f"table: {table}\nsets: {{one: {{data: one.jsonl, table: {own}}}}}\n")
        with pytest.raises(UserError, match=rf"^suite {file}: \w+: table.judge is now table.verifier$"):
            Suite(suite=str(file), data=str(tmp_path)).heldout(1)


def test_an_old_method_of_a_component_from_outside_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    wrong = {"judge": (Verifier, "verify"), "environment": (TurnTask, "make_environment"), "worlds": (TurnTask, "")}
    for method, (base, now) in wrong.items():
        monkeypatch.setattr(module, "Mine", type("Mine", (base,), {method: lambda self: None}), raising=False)
        with pytest.raises(UserError, match=f"has {method!r}, which Outrider no longer reads: use {now}"):
            load_component(f"{__name__}:Mine", base, "a component")


def run_config(task: dict[str, Any]) -> dict[str, Any]:
    return {**load_recipe("grpo").resolved(), "task": task}


def test_the_configuration_of_a_run_is_read_with_present_keys_at_every_depth() -> None:
    problems = {**TABLE, "judge": {"qa": {}}, "seed": 3}
    tasks = [
        ({"table": problems}, {"table": {**TABLE, "verifier": {"qa": {}}, "seed": 3}}),
        ({"suite": {"suite": "math", "table": {"judge": "exact"}}}, None),
        ({"search": {"corpus": ["c.jsonl"], "problems": problems, "limits": {"worlds": 2}}}, None),
        ({"python_tool": {"problems": problems}}, None),
        ({"world": {"world": "a.py:A", "limits": {"turns": 2, "worlds": 5}, "problems": problems}}, None),
        ({"hops": {"limits": {"worlds": 7}}}, None),
    ]
    for old, expected in tasks:
        now = config_of_run(run_config(old))["task"]
        assert not {"judge", "world", "worlds"} & set(keys(now)), old
        assert expected is None or now == expected
        assert with_old_keys(type(load_recipe("grpo")), {"task": now})["task"] == {
            name: ({"heldout_order": "drawn"} if name == "hops" else {}) | options for name, options in old.items()
        }
        recipe = recipe_of_run(run_config(old))
        assert recipe.difference(recipe_of_run(recipe.resolved())) == []
    [(_, options)] = config_of_run(run_config({"table": problems}))["task"].items()
    assert [*options] == ["train_data", "heldout_data", "verifier", "seed"], "in the same order"


def keys(data: Any) -> list[str]:
    if not isinstance(data, dict):
        return []
    return [*data, *(key for part in data.values() for key in keys(part))]


class Mine(Task):
    """Has options of its own that are called as once others were."""

    judge: str = "x"
    worlds: int = 3

    @property
    def name(self) -> str:
        return "mine"


class Playing(TurnTask):
    """A task from outside with the options of every task with turns."""

    @property
    def name(self) -> str:
        return "playing"


def test_a_component_from_outside_keeps_its_own_words_and_has_the_renamed_ones_of_its_base() -> None:
    own = {f"{__name__}:Mine": {"judge": "y", "worlds": 4}}
    assert config_of_run(run_config(own))["task"] == own
    assert load_recipe("grpo", {"task": own}).task == Mine(judge="y", worlds=4)
    inherited = {f"{__name__}:Playing": {"limits": {"worlds": 4}}}
    assert recipe_of_run(run_config(inherited)).task.limits.max_concurrent == 4  # type: ignore[attr-defined]
    assert with_present_keys(type(load_recipe("grpo")), {"task": inherited}, outside=False)[1] == [], "is not imported"


def test_the_fingerprint_of_a_recipe_is_the_one_that_older_versions_saved() -> None:
    recipe = load_recipe("grpo", {"task": {"table": {**TABLE, "verifier": "exact"}}})
    old = json.dumps(recipe._decisive(), sort_keys=True)
    decisive = json.loads(old)
    decisive["task"]["table"]["judge"] = decisive["task"]["table"].pop("verifier")
    assert recipe.fingerprint() == hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]
    assert recipe.fingerprint() != hashlib.sha256(old.encode()).hexdigest()[:16]


def test_what_a_bench_of_an_older_version_has_kept_goes_on(tmp_path: Path) -> None:
    recipe = load_recipe("grpo", {"task": {"table": {**TABLE, "verifier": "exact"}}})
    old = recipe.resolved()
    old["task"]["table"] = {("judge" if key == "verifier" else key): v for key, v in old["task"]["table"].items()}
    kept = recipe_file(tmp_path, "grpo")
    kept.parent.mkdir()
    kept.write_text(dump_yaml(old))
    bench = Bench(recipes=["grpo"], base="grpo", tokens=100)
    (tmp_path / "bench.yaml").write_text(dump_yaml(bench.model_dump(mode="json")))
    refuse_another(bench, {"grpo": recipe}, tmp_path)
    assert load_recipe(str(kept)).difference(recipe) == []
    assert load_recipe(str(kept), ["task.verifier=math"]).difference(recipe) != []
