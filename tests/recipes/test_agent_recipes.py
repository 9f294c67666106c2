"""The agents of the papers, with a search engine and with an interpreter: their numbers, and two steps of each with a
small model."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from test_python_tool import sandboxed
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AddedToken

from outrider.cli import main
from outrider.config import Recipe, load_recipe
from outrider.config.yaml_data import read_yaml
from outrider.explore import Uniform
from outrider.explore.segment import Chunk, Delimiter, Turns
from outrider.model.load import save_policy
from outrider.model.tiny import tiny_policy
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.tasks import PythonTool, Search
from outrider.tasks.turn_task import TurnTask

DATA = Path(__file__).parents[2].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data sets are not here")

# the recipe, rollouts of its first stage, most rollouts of a problem, optimizer steps
AGENTS = {"grpo": (4, 4, 180), "tree-grpo": (2, 6, 180), "deep-grpo": (8, 72, 176), "arpo": (8, 16, 180)}
FEWER = {"deep-grpo": ["explore.0.n=3", "explore.1.branches=2"], "arpo": ["explore.0.n=3", "explore.1.total=5"]}
CORPORA = {
    "2wiki": (["2wikimultihopqa/corpus.jsonl.gz"], "2wikimultihopqa/dev150.jsonl"),
    "hotpotqa": (["hotpotqa/distractor300.jsonl", "hotpotqa/train100.jsonl"], "hotpotqa/distractor300.jsonl"),
}
SMALL = [
    "engine={sampler: local, learner: local}",
    "policy.dtype=float32",
    "sample.max_tokens=160",
    "learn.minibatches=1",
    "learn.gradient_checkpointing=false",
    "train={problems: 2, steps: 2, tokens: null, trackers: [], ranks: 1}",
    "evaluate={problems: 2, n: 2, bootstrap: 0, greedy: false, before: false}",
]


def toolish(folder: Path, *words: str) -> str:
    """A random model that often writes what a tool answers: besides all bytes it has these words as tokens."""
    policy = tiny_policy(0, context=2048, characters="".join(sorted(ByteLevel.alphabet())))
    policy.tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    policy.model.resize_token_embeddings(len(policy.tokenizer), mean_resizing=False)
    save_policy(policy, folder, {})
    return str(folder)


@pytest.mark.parametrize("name", AGENTS)
def test_the_agents_of_the_papers_resolve(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tree-GRPO's script; DEEP-GRPO says that it follows it for an epoch: 176 times 512 of 90,447 questions."""
    assert main(["train", name, "--setting", "hotpotqa-3b", "--dry-run"]) == 0
    said = capsys.readouterr().out
    recipe = Recipe.model_validate(read_yaml(said, "dry run"))
    first, most, steps = AGENTS[name]
    assert recipe == load_recipe(name, setting="hotpotqa-3b")
    assert (recipe.explore[0].n, recipe.train.steps) == (first, steps)  # type: ignore[attr-defined]
    assert f"at most {512 * most:,} rollouts" in said
    assert isinstance(recipe.task, Search)
    assert (recipe.model, recipe.train.problems, recipe.learn.minibatches) == ("Qwen/Qwen2.5-3B", 512, 8)
    assert (recipe.task.searches, recipe.task.passages, recipe.task.limits.turns) == (3, 3, 4)
    assert recipe.learn.lr == 1e-6
    assert "intfloat/e5-base-v2" in str(recipe.task.retriever)
    for stage in recipe.explore[1:]:
        assert "turns" in str(stage.model_dump(mode="json")["segment"])


