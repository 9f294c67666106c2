"""Writes an in-memory model to a folder, so that a run can load the model."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from outrider.errors import UserError


def name_of_model(model: Any) -> str:
    """Return a model's name or path as text. For a pair of model and tokenizer, which has no path yet, return a
    placeholder.

    Raises:
        UserError: ``model`` is neither a name nor a path nor a pair of model and tokenizer.
    """
    if isinstance(model, str | Path):
        return str(model)
    if not (isinstance(model, tuple) and len(model) == 2 and all(hasattr(part, "save_pretrained") for part in model)):
        raise UserError(
            f"model is {type(model).__name__}: give a folder, a name on the hub, or a pair (model, tokenizer) of "
            "transformers"
        )
    return "a loaded model"


def write_model(model: tuple[Any, Any], folder: Path) -> str:
    """Write a model and its tokenizer to a folder, and return the folder's path.

    The folder's name is a hash of its content, so a resumed run with the same weights uses the same folder.
    """
    written = folder / f".model-{os.getpid()}"
    shutil.rmtree(written, ignore_errors=True)
    try:
        for part in model:
            part.save_pretrained(written)
        digest = hashlib.blake2b(digest_size=8)
        for file in sorted(path for path in written.rglob("*") if path.is_file()):
            digest.update(str(file.relative_to(written)).encode())
            if file.name == "tokenizer.json":
                digest.update(_without_padding(file))
                continue
            with file.open("rb") as content:
                while block := content.read(1 << 24):
                    digest.update(block)
        place = folder / f"model-{digest.hexdigest()}"
        try:
            written.rename(place)
        except OSError:  # an earlier or concurrent run may have written the folder
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(written, ignore_errors=True)
    return str(place)


def _without_padding(file: Path) -> bytes:
    """Return the content of a tokenizer's file without the padding and truncation settings, which only reflect the
    tokenizer's last call."""
    data = json.loads(file.read_bytes())
    return json.dumps({key: value for key, value in data.items() if key not in ("padding", "truncation")}).encode()
