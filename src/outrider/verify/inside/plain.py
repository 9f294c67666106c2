"""Encodes plain data as bytes and decodes them, for messages to and from a hostile process.

An encoded value is a tag, an eight-byte count, and that number of bytes or members. For any input, :func:`loads` either
raises an error or creates only objects of the types in this file. It creates at most one object per byte.
"""

# Pickle may execute the data it reads, marshal trusts its data, and importing JSON takes longer than all other code.

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing, contextlib or signal takes longer than creating the sandbox
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LARGEST = 8 << 20  # maximum bytes of an accepted message
SCALARS: dict[type, bytes] = {int: b"i", float: b"f", str: b"s", bytes: b"b", bytearray: b"b", complex: b"c"}
COLLECTIONS: dict[type, bytes] = {list: b"l", tuple: b"t", set: b"S", frozenset: b"z", dict: b"d", range: b"r"}
TYPES = {kind.__name__: kind for kind in (*SCALARS, *COLLECTIONS, bool, object, type(None))}
WORDS: dict[Any, bytes] = {None: b"N", True: b"T", False: b"F"}
MAKERS: dict[bytes, Callable[[list[Any]], Any]] = {b"l": list, b"t": tuple, b"S": set, b"z": frozenset}


def dumps(value: Any, other: Callable[[Any], int] | None = None) -> bytes:
    """Encode a value as bytes. An instance of a subclass is encoded as its base class, for example a ``Counter`` as a
    dict.

    Args:
        value: plain data.
        other: function that returns a number for an object that is not plain data. The number is sent instead of the
            object.

    Raises:
        TypeError: an object is not plain data, and ``other`` is None.
        RecursionError: the value is nested too deeply, or contains itself.

    >>> loads(dumps({"a": [1, 2.5, None], (1, "b"): {3}}))
    {'a': [1, 2.5, None], (1, 'b'): {3}}
    """
    if value is None or value is True or value is False:
        return WORDS[value] + bytes(8)
    for kinds in (SCALARS, COLLECTIONS):
        for kind, tag in kinds.items():
            if isinstance(value, kind):
                return _scalar(tag, kind, value) if kinds is SCALARS else _collection(tag, value, other)
    if isinstance(value, type) and TYPES.get(value.__name__) is value:
        return _sized(b"y", value.__name__.encode())
    if other is None:
        raise TypeError(f"a {type(value).__name__} is no plain data")
    return _sized(b"o", str(other(value)).encode())


def loads(data: bytes, other: Callable[[int], Any] | None = None) -> Any:
    """Decode a value from bytes.

    Args:
        data: bytes from :func:`dumps`, or from a hostile process.
        other: function that returns an object by number, for objects that :func:`dumps` replaced by numbers. If None,
            such numbers raise an error.

    Raises:
        ValueError, TypeError, RecursionError, OverflowError, MemoryError: the bytes do not encode a value.
    """
    value, end = _load(data, 0, other)
    if end != len(data):
        raise ValueError("bytes behind the value")
    return value


def _scalar(tag: bytes, kind: type, value: Any) -> bytes:
    if kind is int:
        number = int(value)
        return _sized(tag, number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True))
    if kind is float:
        return _sized(tag, float.hex(value).encode())
    if kind is complex:
        return _sized(tag, f"{value.real.hex()} {value.imag.hex()}".encode())
    return _sized(tag, str.encode(value, "utf-8", "surrogatepass") if kind is str else bytes(value))


def _collection(tag: bytes, value: Any, other: Callable[[Any], int] | None) -> bytes:
    if tag == b"d":
        members: list[Any] = [part for pair in value.items() for part in pair]
    else:
        members = [value.start, value.stop, value.step] if tag == b"r" else list(value)
    return tag + len(members).to_bytes(8, "little") + b"".join([dumps(member, other) for member in members])


def _sized(tag: bytes, payload: bytes) -> bytes:
    return tag + len(payload).to_bytes(8, "little") + payload


def _load(data: bytes, at: int, other: Callable[[int], Any] | None) -> tuple[Any, int]:
    tag, count, at = data[at : at + 1], int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    # check before allocating memory, since a hostile process may send a huge count
    if count > len(data):
        raise ValueError("a count larger than the message")
    for word, its_tag in WORDS.items():
        if tag == its_tag:
            return word, at
    if tag and tag in b"ltSzdr":
        members = []
        for _ in range(count):
            member, at = _load(data, at, other)
            members.append(member)
        if tag == b"d":
            return dict(zip(members[::2], members[1::2], strict=True)), at
        return range(*members) if tag == b"r" else MAKERS[tag](members), at
    return _load_scalar(tag, data[at : at + count], other), at + count


def _load_scalar(tag: bytes, payload: bytes, other: Callable[[int], Any] | None) -> Any:
    if tag == b"i":
        return int.from_bytes(payload, "little", signed=True)
    if tag == b"s":
        return payload.decode("utf-8", "surrogatepass")
    if tag == b"b":
        return payload
    if tag == b"f":
        return float.fromhex(payload.decode())
    if tag == b"c":
        real, imaginary = payload.decode().split()
        return complex(float.fromhex(real), float.fromhex(imaginary))
    if tag == b"y" and payload.decode() in TYPES:
        return TYPES[payload.decode()]
    if tag == b"o" and other is not None:
        return other(int(payload))
    raise ValueError(f"unknown tag {tag!r}")


class Frames:
    """Sends and receives messages over two file descriptors. Eight bytes before each message contain its length.

    Raises:
        EOFError: the other process has closed its end.
    """

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write

    def send(self, data: bytes) -> None:
        """Send a message."""
        left = memoryview(len(data).to_bytes(8, "little") + data)
        try:
            while left:
                left = left[os.write(self.write, left) :]
        except BrokenPipeError as error:
            raise EOFError from error

    def receive(self, largest: int = LARGEST) -> bytes:
        """Wait for a message.

        Raises:
            ValueError: the message is larger than ``largest``.
        """
        size = int.from_bytes(self._exactly(8), "little")
        if size > largest:
            raise ValueError(f"a message of {size} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            self._wait()
            part = os.read(self.read, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _wait(self) -> None:
        """Do nothing. This method is called before each read. A subclass with a deadline overrides it to wait for
        data."""


class Ignoring:
    """Does the same as ``contextlib.suppress``, without the imports of ``contextlib``."""

    def __init__(self, *errors: type[BaseException]) -> None:
        self.errors = errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self.errors)
