r"""Separates the reasoning in a response from the answer. Text between reasoning marks is neither part of the answer
nor a tool call.

The answer is the text after the last closed reasoning block. If a block is never closed, the response has no answer,
like a truncated response. The code is pure Python, runs in linear time, and never raises an exception.

- A closing mark without an opening mark ends a block that the prompt opened, or whose opening mark is missing.
- Inside a block, all marks except the block's closing mark are ignored, so the end of a block also ends all blocks
  inside it. The answer always follows the last closing mark.
- Marks in a closed fenced block, in ``<tool_call>…</tool_call>`` or directly within quotes or backticks are ignored: a
  program may print ``"<think>"``. There are two exceptions, so that reasoning cannot be hidden in these places. If the
  first text inside a fenced block or tool call is an opening mark, marks in it are not ignored. A closing mark without
  an opening mark is not ignored if it is alone on its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from outrider.record import Problem
from outrider.texts import MARKS

UNCLOSED = "reasoning block not closed"
_LONGEST_END = 200  # maximum characters at the end of a prompt that are searched for an opening mark
_LONGEST_QUOTE = 200  # maximum characters of a quotation
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019"}
_TAG = re.compile(r"</?\w+>")
_CLOSES_QUOTE = re.compile(r"[\w.,;)\]]$")  # text before a quotation mark that ends a quotation
_STRING_PREFIX = re.compile(r"(?<!\w)[rRbBfFuU]{1,2}$")  # prefix of a Python string
_FENCE = re.compile(r"^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})([^\n`]*)$|<(/?)tool_call>", re.MULTILINE)


class SplitThinking(NamedTuple):
    """A response split into reasoning and answer.

    Attributes:
        thinking: the text before the answer, without the outer marks; None if there is no reasoning.
        answer: the text after the last closed reasoning block; None if a block is not closed.
        unclosed: the opening mark of the block that is not closed; ``""`` if there is no such block.
    """

    thinking: str | None
    answer: str | None
    unclosed: str = ""


class _Mark(NamedTuple):
    """A reasoning mark such as ``<think>``, or the start or end of a fenced block or tool call, in which marks are
    ignored. Marks within quotes are excluded."""

    start: int
    end: int
    kind: str  # "open", "close", "fence" or "call"
    name: str  # for a reasoning mark, the closing mark; for a fence, its signs
    closes: bool = False  # whether the mark can end a passage: a fence without a language, or the end of a call


def split_thinking(text: str, marks: Mapping[str, str] | None = None, prompt: str = "") -> SplitThinking:
    r"""Split a response at the end of its last closed reasoning block.

    Args:
        marks: opening and closing marks of reasoning blocks; None for the common marks in ``MARKS``.
        prompt: the text before the response. If this text ends with an opening mark, the response begins inside a
            block.

    >>> split_thinking("<think>\n\\boxed{7}? No.\n</think>\n\nIt is 8.")
    SplitThinking(thinking='\\boxed{7}? No.', answer='It is 8.', unclosed='')
    >>> split_thinking("7? No.</think>It is 8.").answer, split_thinking("It is 8.")
    ('It is 8.', SplitThinking(thinking=None, answer='It is 8.', unclosed=''))
    >>> split_thinking("<THINK>It is 7."), split_thinking("It is 7.", None, "Go: <think>\n").answer
    (SplitThinking(thinking='It is 7.', answer=None, unclosed='<think>'), None)
    >>> split_thinking('print("<think>")').answer
    'print("<think>")'
    """
    marks = MARKS if marks is None else marks
    pattern, names = _pattern(tuple(marks.items()))
    inside = opened_by(prompt, marks)
    if pattern is None or (inside is None and not pattern.search(text)):
        return SplitThinking(None, text)
    begin, closed, inside = _last_closed(text, _marks(text, pattern, names), inside)
    if inside is not None:
        return SplitThinking(_bare(text[begin:], pattern), None, next(m for m in marks if marks[m].lower() == inside))
    return SplitThinking(_bare(text[:closed], pattern), _behind(text[begin:])) if begin else SplitThinking(None, text)


def opened_by(prompt: str, marks: Mapping[str, str] | None = None) -> str | None:
    r"""Return the closing mark that a response needs because the prompt ends with an opening mark; otherwise None.

    >>> opened_by("<|assistant|><think>\n"), opened_by("<think>\n\n</think>\n\n")
    ('</think>', None)
    """
    end = prompt[-_LONGEST_END:].rstrip().lower()
    found = [mark for mark in (MARKS if marks is None else marks) if end.endswith(mark.lower())]
    return (MARKS if marks is None else marks)[max(found, key=len)].lower() if found else None


def answer_of(text: str, problem: Problem, marks: Mapping[str, str] | None = None) -> str | None:
    """Return the part of a response after its reasoning; None if a reasoning block is not closed."""
    return split_thinking(text, marks, problem.prompt_end).answer


class TurnThinking:
    """Splits each turn of a multi-turn rollout into reasoning and answer. A reasoning block that a turn leaves open
    continues in the next turn.

    With a chat template, a block ends with its turn, since the template begins a new message for every turn.

    Attributes:
        problem: a copy of the problem for the next turn. Its ``prompt_end`` ends with an opening mark if that turn
            begins inside a reasoning block.
    """

    def __init__(self, problem: Problem, marks: Mapping[str, str] | None = None) -> None:
        self._templated, self._marks = problem.templated, marks
        self.problem = problem.prompted(problem.prompt_end)

    def split(self, text: str) -> SplitThinking:
        """Split the next turn into reasoning and answer."""
        split = split_thinking(text, self._marks, self.problem.prompt_end)
        if not self._templated:
            self.problem = self.problem.prompted(split.unclosed)
        return split


@lru_cache(16)
def _pattern(marks: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str] | None, dict[str, tuple[str, str]]]:
    """Return a pattern that matches all marks, and a table whose keys are the marks in lower case. The values are the
    mark's kind (open or close) and the closing mark of its block."""
    names = {_key(closing): ("close", closing.lower()) for _, closing in marks}
    names |= {_key(opening): ("open", closing.lower()) for opening, closing in marks}
    if not names:
        return None, names
    longest_first = sorted({mark for pair in marks for mark in pair}, key=len, reverse=True)
    spaced = [
        re.sub("^</|^<|>$", _with_space, mark) if _TAG.fullmatch(mark) else re.escape(mark) for mark in longest_first
    ]
    return re.compile("|".join(spaced), re.IGNORECASE | re.ASCII), names


