# ruff: noqa: RUF001, RUF002 - look-alike characters
r"""Finds the line of a response that states the answer: ``Answer: 4``, ``### **Final answer:** 4``, ``#### 4``, 答案：4

Heading characters (``#``), quotation marks, bullets and emoji before a label such as ``Answer:`` are ignored. If the
line ends after the label, the answer is in the next paragraph. ``#### Step 2`` and ``#### Conclusion`` are Markdown
headings, not answers. The code is pure Python, runs in linear time, and never raises an exception.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern

LONGEST_LINE = 200  # maximum characters before the mark, and maximum characters of a heading
_FRONT = r"(?:[^\w\n$\\{}()\[\]|]|[0-9]{1,2}[.)]\s)*"
_ADJECTIVES = r"(?:(?:the|my|our|final|correct|right|best)\s+){0,3}"
_MARK = late_pattern(
    rf"{_FRONT}{_ADJECTIVES}ans(?:wer)?(?:\s+(?:is|choice))?[*_ \t]*[:：][*_]*"
    rf"|{_FRONT}(?:最终|最后|正确|标准|参考)?(?:的)?答案?(?:是|为)?[*_ \t]*[:：][*_]*"
    rf"|{_FRONT}【\s*(?:最终)?答案\s*】[:：]?"
    r"|[ \t]*####(?!#)",
    re.IGNORECASE,
)
_TITLE = late_pattern(
    rf"[#*_ \t]*(?:{_ADJECTIVES}(?:answer|result|solution|conclusion|summary|explanation|calculation|check"
    r"|verification)|(?:最终|最后)?(?:答案|结果|结论))s?[*_: \t]*$",
    re.IGNORECASE,
)
_HEADING = late_pattern(rf"\s*(?:#+|\*\*)[#*_ \t]*(?:{_ADJECTIVES}answer|最终答案)[*_: \t]*$", re.IGNORECASE)
_STEP = late_pattern(
    r"[*_ ]*(?:step|part|case|method|approach|stage|phase|question|problem|section|option)\b", re.IGNORECASE
)
_HOPE = late_pattern(r"\s*I hope (?:it|this) is correct\.?\s*$", re.IGNORECASE)
_DISPLAYS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}


def answer_line(text: str) -> str | None:
    r"""Return the answer after the last mark such as ``Answer:``, on the mark's line or below it; None if there is no
    mark.

    >>> answer_line("Answer: 3, or rather\n**Answer:** $4$\nas shown"), answer_line("### Final Answer\n\n\\[\n4\n\\]")
    ('$4$', '4')
    """
    found = last_answer_line(text, below=True)
    return found[1] if found else None


def last_answer_line(text: str, below: bool = False) -> tuple[int, str] | None:
    r"""Return the start offset and the text of the last stated answer. Return None if no answer is stated, or if the
    last one is empty.

    Args:
        below: whether the answer may be in the next paragraph if the line ends after a label such as ``Answer:``.

    >>> last_answer_line("So:\nAnswer: 3"), last_answer_line("Answer:\n3"), last_answer_line("> **正确答案：C**")
    ((4, '3'), None, (0, 'C'))
    """
    found, start = None, 0
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        heads = below and len(line) < LONGEST_LINE and _HEADING.match(line.rstrip())
        stated = "" if heads else _stated(line)
        if stated is not None:
            found = (start, at, stated)
        start += len(line)
    if found is None:
        return None
    said = found[2] or (_paragraph(lines, found[1] + 1) if below else "")
    return (found[0], said) if said else None


def is_heading(line: str) -> bool:
    """Return whether the text after ``####`` is the title of a section, not an answer.

    >>> [is_heading(line) for line in ("Final Answer", " **Step 2:** add 5", "12 apples", "Answer: 12")]
    [True, True, False, False]
    """
    return len(line) < LONGEST_LINE and bool(_STEP.match(line) or _TITLE.match(line))


def _stated(line: str) -> str | None:
    """Return the answer that a line states; None if the line states no answer."""
    mark = _MARK.match(line[:LONGEST_LINE])
    if mark is None:
        return None
    said = line[mark.end() :].strip().strip("*").strip()
    if mark[0].endswith("####") and is_heading(said):
        return None
    return _plain(_HOPE.sub("", said))


def _plain(said: str) -> str:
    """Return a stated answer without the delimiters of display mathematics around it."""
    for begin, end in _DISPLAYS.items():
        inner = said.rstrip(".")
        if inner.startswith(begin) and inner.endswith(end) and len(inner) >= len(begin) + len(end):
            inner = inner[len(begin) : -len(end)]
            return said if begin in inner or end in inner else inner.strip()
    return said


def _paragraph(lines: list[str], at: int) -> str:
    """Return the first line of the next paragraph or, if a display formula begins there, the whole formula."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at == len(lines):
        return ""
    first = lines[at].strip()
    end = _DISPLAYS.get(first[:2])
    if end is None or end in first[2:]:
        return _plain(_HOPE.sub("", first).strip("*").strip())
    for last in range(at + 1, min(at + 10, len(lines))):
        if end in lines[last]:
            return _plain("".join(lines[at : last + 1]).strip())
    return first
