"""What a token of a response writes: by its place in Countdown, by its word in prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from outrider.tasks.stories import wording


class Roles(NamedTuple):
    """The roles of a task's tokens, and how they are told from the texts of a response's tokens, "" for the end.

    ``of`` gives an index into ``names`` for each token, -1 for none.
    """

    names: tuple[str, ...]
    of: Callable[[Sequence[str]], list[int]]


def in_countdown(texts: Sequence[str]) -> list[int]:
    """By place; every token is a character. A number may take several.

    >>> [COUNTDOWN.names[role] for role in in_countdown("9-8=1,2 1")[:4]]
    ['first operand', 'operator', 'second operand', 'second operand']
    """
    found, role = [], 0
    for character in texts:
        if not character:
            found.append(-1)
        elif character in "+-*/":
            found.append(1)
            role = 2
        else:
            found.append(role)
            role = {"=": 3, ",": 4, ";": 0}.get(character, role)
    return found


def in_prose(texts: Sequence[str]) -> list[int]:
    """By the word that a token begins or goes on with; a space belongs to what follows it.

    >>> [PROSE.names[role] for role in in_prose(["For", " Ben", " it", " is", " ", "4", "2", " plus", " 5", "."])]
    ['word', 'name', 'word', 'word', 'number', 'number', 'number', 'operation', 'number', 'mark']
    """
    text = "".join(texts)
    roles = [-1] * (len(text) + 1)
    for match in _WORD.finditer(text):
        roles[match.start() : match.end()] = [_role(match[1])] * len(match[0])
    found, at = [], 0
    for text in texts:
        found.append(roles[at] if text else -1)
        at += len(text)
    return found


def _role(word: str) -> int:
    if word in _OPERATIONS:
        return PROSE.names.index("operation")
    if word in wording()["names"]:
        return PROSE.names.index("name")
    return PROSE.names.index("number" if word.isdigit() else "word" if word.isalpha() else "mark")


_WORD = re.compile(r"\s*(\d|[A-Za-z]+|[^\sA-Za-z\d])")  # with the spaces before it
_OPERATIONS = {*"+-*/=", "plus", "minus", "times", "divided", "by"}

COUNTDOWN = Roles(("first operand", "operator", "second operand", "result", "remainder"), in_countdown)
PROSE = Roles(("number", "operation", "name", "word", "mark"), in_prose)
ROLES = {"countdown": COUNTDOWN, "prose": PROSE, "smollm2": PROSE}


def vocabulary(run: Path) -> list[str]:
    """The text of every token of a run's policy; "" for those that stand for none, such as the end."""
    tokenizer = Tokenizer.from_file(str(run / "model" / "tokenizer.json"))
    return [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
