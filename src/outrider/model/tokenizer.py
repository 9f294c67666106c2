"""Opens a model's tokenizer and finds the model's weight files, without reading them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from outrider.errors import UserError
from outrider.model.chat import refuse_unread
from outrider.model.lora import ADAPTER, base_of
from outrider.model.options import PolicyOptions
from outrider.model.places import looks_local, model_folder

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


class OpenedTokenizer(NamedTuple):
    """A model's tokenizer, and where the model's files are.

    Attributes:
        base: folder or hub name of the model's configuration and weights, without the adapter.
        adapter: folder of the model's LoRA adapter; None if the model has no adapter.
    """

    tokenizer: PreTrainedTokenizerBase
    base: str
    adapter: Path | None


def open_tokenizer(name: str, options: PolicyOptions) -> OpenedTokenizer:
    """Open a model's tokenizer, given the name of the model.

    Raises:
        UserError: the folder is missing, is not a model, or has no tokenizer; the model is not on the hub, or the hub
            cannot be reached. The error is also raised if the tokenizer has no end-of-sequence token, or has no chat
            template although ``options`` require one. Finally, it is raised if the chat template ignores one of
            ``options.chat_template_kwargs``.
    """
    folder = model_folder(name)
    path = Path(folder)
    local = looks_local(folder)
    adapter = (path / ADAPTER).is_file() and not (path / "config.json").is_file()
    if local:
        _refuse_no_model(name, path, adapter)
    else:
        _refuse_unreachable(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"model {name!r}: {_tokenizer_trouble(local)} ({first_line(error)})") from error
    if tokenizer.eos_token_id is None:
        raise UserError(f"model {name!r}: its tokenizer has no end-of-sequence token, so no response could end")
    if options.chat and not tokenizer.chat_template:
        raise UserError(f"model {name!r}: its tokenizer has no chat template, which policy.chat=true would apply")
    refuse_unread(tokenizer, options.chat_template_kwargs)
    base = base_of(path) if adapter else folder
    if adapter and not looks_local(base):
        _refuse_unreachable(base)
    # the absolute path, since an adapter that is exported without its base stores the path of the base
    place = str(Path(base).absolute()) if looks_local(base) else base
    return OpenedTokenizer(tokenizer, place, path if adapter else None)


def _refuse_no_model(name: str, path: Path, adapter: bool) -> None:
    if not path.is_dir():
        raise UserError(f"model {name!r}: no such folder")
    if not adapter and not (path / "config.json").is_file():
        raise UserError(f"model {name!r}: the folder holds no config.json, so it is no Hugging Face model")
    if not any((path / file).is_file() for file in _TOKENIZER_FILES):  # transformers would make a default tokenizer
        raise UserError(f"model {name!r}: the folder has no tokenizer (none of {', '.join(_TOKENIZER_FILES)})")


def _refuse_unreachable(name: str) -> None:
    """Raise UserError at once if the hub is unreachable, since transformers would retry for a minute and print 40
    lines."""
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        HfApi().model_info(name, timeout=10)
    except HfHubHTTPError:
        return  # the hub was reached; any other error appears when the files are requested
    except Exception as error:  # from the hub's HTTP library, which differs between versions
        raise UserError(f"model {name!r}: {_tokenizer_trouble(local=False)} ({first_line(error)})") from error


def _tokenizer_trouble(local: bool) -> str:
    return "the folder has no usable tokenizer" if local else "not found on the hub, or the hub cannot be reached"


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, without its full stop."""
    return str(error).strip().split("\n")[0].rstrip(".")
