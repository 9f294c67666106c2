"""Okapi BM25 retrieval with the Python package bm25s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from outrider.environments.passages import Passage
from outrider.environments.retriever import Index, Retriever
from outrider.errors import UserError


class Bm25(Retriever):
    """Ranks passages by Okapi BM25 over their titles and texts. BM25 needs no model and no download.

    The tokenizer of bm25s lower-cases words and drops 33 English stop words (``the``, ``of``, ``not``, …) and words of
    one letter or digit. A query that consists only of dropped words finds nothing.

    The default values of k1 and b are those of the Anserini toolkit. Papers on search agents use this toolkit.

    Raises:
        UserError: the passages contain only stop words and words of one letter or digit.
    """

    k1: float = Field(
        0.9,
        ge=0,
        description="parameter k1 of BM25; larger values raise the weight of query terms that a passage repeats",
    )
    b: float = Field(
        0.4,
        ge=0,
        le=1,
        description=(
            "parameter b of BM25, the strength of normalisation by passage length; 0: no normalisation; 1: full "
            "normalisation"
        ),
    )

    @property
    def made_with(self) -> str:
        return f"bm25 {self.k1} {self.b}"

    def make(self, passages: Sequence[Passage]) -> Index:
        package = _package()
        made = package.BM25(k1=self.k1, b=self.b)
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        words = package.tokenize(texts, show_progress=False)
        if not words.vocab:
            raise UserError(
                f"no passage of the corpus has a word that BM25 can find, such as {texts[0].strip()[:40]!r}: "
                "stop words of English and words of one letter do not count"
            )
        made.index(words, show_progress=False)
        return Bm25Index(made, passages)

    def read(self, folder: Path, passages: Sequence[Passage]) -> Index:
        return Bm25Index(_package().BM25.load(str(folder)), passages)


class Bm25Index(Index):
    """A bm25s index of a corpus. A search returns only passages that share a word with the query."""

    def __init__(self, made: Any, passages: Sequence[Passage]) -> None:
        self._made, self._passages = made, passages

    def search(self, query: str, k: int) -> list[Passage]:
        words = _package().tokenize([query], show_progress=False, return_ids=False)
        if not words[0]:
            return []
        k = min(k, len(self._passages))
        found, scores = self._made.retrieve(words, k=k, show_progress=False)
        return [self._passages[int(i)] for i, score in zip(found[0], scores[0], strict=True) if score > 0]

    def save(self, folder: Path) -> None:
        self._made.save(str(folder))


def _package() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise UserError("searching by BM25 needs the package bm25s: pip install 'outrider[search]'") from error
    return bm25s
