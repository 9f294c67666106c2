"""Reads the files in a ZIP archive, including files compressed with Zstandard, which Python's zipfile does not support
before Python 3.14.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import pyarrow as pa

from outrider.errors import UserError

ZSTANDARD = 93  # compression method in a ZIP
_LOCAL_HEADER = 30  # bytes before the file name


def entries(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield each wanted file's name together with a function that reads the file, in the order of the archive.

    If several files have the same name, only the last of them is yielded.

    Raises:
        UserError: the archive is damaged. The reading function raises UserError if its file is damaged.
    """
    try:
        with ZipFile(path) as archive:
            # getinfo returns the last of several files with one name
            infos = {name: archive.getinfo(name) for name in archive.namelist() if wanted(name)}
    except (BadZipFile, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}).") from error
    for name, info in infos.items():
        yield name, partial(_content, path, info)


def _content(path: Path, info: ZipInfo) -> bytes:
    try:
        # ZipFile reads the whole directory each time it is opened, which takes minutes for an evaluation's samples
        with path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(_LOCAL_HEADER)
            # lengths from the local header, since the central directory may have other lengths
            name_length, extra_length = struct.unpack("<HH", header[26:30])
            file.seek(name_length + extra_length, 1)
            packed = file.read(info.compress_size)
        content = _unpacked(packed, info.compress_type)
    except (OSError, pa.ArrowException, struct.error, zlib.error, NotImplementedError) as error:
        raise UserError(f"{path}: {info.filename} cannot be read ({error}).") from error
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise UserError(f"{path}: {info.filename} cannot be read (it is truncated or damaged).")
    return content


def _unpacked(packed: bytes, method: int) -> bytes:
    if method == ZIP_STORED:
        return packed
    if method == ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed)
    if method != ZSTANDARD:
        raise NotImplementedError(f"it is compressed by method {method}")
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content: bytes = stream.read()
    return content
