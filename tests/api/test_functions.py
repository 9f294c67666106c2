"""The other functions of Python's door: each leaves what its command leaves."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import outrider
from outrider.cli import main
from outrider.errors import UserError

SMALL = {
    "train.problems": 4,
    "train.tokens": None,
    "train.steps": 2,
    "train.trackers": [],
    "sample.max_tokens": 24,
    "evaluate.problems": 4,
    "evaluate.n": 2,
    "evaluate.bootstrap": 50,
}
WORDS = [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]
TABLE = {"train_data": "a.jsonl", "heldout_data": "b.jsonl", "prompt": "{problem}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and a table."""
    folder = tmp_path_factory.mktemp("functions")
    for name in ("grpo", "dr-grpo"):
        outrider.train(name, config=SMALL, out=folder / name)
    rows = [{"problem": f"{a}+{b}", "answer": str(a + b)} for a in range(5) for b in range(5)]
    for name, part in (("a", rows[:20]), ("b", rows[20:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


@pytest.fixture(autouse=True)
def there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def same(name: str, *files: str) -> None:
    """Two folders hold equal files, but for times."""
    for file in files:
        one, two = (re.sub(r'"seconds": [^,]*', "", (Path(name + side) / file).read_text()) for side in ("-p", "-c"))
        assert one == two, file


def test_reports_are_those_of_the_command() -> None:
    found = outrider.report("grpo", out="report-p")
    assert main(["report", "grpo", "--out", "report-c"]) == 0
    same("report", "report.json")
    assert found.title in repr(found)
    assert outrider.load_run("grpo").findings == found.findings


def test_comparisons_are_those_of_the_command(tmp_path: Path) -> None:
    found = outrider.compare("grpo", "dr-grpo", out="compare-p")
    assert main(["compare", "grpo", "dr-grpo", "--out", "compare-c"]) == 0
    same("compare", "compare.json")
    assert found.title == "Comparison of grpo and dr-grpo"
    assert outrider.compare(*map(outrider.load_run, ("grpo", "dr-grpo"))).title == found.title
    with pytest.raises(UserError, match="at least two runs"):
        outrider.compare("grpo")


def test_scores_are_those_of_the_command() -> None:
    found = outrider.score("grpo", "countdown", problems=4, out="score-p")
    assert main(["score", "grpo", "--task", "countdown", "--problems", "4", "--out", "score-c"]) == 0
    same("score", "evaluations/step-00000000.json", "table.md")
    assert found.evaluation.overall.problems == 4


@pytest.mark.parametrize("make", [lambda rows: rows, pd.DataFrame])
def test_rows_are_scored(make: Any) -> None:
    rows = [{"question": "4+0", "response": answer} for answer in ("so 4", "so 5", "4")]
    columns = {"problem": "question", "text": "response"}
    found = outrider.score(make(rows), {"table": {**TABLE, "verifier": "number"}}, columns=columns)
    assert found.evaluation.overall.pass_at[1].value == pytest.approx(2 / 3)
    assert "4 of 5 problems have no response" in " ".join(found.notes)


def test_validations_are_those_of_the_command() -> None:
    task = {"table": {**TABLE, "verifier": "number"}}
    found = outrider.validate(task, out="validate-p")
    assert found.passes
    assert repr(found) == (
        "TaskReport(passes: train: 20 problems, 0 rows refused, 0 of 20 gold answers rejected; "
        "held out: 5 problems, 0 rows refused, 0 of 5 gold answers rejected)"
    )
    assert main(["validate", json.dumps(task), "--out", "validate-c"]) == 0
    same("validate", "validate.json", "validate.md")
    Path("bad.jsonl").write_text(Path("a.jsonl").read_text() + '{"problem": "9+9"}\n')  # the others read a.jsonl
    task["table"]["train_data"] = "bad.jsonl"
    assert not outrider.validate(task).passes


def test_fine_tuned_models_are_those_of_the_command() -> None:
    config = {"steps": 2, "problems": 2, "model.layers": 1, "model.width": 64}
    threads = torch.get_num_threads()
    assert outrider.sft("countdown", config=config, out="sft-p") == Path("sft-p")
    assert torch.get_num_threads() == threads
    words = [f"{key}={value}" for key, value in config.items()]
    assert main(["sft", "countdown", *words, "--out", "sft-c"]) == 0
    weights = [Path(name, "model.safetensors").read_bytes() for name in ("sft-p", "sft-c")]
    assert weights[0] == weights[1]
    with pytest.raises(UserError, match=r"learn\.lr"):
        outrider.sft("countdown", base="base:countdown", out="sft-more")


def test_benches_are_those_of_the_command() -> None:
    config = {
        key: value for key, value in SMALL.items() if key not in ("train.tokens", "train.steps", "train.trackers")
    }
    recipes = ["grpo", outrider.load_recipe("dr-grpo")]
    found = outrider.bench(recipes, seeds=1, steps=1, points=1, config=config, out="bench-p")
    words = [word for word in WORDS if word.partition("=")[0] in config]
    given = ["--seeds", "1", "--steps", "1", "--points", "1"]
    assert main(["bench", "grpo", "dr-grpo", *given, *words, "--out", "bench-c"]) == 0
    same("bench", "numbers.csv", "tallies.csv")
    assert list(found.table.index) == ["before training", "grpo", "dr-grpo"]
    assert list(found.differences.index) == ["dr-grpo"]
    one = found.differences.loc["dr-grpo"]
    assert one["pass@1"] == pytest.approx(found.table.loc["dr-grpo", "pass@1"] - found.table.loc["grpo", "pass@1"])
    assert one["pass@1_low"] <= one["pass@1"] <= one["pass@1_high"]
    assert not found.failures
    assert found.verdict[0] == "With one seed per recipe, this comparison cannot show which recipe is better."
    assert found._repr_html_().startswith(f"<p>{found.verdict[0]}</p>")
    assert found.plot().axes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"recipes": "grpo"}, "recipes is a list of at least one recipe"),
        ({"recipes": []}, "recipes is a list of at least one recipe"),
        ({"recipes": ["grpo"], "tokens": 5, "steps": 5}, "the budget must be one of tokens, steps and seconds"),
        ({"recipes": ["grpo"], "config": {"train.steps": 3}}, "the bench sets train.steps"),
        ({"recipes": ["grpo"], "config": {"train": {"steps": 3}}}, "the bench sets train.steps"),
        ({"recipes": ["grpo"], "base": "gropo"}, "base is 'gropo', which is not among the compared recipes"),
    ],
)
def test_a_mistake_of_a_bench_is_one_sentence_and_nothing_is_written(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError) as found:
        outrider.bench(**{"out": "none", **options})
    assert expected in str(found.value)
    assert not Path("none").exists()


