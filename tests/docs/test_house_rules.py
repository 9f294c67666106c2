"""The checkers of `make check` and the set-up itself: each must find what it is there for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import outrider

ROOT = Path(__file__).parents[2]
LIGHT_FOLDERS = ["record", "explore", "credit", "measure", "config"]


def run(*command: object, cwd: Path = ROOT) -> tuple[int, str]:
    """Exit status and whole output of a command."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


# budgets


def budgets(root: Path) -> tuple[int, str]:
    return run(sys.executable, ROOT / "tools/check_budgets.py", root)


def function(lines: int, head: str = "def f():", indent: str = "") -> str:
    """A function of so many lines, its head included."""
    return f"{indent}{head}\n" + f"{indent}    pass\n" * (lines - 1)


def test_a_file_may_have_400_lines_and_no_more(tmp_path):
    write(tmp_path, {"fits.py": "x = 1\n" * 400})
    assert budgets(tmp_path)[0] == 0
    write(tmp_path, {"deep/long.py": "x = 1\n" * 401})
    status, output = budgets(tmp_path)
    assert status == 1
    assert re.findall(r"(\w+\.py): (\d+) lines, 400 allowed", output) == [("long.py", "401")]


def test_a_file_over_the_aim_is_mentioned_without_failing(tmp_path):
    status, output = budgets(write(tmp_path, {"a.py": "x = 1\n" * 201, "b.py": "x = 1\n" * 200}))
    assert status == 0
    assert "a.py: 201 lines" in output
    assert "b.py" not in output


@pytest.mark.parametrize(
    "source",
    [
        function(61),
        function(61, "async def f():"),
        "class C:\n" + function(61, indent="    "),
        "def f():\n" + function(60, "def g():", indent="    "),  # the inner one fits, the outer one does not
    ],
)
def test_a_function_may_have_60_lines_and_no_more(tmp_path, source):
    shorter = "".join(source.splitlines(keepends=True)[:-1])
    assert budgets(write(tmp_path, {"a.py": shorter}))[0] == 0
    status, output = budgets(write(tmp_path, {"a.py": source}))
    assert status == 1
    assert "f has 61 lines, 60 allowed" in output


def test_docstring_and_decorators_are_not_counted(tmp_path):
    documented = function(60).replace("def f():\n", 'def f():\n    """One.\n\n    Two.\n    """\n')
    assert budgets(write(tmp_path, {"a.py": "@property\n@cached\n" + documented}))[0] == 0


def test_a_folder_without_python_files_is_not_a_pass(tmp_path):
    assert budgets(tmp_path)[0] == 2


# layers


def layers(root: Path) -> tuple[int, str]:
    return run(sys.executable, ROOT / "tools/check_layers.py", root)


@pytest.fixture
def tree(tmp_path):
    """A package that keeps all rules. Its torch is an empty file, found before the real one."""
    files = {f"outrider/{folder}/__init__.py": "" for folder in [*LIGHT_FOLDERS, "learn", "sample", "train", "cli"]}
    kept = {
        "torch.py": "",
        "outrider/__init__.py": "",
        "outrider/errors.py": "",
        "outrider/options.py": "import outrider.errors\n",
        "outrider/record/group.py": "import numpy\nfrom outrider import options\n",
        "outrider/learn/options.py": "from outrider.options import outrider\n",
        "outrider/config/recipe.py": "import outrider.learn.options\nfrom outrider.sample import options\n",
        "outrider/sample/options.py": "",
        "outrider/learn/step.py": "import torch\nfrom outrider.learn import options\nfrom .. import credit\n",
        "outrider/train/loop.py": "from outrider.learn import step\nimport outrider.config.recipe\n",
    }
    return write(tmp_path, files | kept)


def test_a_tree_that_keeps_the_rules_passes(tree):
    status, output = layers(tree)
    assert status == 0, output
    assert re.search(r"import in [\d,]+ calls of functions, 550,000 allowed", output)


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("record/a.py", "import outrider.explore", "record imports outrider.explore"),
        ("credit/a.py", "from outrider.explore.uniform import Uniform", "credit imports outrider.explore.uniform"),
        ("measure/a.py", "from outrider import sample", "measure imports outrider.sample"),
        ("explore/a.py", "from ..credit import chain", "explore imports outrider.credit"),
        ("explore/__init__.py", "from ..credit import chain", "explore imports outrider.credit"),
        ("sample/a.py", "def f():\n    from outrider.learn import step", "sample imports outrider.learn.step"),
        ("config/a.py", "from outrider.learn import step", "config imports outrider.learn.step"),
        ("train/a.py", "import outrider.cli", "train imports outrider.cli"),
        ("report/a.py", "from outrider.train.loop import Loop", "report imports outrider.train.loop"),
        ("score/a.py", "import outrider.sample", "score imports outrider.sample"),
        ("validate/a.py", "import outrider.bench", "validate imports outrider.bench"),
        ("record/a.py", "import torch", "record imports torch"),
        ("explore/a.py", "def f():\n    import torch.nn as nn", "explore imports torch"),
        ("credit/a.py", "class C:\n    def f(self):\n        from torch.nn import functional", "credit imports torch"),
        ("measure/a.py", "if False:\n    from transformers import AutoModel", "measure imports transformers"),
        ("learn/options.py", "import torch", "*.options imports torch"),
        ("novelty/a.py", "", "novelty has no row"),
    ],
)
def test_every_kind_of_forbidden_import_is_found(tree, file, source, complaint):
    status, output = layers(write(tree, {f"outrider/{file}": source + "\n"}))
    assert status == 1
    assert complaint in output
    assert f"outrider/{file}" in output


