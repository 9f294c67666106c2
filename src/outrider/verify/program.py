r"""Extracts the program from a response."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from outrider.texts import late_pattern

Code = Literal["block", "completion"]

# A completion of a function ends before the first of these stop strings (Chen et al. 2021, section 2.1).
STOPS = late_pattern(r"\n(?=class|def|#|if|print)")
LONGEST_STRING = 5_000  # maximum characters of a string that may contain fences; longer strings count as unclosed

_PYTHON = late_pattern(r"(?:i?python|py)(?:3[\d.]*)?")
_ITEM = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"  # a fence may begin on the line of its list item
_FENCE = late_pattern(rf"^([ \t]*)({_ITEM})(`{{3,}}|~{{3,}})[ \t]*([^\n`]*)$", re.MULTILINE)
_LANGUAGE = late_pattern(r"\{?[ \t]*(?:#\S+[ \t]+)?\.?([\w.+#-]*)")  # python, {.python}, {#id .python}, python:name.py
_LEXEME = late_pattern(r"""#[^\n]*|(?P<quotes>'{3}|"{3})|'(?:\\.|[^'\\\n])*'?|"(?:\\.|[^"\\\n])*"?""", re.DOTALL)
_END_OF_STRING = {
    quotes: late_pattern(rf"(?:[^\\{quotes[0]}]+|\\.|(?!{quotes}){quotes[0]})*+{quotes}", re.DOTALL)
    for quotes in ("'''", '"""')
}


class FencedBlock(NamedTuple):
    """A fenced block of code: its language in lower case, its content, and its end offset in the text."""

    language: str
    content: str
    end: int

    @property
    def program(self) -> str | None:
        """The content of the block if it is marked as Python or has no language; otherwise None."""
        # some programs begin with a byte order mark, which Python allows in a file
        is_python = not self.language or _PYTHON.fullmatch(self.language)
        return self.content.removeprefix("\ufeff") if is_python else None


class _Fence(NamedTuple):
    """A line that opens or closes a fenced block."""

    start: int
    end: int
    column: int  # column of the fence marks
    marks: str
    language: str
    bare: bool  # whether the line has no other text, so that the fence can close a block


def program_of(text: str, finished: bool, code: Code) -> str | None:
    r"""Return the program in a response; None if there is no program.

    With ``code="block"``, the program is the content of the last fenced block marked as Python or, if no block is
    marked as Python, of the last block without a language. Blocks in other languages are always ignored. If the last
    block is not closed, it ends at the end of a finished response. In a truncated response, an unclosed block is
    ignored. As in Markdown, the indentation of a fence is removed from the content of the block. A fence inside a
    string of a program is part of the program. With ``code="completion"``, the program is the response up to the first
    line that begins with ``class``, ``def``, ``#``, ``if`` or ``print``. These are the stop strings used by HumanEval's
    authors.

    >>> program_of("First\n```python\nx = 1\n```\nwhich prints\n```text\n1\n```", True, "block")
    'x = 1\n'
    >>> program_of("1. So:\n   ```{.python}\n   if x:\n       x = 1\n   ```", True, "block")
    'if x:\n    x = 1\n'
    >>> program_of("    return 1\n\ndef next():", False, "completion")
    '    return 1\n'
    """
    if code == "completion":
        return STOPS.split(text, maxsplit=1)[0] if text.strip() else None
    blocks = _blocks(text, finished)
    for wanted in (_PYTHON, re.compile("")):
        marked = [block.program for block in blocks if wanted.fullmatch(block.language)]
        if marked:
            last = marked[-1]
            return last if last and last.strip() else None
    return None


def ending_block(text: str) -> FencedBlock | None:
    r"""Return the closed block at the end of a text, ignoring white space; None if the text does not end with a block.

    >>> ending_block("So:\n```python\nprint(1)\n```").program
    'print(1)\n'
    >>> ending_block("```python\nprint(1)\n```\nprints 1") is None
    True
    """
    blocks = _blocks(text, False)
    return blocks[-1] if blocks and not text[blocks[-1].end :].strip() else None


def _blocks(text: str, finished: bool) -> list[FencedBlock]:
    """Return all fenced blocks of a text."""
    fences = [_fence(match) for match in _FENCE.finditer(text)]
    blocks: list[FencedBlock] = []
    at = 0
    while at < len(fences):
        opening = fences[at]
        at = _closing(text, fences, at)
        if at < len(fences) or finished:
            start, end = fences[at][:2] if at < len(fences) else (len(text), len(text))
            blocks.append(FencedBlock(opening.language, _outdented(text[opening.end + 1 : start], opening.column), end))
        at += 1
    return blocks


def _fence(match: re.Match[str]) -> _Fence:
    indent, item, marks, info = match.groups()
    language = _LANGUAGE.match(info.strip().lower())
    assert language is not None  # it may be empty
    column = len((indent + item).expandtabs(4))
    return _Fence(match.start(), match.end(), column, marks, language[1], not item and not info.strip())


def _closing(text: str, fences: list[_Fence], opening: int) -> int:
    """Return the index of the fence that closes a block, or the number of fences if no fence closes it.

    Fences inside a triple-quoted string, such as a docstring with an example, do not close a Python block if they come
    in pairs.
    """
    # with an odd number of fences, the string was never closed, and one of the fences ends the block
    first = fences[opening]
    is_python = not first.language or _PYTHON.fullmatch(first.language)
    at, position = opening + 1, first.end
    while at < len(fences):
        fence = fences[at]
        if is_python:
            position = _read(text, position, fence.start)
        behind = next((i for i in range(at, len(fences)) if fences[i].start >= position), len(fences))
        if behind > at and (behind - at) % 2 == 0 and all(fences[i].bare for i in range(at + 1, behind, 2)):
            at = behind
        elif fence.bare and fence.marks.startswith(first.marks):
            return at
        else:
            at += 1
    return len(fences)


def _read(text: str, start: int, until: int) -> int:
    """Read Python from ``start``. Return the offset ``until`` or, if this offset is in a triple-quoted string, the end
    of the string."""
    while start < until and (lexeme := _LEXEME.search(text, start, until)):
        start = lexeme.end()
        if quotes := lexeme["quotes"]:
            end = _END_OF_STRING[quotes].match(text, start, start + LONGEST_STRING)
            start = end.end() if end else until
    return max(start, until)


def _outdented(content: str, columns: int) -> str:
    """Remove up to ``columns`` columns of leading white space from each line."""
    if not columns:
        return content
    lines = []
    for line in content.split("\n"):
        code = line.lstrip(" \t")
        indent = line[: len(line) - len(code)].expandtabs(4)
        lines.append(indent[columns:] + code)
    return "\n".join(lines)
