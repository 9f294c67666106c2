"""The size budgets: a file holds one idea in at most 400 lines, a function at most 60 without its docstring.

Usage: ``python tools/check_budgets.py [folder]``. Files over 200 lines are listed as information; a broken budget is
named with its figure and makes the exit status 1.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_AIM = 200
FILE_LIMIT = 400
FUNCTION_LIMIT = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_lines(node: Function) -> int:
    """Lines from ``def`` to the end, without the docstring. Decorators do not count, inner functions do."""
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        docstring = node.body[0]
        length -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return length


def long_functions(tree: ast.AST) -> Iterator[tuple[Function, int]]:
    """Every function or method over the limit, with its length."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and (length := function_lines(node)) > FUNCTION_LIMIT:
            yield node, length


def check(root: Path) -> tuple[list[str], list[str]]:
    """The broken budgets below ``root``, and the files that are over the aim but within the limit."""
    broken, notes = [], []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines = len(source.splitlines())
        if lines > FILE_LIMIT:
            broken.append(f"{path}: {lines} lines, {FILE_LIMIT} allowed")
        elif lines > FILE_AIM:
            notes.append(f"{path}: {lines} lines")
        for node, length in long_functions(ast.parse(source, str(path))):
            broken.append(f"{path}:{node.lineno}: {node.name} has {length} lines, {FUNCTION_LIMIT} allowed")
    return broken, notes


def main() -> int:
    """Print what is over budget; 1 if anything is, 2 if there is nothing to check."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    if not any(root.rglob("*.py")):
        print(f"no Python files below {root}")
        return 2
    broken, notes = check(root)
    if notes:
        print(f"over the aim of {FILE_AIM} lines (no fault):", *notes, sep="\n  ")
    if broken:
        print("over budget:", *broken, sep="\n  ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
