r"""Reasoning in a response: what a model writes between marks of thinking is no answer and calls no tool.

What follows the last closed block is the answer. A block that is never closed leaves no answer at all, as if the
response were truncated. Pure Python, linear time, never raises.

- A closing mark without an opening one ends a block that the prompt began, or that the response's beginning lost.
- Inside a block only its own closing mark counts, so a nested block does not end later than its outer one: after both,
  the text behind the last closing mark remains.
- Marks in a closed fenced block, in ``<tool_call>…</tool_call>`` and directly within quotes or backticks are mentioned
  and not used: a program may print ``"<think>"``. Two exceptions keep reasoning from hiding there: a fence that begins
  with an opening mark, and a closing mark without an opening one on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from outrider.record import Problem
from outrider.texts import MARKS

UNCLOSED = "reasoning block not closed"
_LONGEST_END = 200  # characters of a prompt in which an opening mark is looked for
_LONGEST_QUOTE = 200  # characters
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019"}
_TAG = re.compile(r"</?\w+>")
_CLOSES_QUOTE = re.compile(r"[\w.,;)\]]$")  # what stands before a quote that ends a quotation
_STRING_PREFIX = re.compile(r"(?<!\w)[rRbBfFuU]{1,2}$")  # of a string of Python
_FENCE = re.compile(r"^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})([^\n`]*)$|<(/?)tool_call>", re.MULTILINE)


class SplitThinking(NamedTuple):
    """A response taken apart.

    Attributes:
        thinking: what stands in front of the answer, without the outer marks; None where there is none.
        answer: what follows the last closed block; None where a block is not closed.
        unclosed: the opening mark of the block that is not closed; ``""`` where there is none.
    """

    thinking: str | None
    answer: str | None
    unclosed: str = ""


class _Mark(NamedTuple):
    """A mark that is used, or an edge of a place where marks are only mentioned."""

    start: int
    end: int
    kind: str  # "open", "close", "fence" or "call"
    name: str  # of a mark: its closing mark; of a fence: its signs
    closes: bool = False  # a fence without a language, or the end of a call


def split_thinking(text: str, marks: Mapping[str, str] | None = None, prompt: str = "") -> SplitThinking:
    r"""A response taken apart at its last closed block.

    Args:
        marks: opening and closing ones; None: ``MARKS``.
        prompt: what stood before the response; where it ends with an opening mark, the response begins in a block.

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
    r"""The closing mark that a response needs since its prompt ends with the opening one; None where it does not.

    >>> opened_by("<|assistant|><think>\n"), opened_by("<think>\n\n</think>\n\n")
    ('</think>', None)
    """
    end = prompt[-_LONGEST_END:].rstrip().lower()
    found = [mark for mark in (MARKS if marks is None else marks) if end.endswith(mark.lower())]
    return (MARKS if marks is None else marks)[max(found, key=len)].lower() if found else None


def answer_of(text: str, problem: Problem, marks: Mapping[str, str] | None = None) -> str | None:
    """What a response says behind its reasoning; None where that is not closed."""
    return split_thinking(text, marks, problem.prompt_end).answer


class TurnThinking:
    """The reasoning of a rollout with turns: a block that a turn leaves open goes on in the next one.

    A chat template begins every turn anew, so that a block ends with its turn there.

    Attributes:
        problem: with the end of what the next turn continues.
    """

    def __init__(self, problem: Problem, marks: Mapping[str, str] | None = None) -> None:
        self._templated, self._marks = problem.templated, marks
        self.problem = problem.prompted(problem.prompt_end)

    def split(self, text: str) -> SplitThinking:
        """The next turn, taken apart."""
        split = split_thinking(text, self._marks, self.problem.prompt_end)
        if not self._templated:
            self.problem = self.problem.prompted(split.unclosed)
        return split


@lru_cache(16)
def _pattern(marks: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str] | None, dict[str, tuple[str, str]]]:
    """A pattern of all marks, and for each in lower case whether it opens, and its closing mark."""
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
    """A sign of a tag, beside which a space may stand."""
    return {"<": "< ?", "</": "< ?/ ?", ">": " ?>"}[sign[0]]


def _key(mark: str) -> str:
    """A mark in the form in which it is looked up."""
    return mark.lower().replace(" ", "")


def _marks(text: str, pattern: re.Pattern[str], names: Mapping[str, tuple[str, str]]) -> list[_Mark]:
    """All marks that are used, and all fences, in order."""
    found: list[_Mark] = []
    quoted = 0  # the end of the last quotation that begins with a mark
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
    """The end of the quotation that begins directly before a mark; 0 where none does."""
    at = mark.start()
    before, lead = text[max(at - 1, 0) : at], text[max(at - 4, 0) : max(at - 1, 0)]
    if before not in _QUOTES or (_CLOSES_QUOTE.search(lead) and not _STRING_PREFIX.search(lead)):
        return 0
    line = text[mark.end() : mark.end() + _LONGEST_QUOTE].partition("\n")[0]
    end = line.find(_QUOTES[before])
    return mark.end() + end if end >= 0 else 0


def _ends_a_quotation(text: str, mark: re.Match[str]) -> bool:
    """Whether a quote directly behind a mark closes one that was opened before it on its line."""
    after = text[mark.end() : mark.end() + 2]
    opening = next((begin for begin, end in _QUOTES.items() if after[:1] == end), None)
    if opening is None or after[1:].isalnum():
        return False
    line = text[max(mark.start() - _LONGEST_QUOTE, 0) : mark.start()].rpartition("\n")[2]
    if opening != _QUOTES[opening]:
        return line.rfind(opening) > line.rfind(_QUOTES[opening])
    return line.count(opening) % 2 == 1


def _last_closed(text: str, marks: list[_Mark], inside: str | None) -> tuple[int, int, str | None]:
    """Where the text behind the last closed block begins, where its closing mark begins, and what is missing."""
    begin = closed = at = 0
    ends = _ends_of_fences(text, marks)
    until, in_fence = -1, False  # the index of the mark that ends the present fence; whether one was opened in it
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
    """For each mark the index of the one that closes it as a fence; -1 for none, and where a block begins in it."""
    ends = [-1] * len(marks)
    closing: dict[str, int] = {}  # by the signs of a fence: the next one that can close it
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
        elif mark.kind == "call":  # a call that another one begins in was never closed
            closing.pop("call", None)
    return ends


def _alone(text: str, mark: _Mark) -> bool:
    """Whether a mark has a line of its own."""
    before = text[max(mark.start - 8, 0) : mark.start].rpartition("\n")[2]
    after = text[mark.end : mark.end + 8].partition("\n")[0]
    return not before.strip() and not after.strip()


def _bare(thinking: str, pattern: re.Pattern[str]) -> str:
    """The reasoning without white space and without the mark that opens it."""
    thinking = thinking.strip()
    opening = pattern.match(thinking)
    return thinking[opening.end() :].strip() if opening else thinking


def _behind(answer: str) -> str:
    """The text behind a block without blank lines in front: an indented program keeps its first indent."""
    blank = len(answer) - len(answer.lstrip())
    return answer[answer.rfind("\n", 0, blank) + 1 :]
