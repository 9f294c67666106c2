"""A corpus of passages, read from files."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from outrider.errors import UserError, nearest


class Passage(NamedTuple):
    """A passage of a corpus: title and text."""

    title: str
    text: str


def read_corpus(files: Sequence[str]) -> list[Passage]:
    """Read the passages of JSON Lines files in order, without duplicates.

    Each row has one of three formats. The first has the fields ``title`` and ``text``. The second has the field
    ``context``, as in HotpotQA's distractor setting. The third has the field ``contents``, as in Search-R1's corpora.
    ``context`` is a list of ``{"title": …, "sentences": […]}``. ``contents`` has the title on its first line and the
    text on the other lines.

    Raises:
        UserError: a file is missing, or a line has none of these formats.
    """
    passages: dict[Passage, None] = {}
    for file in files:
        for number, row in _rows(Path(file).expanduser()):
            try:
                passages.update(dict.fromkeys(_passages(row)))
            except (KeyError, TypeError, AttributeError):
                hint = nearest("text", row) if isinstance(row, Mapping) else "no object"
                raise UserError(
                    f"{file}:{number} has neither title and text nor context nor contents ({hint})"
                ) from None
    if not passages:
        raise UserError(f"the corpus {', '.join(files)} has no passages")
    return list(passages)


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for number, line in enumerate(lines, 1):
                yield number, json.loads(line)
    except (OSError, ValueError) as error:
        own = "; name yours: task.corpus='[FILE, …]'" if isinstance(error, FileNotFoundError) else ""
        raise UserError(f"the corpus {path} cannot be read ({error}){own}") from error


def _passages(row: Mapping[str, Any]) -> list[Passage]:
    if "context" in row:
        return [Passage(one["title"], "".join(one["sentences"]).strip()) for one in row["context"]]
    if "contents" in row:
        title, _, text = row["contents"].partition("\n")
        return [Passage(title.strip('"'), text) if text else Passage("", title)]
    return [Passage(row["title"], row["text"])]


def passages_digest(passages: Sequence[Passage], made_with: str) -> str:
    """Return a hash of everything that an index depends on."""
    digest = hashlib.blake2b(made_with.encode(), digest_size=12)
    for passage in passages:
        digest.update("\0".join(["", *passage]).encode("utf-8", "replace"))
    return digest.hexdigest()
