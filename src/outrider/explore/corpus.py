"""The corpus of solved problems from which in-context examples are taken."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from outrider.explore.memory import remember
from outrider.record import Group, Problem
from outrider.record.disk import open_bytes


class Exemplar(NamedTuple):
    """A problem with a verified solution; ``seeded`` is true if the solution was sampled with in-context examples."""

    question: str
    solution: str
    seeded: bool = False


@dataclass
class Corpus:
    """A store of at most ``most`` solved problems, each with its latest solution; the oldest entry comes first.

    >>> corpus = Corpus(most=2)
    >>> [corpus.store(name, Exemplar(name, "1")) for name in "abac"]
    [0, 0, 0, 1]
    >>> list(corpus.entries)
    ['a', 'c']
    """

    most: int
    entries: dict[str, Exemplar] = field(default_factory=dict)

    def store(self, problem_id: str, entry: Exemplar) -> int:
        """Store the entry as the latest; return the number of old entries removed."""
        before = len(self.entries) + (problem_id not in self.entries)
        remember(self.entries, problem_id, entry, self.most)
        return before - len(self.entries)

    def learn(self, groups: Sequence[Group]) -> int:
        """Store each group's last success without its thinking (``<think>…</think>``); return the number of old entries
        removed. Successes that contain only thinking are skipped.

        Groups are processed in order of problem id, so batch order does not matter.
        """
        evicted = 0
        for group in sorted(groups, key=lambda g: g.problem.id):
            responses = [(without_thinking(r.response_text), r) for r in group.rollouts if r.success]
            answers = [(text, r) for text, r in responses if text]
            if answers:
                text, rollout = answers[-1]
                entry = Exemplar(question_of(group.problem), text, rollout.context.kind == "seeded")
                evicted += self.store(group.problem.id, entry)
        return evicted

    def state_dict(self) -> list[list[Any]]:
        return [[key, *entry] for key, entry in self.entries.items()]

    def load_state_dict(self, state: Iterable[Sequence[Any]]) -> None:
        self.entries = {key: Exemplar(*entry) for key, *entry in state}


def question_of(problem: Problem) -> str:
    """Return ``metadata["question"]`` if the task provides this text and the prompt contains it; otherwise return the
    whole prompt."""
    question = problem.metadata.get("question")
    return question if isinstance(question, str) and question and question in problem.prompt else problem.prompt


def without_thinking(text: str) -> str:
    """Remove ``<think>…</think>`` from a response; the opening tag may be part of the prompt.

    >>> without_thinking("<think>4? 5?</think>It is 5."), without_thinking("5?</think> 5"), without_thinking("3<think>")
    ('It is 5.', '5', '3')
    """
    text = re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
    return text.rpartition("</think>")[2].partition("<think>")[0].strip()


def read_corpus(path: str) -> dict[str, Exemplar]:
    """Read a JSON Lines file (or a compressed ``.gz`` file) with the string fields ``id``, ``problem`` and
    ``solution``.

    Raises:
        ValueError: the file is missing or has no entry, a line lacks a field, or an id occurs twice.
    """
    entries: dict[str, Exemplar] = {}
    try:
        with open_bytes(Path(path)) as lines:
            for number, line in enumerate(map(bytes.decode, lines), 1):
                if line.strip():
                    key, entry = _entry(line, f"{path}, line {number}")
                    if key in entries:
                        raise ValueError(f"{path}, line {number}: an earlier line has the id {key!r} as well")
                    entries[key] = entry
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not entries:
        raise ValueError(f"{path} holds no solved problem: remove corpus to start without any")
    return entries


def _entry(line: str, place: str) -> tuple[str, Exemplar]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: broken JSON ({error})") from error
    if not isinstance(fields, Mapping):
        raise ValueError(f"{place}: expected an object, not {type(fields).__name__}")
    for name in ("id", "problem", "solution"):
        if not isinstance(fields.get(name), str) or not fields[name].strip():
            raise ValueError(f"{place}: the field {name!r} must be a non-empty string")
    return fields["id"], Exemplar(fields["problem"], fields["solution"])