def _with_space(sign: re.Match[str]) -> str:
    """Return a pattern that matches ``<``, ``</`` or ``>`` in a tag, with or without spaces on its inner side."""
    return {"<": "< ?", "</": "< ?/ ?", ">": " ?>"}[sign[0]]


def _key(mark: str) -> str:
    """Return a mark as a dictionary key, which is in lower case and without spaces."""
    return mark.lower().replace(" ", "")


def _marks(text: str, pattern: re.Pattern[str], names: Mapping[str, tuple[str, str]]) -> list[_Mark]:
    """Return all marks that are not ignored, all fences and all tool call tags, in order."""
    found: list[_Mark] = []
    quoted = 0  # end of the last quotation that begins with a mark
    for match in pattern.finditer(text):
        quoted = max(quoted, _quotation(text, match))
        if match.start() >= quoted and not _ends_a_quotation(text, match):
            found.append(_Mark(match.start(), match.end(), *names[_key(match[0])]))
    for match in _FENCE.finditer(text):
        signs, info, slash = match.groups()
        if signs:
            found.append(_Mark(match.start(), match.end(), "fence", signs, not info.strip()))
        else:
            found.append(_Mark(match.start(), match.end(), "call", "call", bool(slash)))
    return sorted(found)


def _quotation(text: str, mark: re.Match[str]) -> int:
    """Return the end of the quotation that begins directly before a mark; 0 if there is none."""
    at = mark.start()
    before, lead = text[max(at - 1, 0) : at], text[max(at - 4, 0) : max(at - 1, 0)]
    if before not in _QUOTES or (_CLOSES_QUOTE.search(lead) and not _STRING_PREFIX.search(lead)):
        return 0
    line = text[mark.end() : mark.end() + _LONGEST_QUOTE].partition("\n")[0]
    end = line.find(_QUOTES[before])
    return mark.end() + end if end >= 0 else 0


