"""What a shell completes, asked of bash itself; and how little ``outrider --help`` loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from outrider.cli import main

ASK = """
eval "$(cat "$1")"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=()
"$(complete -p outrider | sed 's/.*-F \\([^ ]*\\).*/\\1/')" 2>&1
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_the_command_line_is_built_without_a_heavy_import():
    """So ``outrider --help`` costs the interpreter's start; seconds would depend on the machine."""
    heavy = ["numpy", "pydantic", "yaml", "rich", "scipy", "duckdb", "torch", "transformers", "outrider.config"]
    code = f"import sys\nfrom outrider.cli import build_parser\nbuild_parser()\nprint(*{{*{heavy}}} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_without_its_package_completion_says_so_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert (
        capsys.readouterr().err == "outrider: completion needs the package shtab: pip install 'outrider[completion]'\n"
    )


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    pytest.importorskip("shtab")
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    folder = tmp_path_factory.mktemp("completion")
    command = [sys.executable, "-m", "outrider", "completion", "bash"]
    (folder / "script").write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (folder / "mine.yaml").touch()
    (folder / "runs").mkdir()
    return folder / "script"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("outrider tr", {"train"}),
        ("outrider train dars-hw", {"dars-hw", "dars-hw-breadth"}),
        ("outrider train m", {"maxrl", "mine.yaml"}),
        ("outrider train grpo --re", {"--resume"}),
        ("outrider bench grpo dr-", {"dr-grpo"}),
        ("outrider recipes show rlo", {"rloo"}),
        ("outrider train grpo --setting gsm", {"gsm8k-0.5b", "gsm8k-7b"}),
        ("outrider report ru", {"runs"}),
        ("outrider analyse sh", {"shift"}),
        ("outrider train nosuch", {""}),
    ],
)
def test_bash_completes(script, words, completed):
    asked = ["bash", "--norc", "-c", ASK, "bash", script, *words.split()]
    found = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=script.parent, env={**os.environ})
    assert set(found.stdout.split("\n")[:-1]) == completed
