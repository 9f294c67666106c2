"""The tokenizer of a run, without the seconds that importing transformers takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tokenizers import Tokenizer

from outrider.errors import UserError


def tokenizer_of(run: Path, model: str | None, locate: Callable[[str], str]) -> Tokenizer | None:
    """That of the exported model, or of what the run began with if that is on this machine; None: neither is.

    Args:
        model: what the run began with, by its name; None where that is not known.
        locate: the folder of a model by its name; a UserError where it is not on this machine.
    """
    files = [run / "model" / "tokenizer.json"]
    if model is not None:
        with suppress(UserError, OSError):
            files.append(Path(locate(model)) / "tokenizer.json")
    return next((Tokenizer.from_file(str(file)) for file in files if file.is_file()), None)
