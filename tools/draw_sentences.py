"""Sentences of the project, drawn at random with their place, for a reader who says whether they are plain.

Usage: ``python tools/draw_sentences.py SEED [N]``: N (10) each from pages, descriptions of options, and docstrings.
Each comes with what a reader has beside it: a page's title, heading and paragraph, an option's type, default and
group, or a signature with its docstring, the first lines of its code, and what the module and the class around it say
first.
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
SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:")


def of_pages(root: Path) -> Iterator[str]:
    """Sentences of pages, without the log's dated entries and decision records."""
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if path.name == "log.md":
            continue
        text = re.sub(r"(?s)```.*?```", "", path.read_text("utf-8"))
        title = heading = before = ""
        for block in re.split(r"\n\s*\n", text):
            paragraph = " ".join(block.split())
            if block.startswith("#"):
                heading, before = paragraph.lstrip("# "), ""
                title = title or heading
            place = f"{path.relative_to(root)} ({title}; {heading})\n    before: {before}\n    paragraph: {paragraph}"
            for sentence in sentences(block):
                if len(sentence.split()) >= SHORTEST:
                    yield f"{place}\n    SENTENCE: {sentence}"
            before = paragraph


def of_options(root: Path) -> Iterator[str]:
    """Descriptions of options, with their class, type and default."""
    for path, tree in trees(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            about = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and (text := description(field.value)):
                    option = f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)} = {default(field.value)}"
                    yield f"{path}: {node.name}.{option}\n    {node.name}: {about}\n    SENTENCE: {text}"


def of_docstrings(root: Path) -> Iterator[str]:
    """Sentences of docstrings, with the signature, the module and class around it, and the first lines of code."""
    for path, tree in trees(root):
        for node, around in documented(tree, ()):
            text = ast.get_docstring(node) or ""
            beside = "".join(f"\n    {signature(one)} {opening(one)}" for one in around if opening(one))
            whole = " ".join(without_doctests(text).split())
            for part in parts(text):
                for sentence in re.split(r"(?<=[.!?])\s+", part):
                    if len(sentence.split()) >= SHORTEST and ":math:" not in sentence:
                        shown = f"{beside}\n    docstring: {whole}{code(node)}\n    SENTENCE: {sentence}"
                        yield f"{path}: {signature(node)}{shown}"


Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def documented(node: ast.AST, around: tuple[Documented, ...]) -> Iterator[tuple[Documented, tuple[Documented, ...]]]:
    """Modules, classes and functions that have a docstring, each with the ones around it, the module first."""
    if isinstance(node, Documented):
        if ast.get_docstring(node):
            yield node, around
        around = (*around, node)
    for child in ast.iter_child_nodes(node):
        yield from documented(child, around)


def opening(node: Documented) -> str:
    """The first paragraph of a docstring."""
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


def parts(docstring: str) -> Iterator[str]:
    """Paragraphs of a docstring and items of its lists, without doctests, formulas, tables and code."""
    for block in re.split(r"\n\s*\n", without_doctests(docstring)):
        head, *items = re.split(r"\n {4}(?=\S)", block.rstrip())
        if head in SECTIONS:
            yield from (" ".join(item.split()) for item in items)
        elif not block.startswith((" ", "..", "===")):
            yield from (" ".join(item.split()) for item in re.split(r"(?m)^[-*] ", block))


def code(node: Documented) -> str:
    """Return the first ten lines of a function or class after its docstring."""
    lines = [line for part in node.body[1:] for line in ast.unparse(part).split("\n")]
    shown = [] if isinstance(node, ast.Module) else lines[:10]
    return "".join(f"\n    code:   {line}" for line in shown)


def without_doctests(text: str) -> str:
    """The text without examples and their output, which ends at an empty line."""
    return re.sub(r"(?ms)^[ \t]*>>> .*?(?:\n[ \t]*\n|\Z)", "\n\n", text + "\n\n")


def signature(node: Documented) -> str:
    """The line of a class or function that names it."""
    if isinstance(node, ast.Module):
        return "module"
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