@pytest.mark.parametrize(
    "back",
    [
        "import outrider.record.a",
        "def f():\n    from outrider.record import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from outrider.record.a import A",
    ],
)
def test_files_that_import_each_other_in_a_circle_are_found(tree, back):
    files = {"a": "from outrider.record import b", "b": "from outrider.record.c import C", "c": back}
    status, output = layers(write(tree, {f"outrider/record/{name}.py": text + "\n" for name, text in files.items()}))
    assert status == 1
    wanted = "outrider.record.a -> outrider.record.b -> outrider.record.c -> outrider.record.a"
    assert f"files import each other in a circle: {wanted}" in output


def test_an_import_of_a_later_phase_is_found(tree):
    later = "import outrider.bench.tallies\nfrom outrider.bench.spec import Bench"
    files = {"__init__": "", "spec": "", "results": "", "tallies": "from . import results", "crossed": later}
    write(tree, {f"outrider/bench/{name}.py": text + "\n" for name, text in files.items()})
    assert layers(tree)[0] == 0
    write(tree, {"outrider/bench/cell.py": "def f():\n    from outrider.bench import crossed\n"})
    status, output = layers(tree)
    assert status == 1
    assert "outrider.bench.cell (plan) imports outrider.bench.crossed (compare): a later phase" in output


def test_a_file_without_a_phase_is_found(tree):
    status, output = layers(write(tree, {"outrider/bench/__init__.py": "", "outrider/bench/other.py": ""}))
    assert status == 1
    assert "outrider.bench.other has 0 phases in PHASES, not one" in output


def test_torch_that_comes_in_through_another_package_is_found(tree):
    """By reading, config imports only options; running it executes learn/__init__.py too."""
    status, output = layers(write(tree, {"outrider/learn/__init__.py": "import torch\n"}))
    assert status == 1
    assert "importing the light layers loads torch" in output


def test_a_sandbox_that_comes_in_with_a_task_is_found(tree):
    files = {
        "outrider/tasks/__init__.py": "import outrider.verify.sandbox\n",
        "outrider/verify/__init__.py": "",
        "outrider/verify/sandbox.py": "",
        "outrider/config/task.py": "import outrider.tasks\n",
    }
    status, output = layers(write(tree, files))
    assert status == 1
    assert "importing the light layers loads outrider.verify.sandbox" in output


def test_a_public_class_exists_once(tmp_path):
    write(tmp_path, {"outrider/record/rows.py": "class Row: pass\n", "outrider/tasks/table.py": "Row = tuple[int]\n"})
    status, output = run(sys.executable, ROOT / "tools/check_layers.py", tmp_path)
    assert status == 1
    assert "Row is defined in outrider.record.rows and outrider.tasks.table" in output


def test_a_slow_import_is_found(tree):
    busy = "def f():\n    len(())\nfor _ in range(300_000):\n    f()\n"  # of Python's and of C's functions
    status, output = layers(write(tree, {"outrider/record/__init__.py": busy}))
    assert status == 1
    assert re.search(r"the light layers import in \d{3},\d{3} calls of functions, 550,000 allowed", output)


# set-up


