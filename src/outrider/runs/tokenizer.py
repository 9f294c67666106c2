"""Loads the tokenizer of a run without importing transformers, which takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

Locate = Callable[[str], Path | None]
"""Function that returns a model's tokenizer.json by the model's name; None if the file is not on this machine."""


def tokenizer_of(run: Path, model: str | None, locate: Locate) -> Tokenizer | None:
    """Return the tokenizer of a run's exported model. If there is no exported model, return the tokenizer of the
    initial model, or None if this machine does not have it.

    Args:
        model: name of the run's initial model, or None if it is unknown.
    """
    exported = run / "model" / "tokenizer.json"
    file = exported if exported.is_file() else locate(model) if model is not None else None
    return None if file is None else Tokenizer.from_file(str(file))
