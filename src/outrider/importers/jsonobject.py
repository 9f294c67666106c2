"""Reads a big JSON object key by key, so that only one sample of a log is in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

CHUNK = 1 << 16


class CutOffError(ValueError):
    """The text ends in the middle of the object."""


def members(file: TextIO, each: str, limit: int | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the (key, value) pairs of the object at the beginning of a file, in order; later text is ignored.

    If the value of the key ``each`` is a list, each element of the list is yielded as a separate pair with this key. If
    the list is empty or null, the key yields no pair.

    Args:
        file: a text file.
        each: the key whose list is read element by element.
        limit: the maximum number of characters to read; a longer object counts as truncated.

    Raises:
        CutOffError: the end of the file, or the limit, is in the middle of the object.
        ValueError: the text is not JSON, or not an object.

    >>> import io
    >>> list(members(io.StringIO('{"a": {"b": 1}, "c": [2, 3]}'), each="c"))
    [('a', {'b': 1}), ('c', 2), ('c', 3)]
    """
    text = _Text(file, limit)
    text.expect("{")
    if text.peek() == "}":
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise ValueError("a key is not a string")
        text.expect(":")
        if key == each and text.peek() == "[":
            for element in _elements(text):
                yield key, element
        else:
            value = text.value()
            if not (key == each and value is None):
                yield key, value
        if text.expect(",}") == "}":
            return


def elements(file: TextIO, limit: int | None = None) -> Iterator[Any]:
    """Yield the elements of the list at the beginning of a file, in order; later text is ignored.

    Raises:
        CutOffError: the end of the file, or the limit, is in the middle of the list.
        ValueError: the text is not JSON, or not a list.

    >>> import io
    >>> list(elements(io.StringIO('[{"a": 1}, 2]')))
    [{'a': 1}, 2]
    """
    yield from _elements(_Text(file, limit))


def _elements(text: _Text) -> Iterator[Any]:
    text.expect("[")
    if text.peek() == "]":
        text.expect("]")
        return
    while True:
        yield text.value()
        if text.expect(",]") == "]":
            return


class _Text:
    """Reads a file's text in parts, and extends the current part until it contains the next value."""

    def __init__(self, file: TextIO, limit: int | None) -> None:
        self._file, self._limit = file, limit
        self._window, self._at = "", 0
        self._decode = json.JSONDecoder().raw_decode

    def peek(self) -> str:
        """Return the next character that is not white space."""
        while True:
            while self._at < len(self._window):
                if not self._window[self._at].isspace():
                    return self._window[self._at]
                self._at += 1
            if not self._more():
                raise CutOffError("the text ends in the middle of an object")

    def expect(self, characters: str) -> str:
        """Read the next character, which must be one of ``characters``."""
        result = self.peek()
        if result not in characters:
            raise ValueError(f"{result!r} found where one of {characters!r} is expected")
        self._at += 1
        return result

    def value(self) -> Any:
        """Read the next value, of any length."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._window, self._at)
            except json.JSONDecodeError as error:
                if self._more():
                    continue
                raise self._broken(error) from error
            if end == len(self._window) and self._more():  # 12 may be the beginning of 123
                continue
            self._at = end
            return value

    def _broken(self, error: json.JSONDecodeError) -> ValueError:
        """Return CutOffError if the text ends in the middle of the value; otherwise, return a ValueError with the
        decoder's message.
        """
        # any literal or escape fits in 16 characters, so an error before the last 16 is not a truncation
        cut = error.pos >= len(error.doc.rstrip()) - 16 or error.msg.startswith("Unterminated string")
        return CutOffError("the text ends in the middle of a value") if cut else ValueError(error.msg)

    def _more(self) -> bool:
        # the window doubles, so a long value is decoded again only a few times
        size = max(CHUNK, len(self._window) - self._at)
        if self._limit is not None:
            size = min(size, self._limit)
            self._limit -= size
        chunk = self._file.read(size) if size else ""
        self._window, self._at = self._window[self._at :] + chunk, 0
        return bool(chunk)
