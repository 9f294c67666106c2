"""What an importer tells besides the table: what was taken as what, and what was left out and how many."""

from __future__ import annotations


class Notes:
    """Sentences, each once, and counts of what was left out, in the order in which they were first met.

    >>> notes = Notes()
    >>> notes.say("success is acc.")
    >>> for _ in range(1200):
    ...     notes.count("line was left out", "lines were left out")
    >>> notes.sentences()
    ['success is acc.', '1,200 lines were left out.']
    """

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def say(self, sentence: str) -> None:
        """Note a sentence; said again, it stays one."""
        self._sentences[sentence] = None

    def count(self, one: str, many: str, times: int = 1) -> None:
        """Count something under its words for one and for many, without their full stop."""
        self._counts[one, many] = self._counts.get((one, many), 0) + times

    def sentences(self) -> list[str]:
        """All of it; counts last."""
        counts = [f"1 {one}." if n == 1 else f"{n:,} {many}." for (one, many), n in self._counts.items() if n]
        return [*self._sentences, *counts]