def stub(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_make_demo_takes_a_new_folder_every_time(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    write(tmp_path, {"pyproject.toml": "", "constraints.txt": "", ".venv/installed": ""})
    stub(tmp_path / ".venv/bin/outrider", 'mkdir -p "$4" && echo "$@" > "$4/arguments"')
    for _ in range(2):
        status, output = run("make", "demo", "DEMO=train grpo", cwd=tmp_path)
        assert status == 0, output
    for n in (1, 2):
        assert (tmp_path / f"runs/demo-{n}/arguments").read_text() == f"train grpo --out runs/demo-{n}\n"


def test_a_python_that_is_too_old_is_refused_in_one_sentence(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    write(tmp_path, {"pyproject.toml": "", "constraints.txt": ""})
    stub(tmp_path / "python3.10", "exit 1")
    status, output = run("make", "test", f"PYTHON={tmp_path}/python3.10", cwd=tmp_path)
    assert status != 0
    assert "Outrider needs Python 3.11 or newer" in output
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    ("check", "test", "passes", "closing"),
    [
        ("true", "echo 3 passed, 1 skipped in 0.12s", True, "== 3 passed, 1 skipped in 0.12s"),
        ("true", "echo 1 failed, 2 passed in 0.12s; exit 1", False, "== 1 failed, 2 passed in 0.12s"),
        ("true", "echo no tests ran in 0.01s; exit 5", False, "== no tests ran in 0.01s"),
        ("true", "true", False, "== pytest did not finish: no closing line"),
        ("true", "kill -9 $$$$", False, "== pytest did not finish: no closing line"),
        ("false", "echo 3 passed in 0.12s", False, None),
    ],
)
def test_ci_ends_with_pytests_closing_line_and_its_status(tmp_path, check, test, passes, closing):
    write(tmp_path, {"Makefile": f"check:\n\t@{check}\ntest:\n\t@{test}\n", ".ci/run": (ROOT / ".ci/run").read_text()})
    status, output = run("bash", tmp_path / ".ci/run")
    assert (status == 0) == passes, output
    if closing is None:
        assert "passed" not in output
    else:
        assert closing in output.splitlines()  # make's own error goes to stderr and may come later


# documents


def links() -> list[tuple[Path, str]]:
    """Every relative link of the documents, with the file it stands in."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [(page, target) for page in documents for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    return [(page, target.split("#")[0]) for page, target in found if not re.match(r"[a-z]+:|#", target)]


def test_the_documents_link_to_files_that_exist():
    assert len(links()) > 10
    assert [f"{page.name}: {target}" for page, target in links() if not (page.parent / target).exists()] == []


# the door


def test_what_hosts_and_indexes_read_is_well_formed():
    forms = [yaml.safe_load(path.read_text()) for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")]
    assert len(forms) >= 3
    for form in forms:
        assert {"name", "description", "body"} <= form.keys()
        ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert len(set(ids)) == len(ids)
    [job] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    oldest = re.search(r">=(3\.\d+)", (ROOT / "pyproject.toml").read_text())[1]
    assert job["strategy"]["matrix"]["python"][0] == oldest
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == outrider.__version__
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()


def test_the_folders_files_and_tables_that_contributing_names_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:src|tests|tools|benchmarks|\.ci)/[\w./*-]*)`", text))
    assert len(named) > 15
    assert [name for name in named if not list(ROOT.glob(name)) and not name.endswith("/mine.py")] == []
    for table, file in re.findall(r"`([A-Z_]+)` (?:of|in) `([\w/.]+)`", text):
        assert re.search(rf"^{table}\b.* = {{", (ROOT / file).read_text(), re.MULTILINE), table


def test_the_page_on_architecture_names_every_room_of_the_package():
    tree = (ROOT / "docs/architecture.md").read_text().split("src/outrider/\n")[1].split("```")[0]
    named = set(re.findall(r"^  ([a-z_]+(?:/|\.py)) ", tree, re.MULTILINE))
    package = ROOT / "src/outrider"
    there = {f"{path.name}/" for path in package.iterdir() if path.is_dir() and not path.name.startswith("_")}
    there |= {path.name for path in package.glob("[a-z]*.py")}
    assert named == there


# commands


def test_the_work_of_every_command_has_one_name():
    """``cli/NAME.py`` declares ``outrider NAME``; what it does is ``NAME_command`` in ``NAME_command.py`` of a room."""
    package = ROOT / "src/outrider"
    declared = {path.stem: path.read_text() for path in (package / "cli").glob("*.py")}
    works = {path.stem: path for path in package.glob("*/*_command.py")}
    assert len(works) > 8
    assert not [*package.glob("*/command.py")]
    for name, path in works.items():
        assert f"def {name}(" in path.read_text(), f"{path} has no function {name}"
        called = [command for command, text in declared.items() if re.search(rf"import {name}\b", text)]
        assert called in ([name.removesuffix("_command")], ["analyse"]), f"{name} is imported by {called}"
    here = {
        "__init__",
        "arguments",
        "broken_output",
        "task_arguments",
        "worked",
        "analyse",
    }  # the last has three kinds of analysis
    of_the_screen_alone = {"completion", "components", "recipes", "settings", "version"}
    assert {f"{name}_command" for name in declared.keys() - here - of_the_screen_alone} <= works.keys()
