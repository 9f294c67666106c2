"""Code on pages that no other test runs: every command of Outrider, and Python."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

import dumps
import runs
from outrider.analyse.folder import AnalysisFolder, write_table
from outrider.cli import build_parser
from outrider.config import load_recipe
from outrider.importers.plain import PLAIN
from outrider.record import Problem
from outrider.record.verdict import correct
from outrider.verify.function import Function

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# pages whose Python other tests run
ELSEWHERE = {"environments.md", "add-a-component.md", "add-a-stage.md", "bring-your-own.md", "use-outside.md"}
ELSEWHERE |= {"README.md", "python.md"}  # tests/api
HERE = {"analyse.md", "import.md", "run-folder.md", "testing.md", "verifiers.md"}


def blocks(page: Path, language: str = r"\w*") -> list[str]:
    found = re.findall(rf"^( *)```({language})\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, _, text in found]


def commands() -> list[tuple[str, str]]:
    """Every command of Outrider in a fenced block, with its page."""
    lines = [
        (page.name, line.strip().removeprefix("$ "))
        for page in PAGES
        for block in blocks(page)
        for line in re.sub(r"\\\n\s*", " ", block).splitlines()
    ]
    return [(page, line.removesuffix(" &")) for page, line in lines if line.startswith("outrider ")]


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_command_of_the_pages_is_understood(page, line):
    words = shlex.split(line, comments=True)[1:]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments, rest = build_parser().parse_known_args(words)
    except SystemExit:
        pytest.fail(said.getvalue())
    assert not [word for word in rest if word.startswith("-") or not hasattr(arguments, "overrides")]


def test_there_are_commands_to_look_at():
    assert len(commands()) > 40


def test_every_block_of_python_is_run_by_some_test():
    assert {page.name for page in PAGES if blocks(page, "python")} == ELSEWHERE | HERE


def python(page: str) -> str:
    return "\n".join(blocks(ROOT / "docs" / page, "python"))


def test_the_tests_of_the_page_on_testing_pass(tmp_path, monkeypatch):
    (tmp_path / "my_methods.py").write_text((ROOT / "tests/outside/methods.py").read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict = {}
    exec(python("testing.md"), names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 5
    for test in tests:
        test()


def test_rollouts_are_read_as_the_page_of_the_run_folder_does(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    run = runs.run_of(Path("runs/grpo-0"), steps=0)
    verified = replace(runs.rollout(1), verdict=correct("7"), reward=1.0, text="3+4=7")
    run.rollouts.write(1, [verified])
    exec(compile(python("run-folder.md"), "run-folder.md", "exec"), {})
    assert capsys.readouterr().out.startswith("3+4=7 correct 1.0 ")


def test_an_analysis_is_read_as_its_page_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = {
        "tokens": pa.table({"step": [1], "entropy": [0.5], "gradient_norm": [1.0]}),
        "intervene": pa.table(
            {
                "group_id": ["a", "a", "b"],
                "member": [0, 1, 0],
                "k": [4, 4, 4],
                "replaced_successes": [1, 2, 0],
                "kept_successes": [2, 2, 4],
                "relative_position": [0.1, 0.5, 0.9],
            }
        ),
    }
    for kind, table in tables.items():
        folder = AnalysisFolder(Path(f"runs/grpo-0/analysis/{kind}"))
        folder.place("train-1-0").parent.mkdir(parents=True)
        (folder.path / "about.json").write_text('{"parts": ["train-1-0"]}')
        write_table(folder.place("train-1-0"), table)
    names: dict = {}
    exec(compile(python("analyse.md"), "analyse.md", "exec"), names)
    np.testing.assert_allclose(names["effect"], [0.25, 0, 1])


def test_a_dump_is_read_as_the_page_of_the_importers_does(tmp_path, capsys):
    names: dict = {}
    exec(compile(python("import.md"), "import.md", "exec"), names)
    path = dumps.trl(
        tmp_path / "trl",
        1,
        {"accuracy_reward": [1.0, 0.0]},
        prompt=["p", "p"],
        completion=["a", "b"],
        advantage=[1.0, -1.0],
    )
    table = names["solved"](path)
    assert table["outcome"].to_pylist() == ["correct", "incorrect"]
    assert set(table.column_names) == set(PLAIN.names)
    assert capsys.readouterr().out


def test_the_function_of_the_page_of_verifiers_verifies(tmp_path):
    (tmp_path / "mine.py").write_text(python("verifiers.md"))
    verifier = Function(function=f"{tmp_path}/mine.py:score")
    problem = Problem("p", "3+4=", verifier.reference({"solution": "7"}, "solution"))
    assert verifier.verify(problem, " 7 ", True).success
    assert not verifier.verify(problem, "8", True).success


def test_the_recipe_of_the_readme_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [text] = blocks(ROOT / "README.md", "yaml")
    for side in ("train", "test"):
        Path(f"{side}.jsonl").write_text('{"problem": "7+5%s", "answer": "12"}\n' % ("" if side == "train" else "+0"))
    Path("mine.yaml").write_text(text)
    recipe = load_recipe("mine.yaml")
    assert recipe.model == yaml.safe_load(text)["model"]
    assert recipe.task.counts == {"train": 1, "heldout": 1, "excluded": 0}


def in_words(block: str) -> list[list[str]]:
    """The commands of Outrider in a block of shell, with its variables and loops written out."""
    block = re.sub(
        r"^for (\w+) in (.*); do (.*) & done$",
        lambda loop: "\n".join(loop[3].replace(f"${loop[1]}", value) for value in loop[2].split()),
        block,
        flags=re.MULTILINE,
    )
    for name, value in re.findall(r"(\w+)='([^']*)'", block):
        block = block.replace(f"${name}", value.replace('"', '\\"'))
    lines = [shlex.split(line.rstrip(" &")) for line in block.splitlines()]
    return [line[line.index("outrider") + 1 :] for line in lines if "outrider" in line]


SERVED = [(page.name, block) for page in PAGES for block in blocks(page) if "outrider serve" in block]


@pytest.mark.parametrize(("page", "block"), SERVED)
def test_servers_of_the_pages_have_what_the_run_beside_them_trains(page, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for side in ("train", "test"):
        Path(f"{side}.jsonl").write_text('{"problem": "7+5%s", "answer": "12"}\n' % ("" if side == "train" else "+0"))
    Path("mine.yaml").write_text(blocks(ROOT / "README.md", "yaml")[0])
    parsed = {words[0]: [] for words in in_words(block)}
    for words in in_words(block):
        parsed[words[0]].append(build_parser().parse_known_args(words))
    servers, [(train, rest)] = [one for one, _ in parsed["serve"]], parsed["train"]
    recipe = load_recipe(train.recipe, [*train.overrides, *rest], train.setting)
    assert {(one.model, one.dtype) for one in servers} == {(recipe.model, recipe.policy.dtype)}
    ports = [int(address.rpartition(":")[2]) for address in recipe.engine.sampler.servers]
    assert ports == [one.port for one in servers]


def test_there_are_servers_to_look_at():
    assert [page for page, _ in SERVED] == ["engines.md", "engines.md", "engines.md", "lag.md"]
