"""Reads folders written by ``save_to_disk`` of Hugging Face's package ``datasets``, without using this package.

A dataset is a folder with ``state.json``, which lists the dataset's Arrow files (in streaming format) in order. If
there are several splits, each split is a subfolder, and ``dataset_dict.json`` lists the splits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.errors import UserError


def saved_rows(folder: Path, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the fields of each row, in order. If the folder has several splits, read ``split``.

    Raises:
        UserError: the folder has no dataset or no such split, or a part of the dataset is missing or damaged.
    """
    import pyarrow as pa

    if (folder / "dataset_dict.json").is_file():
        splits = _settings(folder / "dataset_dict.json", "splits")
        if split not in splits:
            raise UserError(f"{folder}: holds no split {split!r}; name one of its own: {_some(folder, splits)}")
        folder = folder / split
    if not (folder / "state.json").is_file():
        suffixes = (".parquet", ".jsonl", ".jsonl.gz", ".csv")
        tables = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.name.endswith(suffixes))
        hint = f"name a file in it: {_some(folder, tables)}" if tables else "it has neither state.json nor any table"
        raise UserError(f"{folder}: the folder holds no dataset that save_to_disk wrote; {hint}")
    number = 0
    for file in _settings(folder / "state.json", "_data_files"):
        path = folder / file["filename"]
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as batches:
                for batch in batches:
                    for fields in batch.to_pylist():
                        number += 1
                        yield f"{folder}, row {number}", fields
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{path}: cannot be read after row {number}: {error}") from error


def _settings(path: Path, key: str) -> Any:
    try:
        return json.loads(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not as save_to_disk writes it ({type(error).__name__}: {error})") from error


def _some(folder: Path, names: list[str]) -> str:
    return ", ".join(str(folder / name) for name in names[:3]) + (", …" if len(names) > 3 else "")
