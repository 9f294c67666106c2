"""Passages, and how those that fit a query are found among them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from outrider.errors import UserError, nearest
from outrider.options import Options

_ABOUT = "outrider.json"


class Passage(NamedTuple):
    """What a search gives: a title, and a text."""

    title: str
    text: str


def read_corpus(files: Sequence[str]) -> list[Passage]:
    """The passages of JSON lines, each once, in order: rows with ``title`` and ``text``, or with ``context``, a list of
    ``{"title": …, "sentences": […]}`` as HotpotQA's distractor setting has them.

    Raises:
        UserError: a file is missing, or has a line that is neither.
    """
    passages: dict[Passage, None] = {}
    for file in files:
        for number, row in _rows(Path(file).expanduser()):
            try:
                passages.update(dict.fromkeys(_passages(row)))
            except (KeyError, TypeError, AttributeError):
                hint = nearest("text", row) if isinstance(row, Mapping) else "no object"
                raise UserError(f"{file}:{number} has neither title and text nor context ({hint})") from None
    if not passages:
        raise UserError(f"the corpus {', '.join(files)} has no passages")
    return list(passages)


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for number, line in enumerate(lines, 1):
                yield number, json.loads(line)
    except (OSError, ValueError) as error:
        raise UserError(f"the corpus {path} cannot be read ({error})") from error


def _passages(row: Mapping[str, Any]) -> list[Passage]:
    if "context" in row:
        return [Passage(one["title"], "".join(one["sentences"]).strip()) for one in row["context"]]
    return [Passage(row["title"], row["text"])]


class Bm25(Options):
    """Okapi BM25 over title and text, by the package ``bm25s``: no model, and no download.

    The defaults of k1 and b are those of Anserini, with which the search agents' papers had it.
    """

    k1: float = Field(0.9, ge=0, description="how soon more of a word counts no more")
    b: float = Field(0.4, ge=0, le=1, description="how much the length of a passage counts")

    def fingerprint(self, passages: Sequence[Passage]) -> str:
        """Of what an index is made from."""
        digest = hashlib.blake2b(f"bm25 {self.k1} {self.b}".encode(), digest_size=12)
        for passage in passages:
            digest.update("\0".join(["", *passage]).encode("utf-8", "replace"))
        return digest.hexdigest()

    def index(self, passages: Sequence[Passage], folder: str | None) -> Index:
        """The index of a corpus: of a folder, where it is kept; made, and put there, if it is not.

        Raises:
            UserError: the package is missing; the folder holds something else, or the index of another corpus.
        """
        package, fingerprint = _package(), self.fingerprint(passages)
        place = None if folder is None else Path(folder).expanduser()
        if place is not None and place.exists():
            _refuse_other(place, fingerprint)
            return Index(package.BM25.load(str(place)), package, passages)
        made = package.BM25(k1=self.k1, b=self.b)
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        made.index(package.tokenize(texts, show_progress=False), show_progress=False)
        if place is not None:
            part = place.with_name(f".{place.name}.part")
            made.save(str(part))
            about = {"fingerprint": fingerprint, "passages": len(passages)}
            (part / _ABOUT).write_text(json.dumps(about) + "\n")
            part.rename(place)
        return Index(made, package, passages)


class Index:
    """A corpus that can be searched."""

    def __init__(self, made: Any, package: Any, passages: Sequence[Passage]) -> None:
        self._made, self._package, self._passages = made, package, passages

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first; fewer where the corpus has fewer, none where no word of the query is in
        it."""
        words = self._package.tokenize([query], show_progress=False, return_ids=False)
        if not words[0]:
            return []
        k = min(k, len(self._passages))
        found, scores = self._made.retrieve(words, k=k, show_progress=False)
        return [self._passages[int(i)] for i, score in zip(found[0], scores[0], strict=True) if score > 0]


def recall(index: Index, question: str, titles: Sequence[str], k: int) -> float:
    """Share of the titles that a question must have read which are among its ``k`` best passages; NaN without one."""
    found = {passage.title for passage in index.search(question, k)}
    return sum(title in found for title in titles) / len(titles) if titles else float("nan")


def _refuse_other(place: Path, fingerprint: str) -> None:
    try:
        about = json.loads((place / _ABOUT).read_bytes())
    except (OSError, ValueError):
        raise UserError(f"{place} is there already, and is no index of passages; name another folder") from None
    if about["fingerprint"] != fingerprint:
        raise UserError(
            f"{place} is the index of another corpus, or was made with other options; name another folder, or remove it"
        )


def _package() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise UserError("searching by BM25 needs the package bm25s: pip install 'outrider[search]'") from error
    return bm25s
