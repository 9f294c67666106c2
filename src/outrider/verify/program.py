r"""The program in a response, as text. Nothing here looks at what the program does."""

from __future__ import annotations

import re
from typing import Literal

Code = Literal["block", "completion"]

PYTHON_TAGS = ("python", "python3", "py")
# Where a completion of a function ends and the next thing begins: the stop strings of Chen et al. 2021, section 2.1.
STOPS = re.compile(r"\n(?=class|def|#|if|print)")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)$", re.MULTILINE)


def program_of(text: str, finished: bool, code: Code) -> str | None:
    r"""The program in a response, or None.

    ``block``: the content of the last fenced block that is marked as Python, or of the last without a mark where
    none is. Blocks of other languages never count, nor does one that was never closed, unless the response is
    finished: then it ends with the response. ``completion``: the response up to the first line that begins with
    ``class``, ``def``, ``#``, ``if`` or ``print``, the stop strings of HumanEval's authors.

    >>> program_of("First\n```python\nx = 1\n```\nwhich prints\n```text\n1\n```", True, "block")
    'x = 1\n'
    >>> program_of("    return 1\n\ndef next():", False, "completion")
    '    return 1\n'
    """
    if code == "completion":
        return STOPS.split(text, maxsplit=1)[0] if text.strip() else None
    blocks = _blocks(text, finished)
    for marks in (PYTHON_TAGS, ("",)):
        found = [content for mark, content in blocks if mark in marks]
        if found:
            return found[-1] if found[-1].strip() else None
    return None


def _blocks(text: str, finished: bool) -> list[tuple[str, str]]:
    """Language and content of each fenced block."""
    blocks: list[tuple[str, str]] = []
    fence, language, start = "", "", 0
    for match in _FENCE.finditer(text):
        marks, mark = match[1], match[2].strip().lower().split(" ")[0]
        if not fence:
            fence, language, start = marks, mark, match.end() + 1
        elif marks.startswith(fence) and not mark:
            blocks.append((language, text[start : match.start()]))
            fence = ""
    if fence and finished:
        blocks.append((language, text[start:]))
    return blocks