def test_a_bench_refuses_a_component_that_other_processes_do_not_import() -> None:
    class Mine(outrider.Stage):
        pass

    Mine.__module__ = "__main__"
    recipe = outrider.load_recipe("grpo", {"explore": ["uniform", Mine()]})
    with pytest.raises(UserError, match="__main__"):
        outrider.bench(["grpo", recipe], seeds=1, steps=1, out="none")


def test_a_run_is_measured_and_generates() -> None:
    run = outrider.load_run("grpo")
    found = run.evaluate(n=4)
    assert sorted(found.overall.pass_at) == [1, 2, 4]
    assert repr(found).startswith("EvaluationResult(4 problems, pass@1 0.")
    assert len(found.plot().axes) == 1
    assert "pass@4" in found._repr_html_()
    again = run.evaluate()  # as the run's last evaluation, by the same draws
    assert again.overall.pass_at[1].value == run.evaluations["pass@1"].iloc[-1]
    prompt = run.recipe.task.heldout(1)[0].prompt
    texts = run.generate([prompt, prompt], n=3, config={"max_tokens": 8})
    assert [len(of) for of in texts] == [3, 3]
    assert run.generate([prompt, prompt], n=3, config={"max_tokens": 8}) == texts
    with pytest.raises(UserError, match="prompts is one text"):
        run.generate(prompt)
    with pytest.raises(UserError, match="n is 0"):
        run.generate([prompt], n=0)


@pytest.mark.parametrize("name", ["bench", "report", "score", "train", "validate"])
def test_a_room_that_is_called_has_its_functions_signature(name: str) -> None:
    parameters = inspect.signature(getattr(outrider, name)).parameters
    assert "out" in parameters
    assert parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY


def test_a_loaded_model_trains_as_its_folder_does() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = outrider.load_run("grpo").path / "model"
    loaded = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    given: dict[str, Any] = {"data": "a.jsonl", "eval_data": "b.jsonl", "prompt": "{problem}", "reward": "exact"}
    config = SMALL | {"explore.0.n": 4}
    runs = [
        outrider.train(model=model, config=config, out=f"of-{i}", **given) for i, model in enumerate((folder, loaded))
    ]
    weights = [(run.path / "model" / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]
    kept = Path(runs[1].config["model"])
    assert kept.parent == Path("data")
    again = outrider.train(model=loaded, config=config, out="of-2", **given)
    assert again.config["model"] == str(kept), "the same weights are the same folder"
    assert [path.name for path in kept.parent.glob(".model*")] == []
    with pytest.raises(UserError, match=r"model is list: give a folder, a name on the hub, or a pair"):
        outrider.train(model=[*loaded], config=config, out="of-3", **given)


def test_a_task_is_a_name_yaml_or_a_file_of_it() -> None:
    rows = [{"question": "4+0", "response": "4"}]
    given = {"columns": {"problem": "question", "text": "response"}}
    text = json.dumps({"table": {**TABLE, "verifier": "exact"}})
    Path("task.yaml").write_text(text)
    found = [outrider.score(rows, task, **given) for task in (json.loads(text), text, "task.yaml")]
    assert [one.evaluation.overall.pass_at[1].value for one in found] == [1.0] * 3
    assert not [note for one in found for note in one.notes if "/tmp" in note]


def test_all_problems_of_a_suite_are_measured_unless_said_otherwise() -> None:
    suite = {"table": {"prompt": "{problem}"}, "sets": {"one": {"data": "b.jsonl"}}}
    Path("suite.yaml").write_text(json.dumps(suite))
    config = {"sample.max_tokens": 8, "evaluate.bootstrap": 20}
    task = {"suite": {"suite": "suite.yaml", "data": "."}}
    assert outrider.evaluate("base:countdown", task, n=1, config=config).overall.problems == 5
    assert outrider.evaluate("base:countdown", task, n=1, problems=2, config=config).overall.problems == 2