def test_no_corpus_is_a_sentence_before_anything_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The papers' passages are not shipped."""
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"Which, {i}?", "golden_answers": ["x"]} for i in range(6)]
    for name, part in {"q": rows[:4], "held": rows[4:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    words = ["train", "grpo", "--setting", "hotpotqa-3b", *SMALL, f"model={toolish(tmp_path / 'model')}"]
    words += ["task.problems.train_data=q.jsonl", "task.problems.heldout_data=held.jsonl", "--out", "run"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "the corpus wiki-18.jsonl.gz cannot be read" in said
    assert "name yours: task.corpus='[FILE, …]'" in said


def test_questions_of_the_hub_are_read(tmp_path: Path) -> None:
    """As the papers' table is laid out: a configuration with splits, and a list of gold answers."""
    pytest.importorskip("datasets")
    (tmp_path / "hotpotqa").mkdir()
    for split, n in {"train": 5, "dev": 2}.items():
        rows = [{"id": f"{split}_{i}", "question": f"{split} {i}?", "golden_answers": ["a", "b"]} for i in range(n)]
        (tmp_path / "hotpotqa" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = "".join(f"      - {{split: {split}, path: hotpotqa/{split}.jsonl}}\n" for split in ("train", "dev"))
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n  - config_name: hotpotqa\n    data_files:\n{files}---\n")
    given = load_recipe("tree-grpo", setting="hotpotqa-3b").task.problems  # type: ignore[attr-defined]
    hub, there = "hf:RUC-NLPIR/FlashRAG_datasets", f"hf:{tmp_path}"
    sides = {side: getattr(given, side).replace(hub, there) for side in ("train_data", "heldout_data")}
    table = given.model_copy(update=sides)
    assert (table.counts["train"], table.counts["heldout"]) == (5, 2)
    assert table.verify(table.train(0), "<answer> The B.</answer>", True).success


def questions(tmp_path: Path, file: str, answer: str) -> list[str]:
    """A part of a table to train on and one to evaluate on."""
    lines = (DATA / file).read_text().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(lines[:40]))
    (tmp_path / "dev.jsonl").write_text("".join(lines[40:60]))
    there = f"train_data={tmp_path / 'train.jsonl'}", f"heldout_data={tmp_path / 'dev.jsonl'}"
    return [f"task.problems.{word}" for word in (*there, f"answer={answer}", "verifier={qa: {}}")]


@needs_data
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("deep-grpo", "2wiki"),
        ("tree-grpo", "hotpotqa"),
        *(pytest.param(name, "2wiki", marks=pytest.mark.slow) for name in ("grpo", "tree-grpo", "arpo")),
        *(pytest.param(name, "hotpotqa", marks=pytest.mark.slow) for name in ("grpo", "deep-grpo", "arpo")),
    ],
)
def test_two_steps_of_each_with_a_small_model(tmp_path: Path, name: str, where: str) -> None:
    pytest.importorskip("bm25s")
    corpus, file = CORPORA[where]
    queries = [f"<search>{query} {i}</search>" for query in ("film", "born in", "country") for i in range(8)]
    model = toolish(tmp_path / "model", *queries, *(f"<answer>{i}</answer>" for i in range(6)))
    words = ["train", name, "--setting", "hotpotqa-3b", *SMALL, f"model={model}", *questions(tmp_path, file, "answer")]
    words += [
        f"task.corpus={json.dumps([str(DATA / part) for part in corpus])}",
        "task.longest=60",
        "task.retriever=bm25",
    ]
    # what a random model answers is wrong; that some of its responses hold an answer makes them differ all the same
    words += FEWER.get(name, [])
    words += ["reward.unparseable=-1.0", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    rows = RunFolder(tmp_path / "run").metrics()
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["turns"] > 1 and row["observed_tokens"] > 0 for row in rows)
    assert sum(row.get("learn/updates", 0) for row in rows), "groups differ, so something is learnt"
    rollouts = [r for step in (1, 2) for r in RolloutStore(tmp_path / "run" / "rollouts").read(step)]
    assert any("information>Doc 1(Title: " in rollout.text for rollout in rollouts), "passages were found"
    assert all(len(rollout.token_ids) <= 160 for rollout in rollouts)
    branches = [rollout for rollout in rollouts if rollout.branch_at]
    assert bool(branches) == (name != "grpo")
    by_id = {rollout.id: rollout for rollout in rollouts}
    for branch in branches:
        parent = by_id[branch.parent].trainable_T
        assert parent is not None
        assert not parent[branch.branch_at - 1], "a branch begins behind an observation"


# With an interpreter


def test_the_stages_with_an_interpreter_resolve(capsys: pytest.CaptureFixture[str]) -> None:
    """The script of the paper for the first stage; a later one changes a model and two limits, and nothing else."""
    [first, later] = [line for line in STAGES.splitlines() if line.startswith("outrider train etir")]
    recipes = []
    for line in (first, later):
        words = shlex.split(line)[1:]
        assert main([*words[: words.index("--out")], "--dry-run"]) == 0
        recipes.append(Recipe.model_validate(read_yaml(capsys.readouterr().out, "dry run")))
    assert "model=runs/two-calls/model" in later
    assert "--out runs/two-calls" in first
    assert {line.split(":")[0] for line in recipes[0].difference(recipes[1])} == {
        "model",
        "task.python_tool.calls",
        "sample.max_tokens",
    }
    recipe = recipes[0]
    assert isinstance(recipe.task, PythonTool)
    assert (recipe.model, recipe.task.calls, recipe.sample.max_tokens) == ("Qwen/Qwen2.5-Math-7B", 2, 4096)
    assert (recipe.explore, recipe.train.problems, recipe.learn.minibatches) == ([Uniform(n=16)], 128, 2)
    assert (recipe.learn.lr, recipe.objective.kl.coef, recipe.objective.entropy.bonus) == (1e-6, 0.0, 0.0)
    prompt = recipe.task.problems.prompt.format(question="1 + 1?")
    assert prompt.startswith("1 + 1?\n")
    assert "\\boxed{}" in prompt


@needs_data
@pytest.mark.skipif(not sandboxed(), reason="this machine allows no sandbox")
@pytest.mark.parametrize("name", ["etir", pytest.param("grpo", marks=pytest.mark.slow), "arpo"])
def test_an_interpreter_and_a_small_model_on_gsm8k(tmp_path: Path, name: str) -> None:
    """In two stages, as the page says, where the method has them."""
    lines = (DATA / "gsm8k" / "test.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(lines[:40]))
    (tmp_path / "test.jsonl").write_text("".join(lines[40:60]))
    blocks = [f"\n```python\nprint({i} + 40)\n```\n" for i in range(20)]
    model = toolish(tmp_path / "model", *blocks, *(f"\\boxed{{{i}}}" for i in range(8)))
    there = f"train_data={tmp_path / 'train.jsonl'}", f"heldout_data={tmp_path / 'test.jsonl'}"
    words = ["train", name, "--setting", "math-python-7b", *SMALL, "explore.0.n=4"]
    words += [f"task.problems.{word}" for word in (*there, "prompt='{problem} '", "verifier=number")]
    words += ["reward.unparseable=-1.0", *(["explore.1.total=6"] if name == "arpo" else [])]
    stages = [("first", ["task.calls=1"])]
    stages += [("second", ["task.calls=2", "sample.max_tokens=200"])] if name == "etir" else []
    for stage, raised in stages:
        out = tmp_path / stage
        assert main([*words, *raised, f"model={model}", "--out", str(out)]) == 0
        rollouts = [r for step in (1, 2) for r in RolloutStore(out / "rollouts").read(step)]
        calls = [r.text.count("```output\n4") + r.text.count("```output\n5") for r in rollouts if not r.branch_at]
        assert max(calls) == (2 if stage == "second" else 1), "as many as the stage allows"
        assert any("No call is left." in r.text for r in rollouts)
        assert sum(row.get("learn/updates", 0) for row in RunFolder(out).metrics())
        model = str(out / "model")


# What the page says of one recipe on Countdown and on turns

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
STAGES = PAGE.partition("Progressive tool integration")[2].partition("## ")[0]
TABLE = re.findall(
    r"^\| ([\w-]+) \| `(outrider train .*?)` \| `(outrider train .*?)` \| (\w*) ?\| (\w*) ?\|$", PAGE, re.MULTILINE
)


def test_the_table_has_every_method_of_agents() -> None:
    assert [row[0] for row in TABLE] == ["GRPO", "DARS", "XRPO", "DEEP-GRPO", "Tree-GRPO", "TreeRL", "ARPO"]


@pytest.mark.parametrize(("method", "there", "here", "on_countdown", "on_turns"), TABLE, ids=[row[0] for row in TABLE])
def test_a_method_of_the_table_is_one_recipe_in_two_places(
    method: str, there: str, here: str, on_countdown: str, on_turns: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = []
    for line in (there, here):
        assert main([*shlex.split(line)[1:], "--dry-run"]) == 0
        recipes.append(Recipe.model_validate(read_yaml(capsys.readouterr().out, "dry run")))
    one, many = recipes
    assert (one.task.name, many.task.name) == ("countdown", "hops")
    assert [isinstance(recipe.task, TurnTask) for recipe in recipes] == [False, True]
    assert one.name == many.name
    assert [type(stage) for stage in one.explore] == [type(stage) for stage in many.explore]
    assert one.resolved()["credit"] == many.resolved()["credit"]
    kinds = [type(segment) for r in recipes for stage in r.explore if (segment := getattr(stage, "segment", None))]
    said = {"steps": Delimiter, "tokens": Chunk, "turns": Turns}
    assert kinds == [said[word] for word in (on_countdown, on_turns) if word]
