"""Sentences of the project, drawn at random with their place, for a reader who says whether they are plain.

Usage: ``python tools/draw_sentences.py SEED [N]``: N (10) each from pages, descriptions of options, and docstrings.
Each comes with what a reader has beside it: the paragraph of a page, the option's type and default, or the signature.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from check_language import sentences

ROOT = Path(__file__).parents[1]
SHORTEST = 6
"""Words; shorter texts are headings and labels."""


def of_pages(root: Path) -> Iterator[str]:
    """Sentences of pages, without the log's dated entries and decision records."""
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if path.name == "log.md":
            continue
        text = re.sub(r"(?s)```.*?```", "", path.read_text("utf-8"))
        for block in re.split(r"\n\s*\n", text):
            for sentence in sentences(block):
                if len(sentence.split()) >= SHORTEST:
                    paragraph = " ".join(block.split())
                    yield f"{path.relative_to(root)}\n    paragraph: {paragraph}\n    SENTENCE: {sentence}"


def of_options(root: Path) -> Iterator[str]:
    """Descriptions of options, with their class, type and default."""
    for path, tree in trees(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and (text := description(field.value)):
                    option = ast.unparse(field.target), ast.unparse(field.annotation), default(field.value)
                    yield f"{path}: {node.name}.{option[0]}: {option[1]} = {option[2]}\n    SENTENCE: {text}"


def of_docstrings(root: Path) -> Iterator[str]:
    """Sentences of docstrings, with the signature."""
    for path, tree in trees(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) or not (
                text := ast.get_docstring(node)
            ):
                continue
            place = "module" if isinstance(node, ast.Module) else signature(node)
            whole = " ".join(re.sub(r"(?m)^\s*\.\. .*", "", without_doctests(text)).split())
            for sentence in re.split(r"(?<=[.!?])\s+", whole):
                if len(sentence.split()) >= SHORTEST and ":math:" not in sentence:
                    yield f"{path}: {place}\n    docstring: {whole[:700]}\n    SENTENCE: {sentence}"


def without_doctests(text: str) -> str:
    """The text without examples and their output, which ends at an empty line."""
    return re.sub(r"(?ms)^[ \t]*>>> .*?(?:\n[ \t]*\n|\Z)", "\n\n", text + "\n\n")


def signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The line of a class or function that names it."""
    return next(line for line in ast.unparse(node).split("\n") if line.startswith(("class ", "def ")))


def trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """The files of the package by name."""
    for path in sorted((root / "src").rglob("*.py")):
        yield path.relative_to(root).as_posix(), ast.parse(path.read_text("utf-8"))


def description(value: ast.expr | None) -> str:
    """The description in a call of ``Field``; empty for anything else."""
    if not isinstance(value, ast.Call) or getattr(value.func, "id", "") != "Field":
        return ""
    given = [one.value for one in value.keywords if one.arg == "description"]
    return str(given[0].value) if given and isinstance(given[0], ast.Constant) else ""


def default(value: ast.expr | None) -> str:
    """The default that a call of ``Field`` states."""
    assert isinstance(value, ast.Call)
    return ast.unparse(value.args[0]) if value.args else "…"


def main() -> None:
    """Print the sentences."""
    seed, n = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    for kind in (of_pages, of_options, of_docstrings):
        for i, one in enumerate(random.Random(seed).sample(list(kind(ROOT)), n), 1):
            print(f"{kind.__name__} {i}. {one}\n")


if __name__ == "__main__":
    main()