def _ends_a_quotation(text: str, mark: re.Match[str]) -> bool:
    """Return whether the quotation mark directly after a reasoning mark ends a quotation on the same line."""
    after = text[mark.end() : mark.end() + 2]
    opening = next((begin for begin, end in _QUOTES.items() if after[:1] == end), None)
    if opening is None or after[1:].isalnum():
        return False
    line = text[max(mark.start() - _LONGEST_QUOTE, 0) : mark.start()].rpartition("\n")[2]
    if opening != _QUOTES[opening]:
        return line.rfind(opening) > line.rfind(_QUOTES[opening])
    return line.count(opening) % 2 == 1


def _last_closed(text: str, marks: list[_Mark], inside: str | None) -> tuple[int, int, str | None]:
    """Return three values: the end of the last closed block, the start of this block's closing mark, and the closing
    mark that is missing if a block is not closed."""
    begin = closed = at = 0
    ends = _ends_of_fences(text, marks)
    until, in_fence = -1, False  # index of the mark that ends the current fence; whether a block was opened in it
    for at, mark in enumerate(marks):
        if at >= until:
            until, in_fence = -1, False
        if mark.kind in ("fence", "call"):
            if inside is None and until < 0:
                until = ends[at]
        elif inside is not None:
            if mark.kind == "close" and mark.name == inside:
                begin, closed, inside = mark.end, mark.start, None
        elif until >= 0 and (mark.kind == "open" or in_fence or not _alone(text, mark)):
            in_fence = mark.kind == "open"
        elif mark.kind == "close":
            begin, closed, until = mark.end, mark.start, -1
        else:
            inside = mark.name
    return begin, closed, inside


def _ends_of_fences(text: str, marks: list[_Mark]) -> list[int]:
    """For each mark that may open a fence or a tool call, return the index of the mark that closes it. The entry is -1
    for other marks, for fences and calls that are never closed, and for fences and calls that begin with a reasoning
    block."""
    ends = [-1] * len(marks)
    closing: dict[str, int] = {}  # index of the next mark that can close a fence, by the fence's signs
    for at in range(len(marks) - 1, -1, -1):
        mark = marks[at]
        if mark.kind not in ("fence", "call"):
            continue
        after = marks[at + 1] if at + 1 < len(marks) else None
        begins = after is not None and after.kind == "open" and not text[mark.end : after.start].strip()
        if not begins and (mark.kind == "fence" or not mark.closes):
            ends[at] = closing.get(mark.name, -1)
        if mark.closes:
            closing[mark.name] = at
        elif mark.kind == "call":  # if another call begins inside a call, the first call was never closed
            closing.pop("call", None)
    return ends


def _alone(text: str, mark: _Mark) -> bool:
    """Return whether a mark is alone on its line."""
    before = text[max(mark.start - 8, 0) : mark.start].rpartition("\n")[2]
    after = text[mark.end : mark.end + 8].partition("\n")[0]
    return not before.strip() and not after.strip()


def _bare(thinking: str, pattern: re.Pattern[str]) -> str:
    """Return the reasoning without its opening mark and surrounding white space."""
    thinking = thinking.strip()
    opening = pattern.match(thinking)
    return thinking[opening.end() :].strip() if opening else thinking


def _behind(answer: str) -> str:
    """Return the text after a block without its leading blank lines. The first line keeps its indentation."""
    blank = len(answer) - len(answer.lstrip())
    return answer[answer.rfind("\n", 0, blank) + 1 :]
