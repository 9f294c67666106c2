"""The tokenizer of a run, without the seconds that importing transformers takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

Locate = Callable[[str], Path | None]
"""The tokenizer.json of a model by its name; None where it is not on this machine."""


def tokenizer_of(run: Path, model: str | None, locate: Locate) -> Tokenizer | None:
    """That of the exported model, or of what the run began with if that is on this machine; None: neither is.

    Args:
        model: what the run began with, by its name; None where that is not known.
    """
    exported = run / "model" / "tokenizer.json"
    file = exported if exported.is_file() else locate(model) if model is not None else None
    return None if file is None else Tokenizer.from_file(str(file))
