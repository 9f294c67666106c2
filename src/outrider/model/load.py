"""Loading and saving policies: a shipped base, a folder, or a hub name."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from outrider.errors import UserError, nearest


class Policy(NamedTuple):
    """A causal LM with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def model_folder(name: str) -> str:
    """Where ``name`` lives: ``base:countdown`` is shipped with the package, anything else is taken as it is.

    Raises:
        UserError: no such base.
    """
    if not name.startswith("base:"):
        return name
    bases = resources.files("outrider") / "base"
    known = sorted(entry.name for entry in bases.iterdir() if (entry / "config.json").is_file())
    base = name.removeprefix("base:")
    if base not in known:
        raise UserError(f"model {name!r} is not a shipped base ({nearest(base, known)})")
    return str(bases / base)


def load_policy(name: str, dtype: torch.dtype = torch.float32) -> Policy:
    """A policy ready for sampler and learner, in evaluation mode (no dropout: the sampler's policy is what is trained).

    Raises:
        UserError: the folder is missing, is no model, or has no tokenizer; a hub name cannot be reached.
    """
    folder = model_folder(name)
    path = Path(folder)
    looks_local = path.exists() or folder.startswith((".", "/", "~")) or folder.count("/") != 1
    if looks_local and not path.is_dir():
        raise UserError(f"model {name!r}: no such folder")
    if looks_local and not (path / "config.json").is_file():
        raise UserError(f"model {name!r}: the folder holds no config.json, so it is no Hugging Face model")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"model {name!r}: {_tokenizer_trouble(looks_local)} ({_first_line(error)})") from error
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError) as error:
        raise UserError(f"model {name!r}: the weights could not be loaded ({_first_line(error)})") from error
    if tokenizer.eos_token_id is None:
        raise UserError(f"model {name!r}: its tokenizer has no end-of-sequence token, so no response could end")
    return Policy(model.eval(), tokenizer)


def context_length(model: PreTrainedModel) -> int:
    """The most tokens of prompt and response together."""
    return int(getattr(model.config, "max_position_embeddings", 0) or 1 << 30)


def _tokenizer_trouble(local: bool) -> str:
    return "the folder has no usable tokenizer" if local else "not found on the hub, or the hub cannot be reached"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
