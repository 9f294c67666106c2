"""Collects an importer's notes for the user: how fields were read, and how many records were skipped."""

from __future__ import annotations


class Notes:
    """Messages for the user: distinct sentences, and counts of skipped records, in the order of first occurrence.

    >>> notes = Notes()
    >>> notes.say("success is acc.")
    >>> for _ in range(1200):
    ...     notes.count("line was skipped", "lines were skipped")
    >>> notes.sentences()
    ['success is acc.', '1,200 lines were skipped.']
    """

    def __init__(self) -> None:
        self._warnings: dict[str, None] = {}
        self._sentences: dict[str, None] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def say(self, sentence: str) -> None:
        """Add a sentence, unless it has already been added."""
        self._sentences[sentence] = None

    def warn(self, sentence: str) -> None:
        """Add a sentence about files or records that were not read; warnings come before all other sentences."""
        self._warnings[sentence] = None

    def count(self, one: str, many: str, times: int = 1) -> None:
        """Add ``times`` to the count of an event, such as a skipped line. ``one`` describes the event in the singular,
        and ``many`` in the plural; neither ends with a full stop.
        """
        self._counts[one, many] = self._counts.get((one, many), 0) + times

    def warnings(self) -> list[str]:
        """Return the sentences about files or records that were not read."""
        return list(self._warnings)

    def sentences(self) -> list[str]:
        """Return all sentences, warnings first and counts last."""
        counts = [f"1 {one}." if n == 1 else f"{n:,} {many}." for (one, many), n in self._counts.items() if n]
        return [*self._warnings, *self._sentences, *counts]
