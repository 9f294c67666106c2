r"""The reference of the library: what its docstrings say, as Markdown. The code is read and never run.

Docstrings are plain text with ``.. math::`` blocks, ``:math:`` and ``:class:`` roles, doctests and sections such as
``Raises:``; :func:`markdown` turns those into what a Markdown reader knows.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

SECTIONS = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):\s*$")
HIDDEN = {"cli", "commands", "estimate", "processes", "train"}  # commands have a page, the others no library
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def markdown(docstring: str) -> str:
    r"""A docstring as Markdown.

    >>> print(markdown("Half of :math:`x`, see :func:`~a.b`.\n\n.. math:: x / 2\n\n>>> 1 + 1\n2"))
    Half of \(x\), see `b`.
    <BLANKLINE>
    \[x / 2\]
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    return "\n\n".join(block for old in joined(blocks) if (block := rendered(old)))


def joined(blocks: list[str]) -> Iterator[str]:
    """Paragraphs, with formulas that hold an empty line put together again."""
    held = ""
    for block in blocks:
        if held and block.startswith("   "):
            held += "\n" + block
            continue
        if held:
            yield held
        held = block
    yield held


def rendered(block: str) -> str:
    """One paragraph, formula, section or doctest."""
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith("===="):  # a table, of which Markdown knows no such form
        return "```text\n" + "\n".join(line.replace("``", "") for line in block.splitlines()[1:-1]) + "\n```"
    if block.startswith("::\n"):
        return f"```text\n{inspect.cleandoc(block[3:])}\n```"
    before, formula, rest = block.partition(".. math::")
    if formula:
        lines = rest.splitlines()
        inside = [lines[0], *(line for line in lines[1:] if line.startswith(" ") or not line.strip())]
        after = [line for line in lines[1:] if line.strip() and not line.startswith(" ")]
        text = "\n".join(line.strip() for line in inside if line.strip())
        if "\\\\" in text and "\\begin" not in text:
            text = rf"\begin{{aligned}}{text}\end{{aligned}}"
        return "\n\n".join(part for part in (inline(before.strip()), rf"\[{text}\]", inline("\n".join(after))) if part)
    lines = block.splitlines()
    for i, line in enumerate(lines):
        if found := SECTIONS.match(line):
            above = [inline("\n".join(lines[:i]))] if i else []
            return "\n\n".join([*above, f"*{found[1]}*", "\n".join(items(lines[i + 1 :]))])
    return inline(block)


def items(lines: list[str]) -> list[str]:
    """``name: what`` lines, with their continuations, as a list."""
    whole: list[str] = []
    for line in lines:
        if line.startswith("        ") and whole:
            whole[-1] += " " + line.strip()
        else:
            whole.append(line.strip())
    parts = [text.partition(": ") for text in whole]
    return [
        f"- `{name}`: {inline(what)}" if colon and " " not in name else f"- {inline(name + colon + what)}"
        for name, colon, what in parts
    ]


def inline(text: str) -> str:
    """Roles and double backticks."""
    text = re.sub(r":math:`([^`]+)`", r"\\(\1\\)", text)
    text = re.sub(r":\w+:`~?([^`]+)`", lambda found: f"`{found[1].removeprefix('outrider.').split('.')[-1]}`", text)
    return re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL)


def pages(package: Path) -> dict[str, str]:
    """Room to the text of its page: every public class and function of its modules."""
    rooms = sorted({path.parent for path in package.glob("*/*.py")})
    return {room.name: page(room) for room in rooms if room.name not in HIDDEN}


def page(room: Path) -> str:
    """One room: what its package says, then module after module."""
    init = room / "__init__.py"
    said = (ast.get_docstring(ast.parse(init.read_text())) if init.exists() else None) or ""
    parts = [f"# `outrider.{room.name}`\n\n{markdown(said)}\n"]
    for path in sorted(room.rglob("*.py")):
        tree = ast.parse(path.read_text())
        public = [node for node in tree.body if isinstance(node, Documented) and not node.name.startswith("_")]
        if public and path.name != "__init__.py":
            dotted = ".".join(path.relative_to(room.parent).with_suffix("").parts)
            link = "/".join([".."] * 2 + ["src/outrider", *path.relative_to(room.parent).parts])
            parts.append(f"## [`{dotted}`]({link})\n\n{markdown(ast.get_docstring(tree) or '')}\n")
            parts += [one for node in public for one in entry(node, 3)]
    return "\n".join(parts)


def entry(node: Documented, level: int) -> Iterator[str]:
    """A class with its public methods, or a function."""
    if not (said := ast.get_docstring(node)):
        return
    yield f"{'#' * level} `{node.name}`\n\n```python\n{signature(node)}\n```\n\n{markdown(said)}\n"
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                yield from entry(inner, level + 1)


def signature(node: Documented) -> str:
    """The first line, as it would be typed."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ast.unparse(node.args)
    one = f"def {node.name}({arguments}){returns}"
    if len(one) <= 100:
        return one
    broken = re.sub(r", (?![^\[(]*[\])])", ",\n    ", arguments)
    return f"def {node.name}(\n    {broken},\n){returns}"
