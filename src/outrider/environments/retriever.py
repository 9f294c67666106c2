"""The contract of a retriever: which passages of a corpus fit a query."""

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
    """A corpus that can be searched. It can be pickled, and shared by processes that are forked."""

    @abstractmethod
    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first; fewer where the corpus has fewer, none where nothing fits."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write all but the passages into a new folder."""


class Retriever(Options, ABC):
    """Makes indexes."""

    @property
    @abstractmethod
    def made_with(self) -> str:
        """All that an index depends on beside the passages."""

    @abstractmethod
    def make(self, passages: Sequence[Passage]) -> Index:
        """The index of a corpus.

        Raises:
            UserError: a package or a model is missing.
        """

    @abstractmethod
    def read(self, folder: Path, passages: Sequence[Passage]) -> Index:
        """What was saved.

        Raises:
            UserError: a package or a model is missing, or the model is another one.
        """

    def fingerprint(self, passages: Sequence[Passage]) -> str:
        return passages_digest(passages, self.made_with)

    def index(self, passages: Sequence[Passage], folder: str | None) -> Index:
        """The index of a corpus: of a folder, where it is kept; made, and put there, if it is not.

        Raises:
            UserError: the folder holds something else, or the index of another corpus; see :meth:`make`.
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
    """Share of the titles that a question must have read which are among its ``k`` best passages; NaN without one."""
    found = {passage.title for passage in index.search(question, k)}
    return sum(title in found for title in titles) / len(titles) if titles else float("nan")


def _keep(made: Index, place: Path, about: dict[str, Any]) -> None:
    """Write an index completely or not at all. Ranks make one at the same time: the first stays."""
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
        raise UserError(f"{place} is there already, and is no index of passages; name another folder") from None
    if about["fingerprint"] != fingerprint:
        raise UserError(
            f"{place} is the index of another corpus, or was built with other options; name another folder, or remove "
            "it"
        )
