"""Finds, for each saved response, the problem that it answers among a task's problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from outrider.importers.text import stable_id
from outrider.record import Problem
from outrider.record.normalised import normalised


class Matcher:
    """Finds the problem of a saved response. Three rules are tried in order, and ``counts`` has the number of matches
    by rule.

    1. ``id``: the response's problem id in the saved generations (the dump) is also the id of a problem of the task. 2.
    ``text``: the dump's prompt equals a problem's prompt or question, ignoring case, spacing and Unicode variants. The
    rule also applies if the dump's problem id is the hash of a problem's prompt or question. 3. ``within``: the dump's
    prompt contains exactly one question of the task, for example because the dump used another prompt template. If the
    prompt contains several questions, and the longest contains all others, the longest question is used.

    A response has no match if no rule finds a problem, or if several problems have the same text.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.counts: Counter[str] = Counter()
        self._ids = {problem.id: problem for problem in problems}
        self._texts: dict[str, Problem | None] = {}  # None for a text that several problems share
        self._questions: set[str] = set()
        for problem in problems:
            question = problem.metadata.get("question") or problem.prompt
            for text in {problem.prompt, question, question.strip()}:
                for key in (normalised(text), stable_id(text)):
                    shared = key in self._texts and self._texts[key] is not problem
                    self._texts[key] = None if shared else problem
            self._questions.add(normalised(question))
        self._known: dict[tuple[str, str | None], Problem | None] = {}

    def __call__(self, problem_id: str, prompt: str | None) -> Problem | None:
        """Return the problem of a response, or None if no problem matches."""
        key = (problem_id, prompt)
        if key not in self._known:
            self._known[key] = self._find(problem_id, prompt)
        return self._known[key]

    def _find(self, problem_id: str, prompt: str | None) -> Problem | None:
        plain = None if prompt is None else normalised(prompt)
        ways: Iterable[tuple[str, Callable[[], Problem | None]]] = (
            ("id", lambda: self._ids.get(problem_id)),
            ("text", lambda: self._texts.get(problem_id)),
            ("text", lambda: None if plain is None else self._texts.get(plain)),
            ("within", lambda: None if plain is None else self._within(plain)),
        )
        for way, find in ways:
            if (problem := find()) is not None:
                self.counts[way] += 1
                return problem
        return None

    def _within(self, prompt: str) -> Problem | None:
        # this rule comes last because it is the slowest, since it searches for every question of the task
        inside = [question for question in self._questions if question and question in prompt]
        # "12 + 2" also contains "2 + 2", so a match is certain only if one of the questions contains all others
        longest = max(inside, key=len, default="")
        return self._texts[longest] if inside and all(question in longest for question in inside) else None
