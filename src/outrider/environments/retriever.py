"""The interface of a retriever, which searches a corpus for passages that match a query."""

from __future__ import annotations

import json
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrider.environments.passages import Passage, passages_digest
from outrider.errors import UserError
from outrider.options import Options

_ABOUT = "outrider.json"


class Index(ABC):
    """A searchable corpus. The index can be pickled, and forked processes share its memory."""

    @abstractmethod
    def search(self, query: str, k: int) -> list[Passage]:
        """Return the ``k`` best passages, best first, or all matching passages if fewer than ``k`` match the query."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the index, but not the passages, into a new folder."""


class Retriever(Options, ABC):
    """Builds and reads indexes of a corpus."""

    @property
    @abstractmethod
    def made_with(self) -> str:
        """Text that identifies everything that an index depends on, except the passages."""

    @abstractmethod
    def make(self, passages: Sequence[Passage]) -> Index:
        """Build the index of a corpus.

        Raises:
            UserError: a package or a model is missing.
        """

    @abstractmethod
    def read(self, folder: Path, passages: Sequence[Passage]) -> Index:
        """Read a saved index.

        Raises:
            UserError: a package or a model is missing, or the model has changed.
        """

    def fingerprint(self, passages: Sequence[Passage]) -> str:
        return passages_digest(passages, self.made_with)

    def index(self, passages: Sequence[Passage], folder: str | None) -> Index:
        """Read the index of a corpus from ``folder``. If the folder does not exist, build the index and store it there.

        Raises:
            UserError: the folder exists without an index, or its index is of another corpus or was built with other
                options. Errors from :meth:`make` and :meth:`read` are passed on.
        """
        fingerprint = self.fingerprint(passages)
        place = None if folder is None else Path(folder).expanduser()
        if place is not None and place.exists():
            _refuse_other(place, fingerprint)
            return self.read(place, passages)
        made = self.make(passages)
        if place is not None:
            _keep(made, place, {"fingerprint": fingerprint, "passages": len(passages), "made_with": self.made_with})
        return made


def recall(index: Index, question: str, titles: Sequence[str], k: int) -> float:
    """Return recall at ``k`` for a question: the fraction of the gold passages' ``titles`` that occur among the ``k``
    best passages; NaN if ``titles`` is empty.
    """
    found = {passage.title for passage in index.search(question, k)}
    return sum(title in found for title in titles) / len(titles) if titles else float("nan")


def _keep(made: Index, place: Path, about: dict[str, Any]) -> None:
    """Write an index atomically. If several ranks build the index concurrently, the first one written is kept."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    made.save(part)
    (part / _ABOUT).write_text(json.dumps(about) + "\n")
    try:
        part.rename(place)
    except OSError:
        shutil.rmtree(part)
        _refuse_other(place, about["fingerprint"])


def _refuse_other(place: Path, fingerprint: str) -> None:
    try:
        about = json.loads((place / _ABOUT).read_bytes())
    except (OSError, ValueError):
        raise UserError(f"{place} exists and is not an index of passages: choose another folder") from None
    if about["fingerprint"] != fingerprint:
        raise UserError(
            f"{place} is the index of another corpus, or was built with other options; name another folder, or remove "
            "it"
        )
