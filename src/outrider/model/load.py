"""Loading and saving policies: a shipped base, a folder, or a hub name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from outrider.errors import UserError, nearest
from outrider.model.probe import step_attention
from outrider.record import Ids, Problem, Rollout
from outrider.record.disk import disk_refused

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


class Policy(NamedTuple):
    """A causal LM with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def encode(self, problem: Problem) -> Ids:
        """The plain prompt of a problem as token ids, int32, with the special tokens that the tokenizer adds.

        Raises:
            UserError: the tokenizer cannot write the prompt, or makes no token of it.
        """
        try:
            ids = self.tokenizer(problem.prompt)["input_ids"]
        except Exception as error:
            raise UserError(f"problem {problem.id!r}: the tokenizer cannot write its prompt ({error})") from error
        if not ids:
            raise UserError(f"problem {problem.id!r}: its prompt has no tokens")
        return np.array(ids, np.int32)

    def pieces(self, ids: Ids) -> list[str]:
        """The text of each token on its own; a part of a character reads as the replacement sign."""
        return list(self.tokenizer.batch_decode([[int(i)] for i in ids], clean_up_tokenization_spaces=False))

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
        """Mean attention between the steps of a response; see :class:`outrider.explore.view.Engine`."""
        return step_attention(self.model, rollout, starts)


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
    if looks_local and not any((path / file).is_file() for file in _TOKENIZER_FILES):  # transformers would invent one
        raise UserError(f"model {name!r}: the folder has no tokenizer (none of {', '.join(_TOKENIZER_FILES)})")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"model {name!r}: {_tokenizer_trouble(looks_local)} ({_first_line(error)})") from error
    try:
        with _without_bars() if looks_local else nullcontext():  # a download takes long, and its bar says how long
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"model {name!r}: the weights could not be loaded ({_first_line(error)})") from error
    if tokenizer.eos_token_id is None:
        raise UserError(f"model {name!r}: its tokenizer has no end-of-sequence token, so no response could end")
    _refuse_unusual_head(name, model.eval())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Policy(model.to(device), tokenizer)  # type: ignore[arg-type]  # the stub of a wrapped method


def save_policy(policy: Policy, folder: Path, about: Mapping[str, Any]) -> None:
    """Write a Hugging Face folder that ``AutoModelForCausalLM.from_pretrained`` loads; it appears when it is whole.

    ``about``, plain JSON data, says where the weights come from and goes into ``outrider.json``.

    Raises:
        UserError: the disk refuses, or the folder exists.
    """
    if folder.exists():
        raise UserError(f"{folder} exists; choose another folder for the model")
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        with _without_bars():
            policy.model.save_pretrained(part)
        policy.tokenizer.save_pretrained(part)
        (part / "outrider.json").write_text(json.dumps(about, indent=1) + "\n")
        os.replace(part, folder)
    except (OSError, SafetensorError) as error:  # the latter is what safetensors makes of a full disk
        raise disk_refused(folder, error) from error


def context_length(model: PreTrainedModel) -> int:
    """The most tokens of prompt and response together."""
    return int(getattr(model.config, "max_position_embeddings", 0) or 1 << 30)


@torch.no_grad()
def _refuse_unusual_head(name: str, model: PreTrainedModel) -> None:
    """Sampler and learner apply the head themselves; a model that scales or caps logits would be trained wrongly."""
    ids = torch.arange(4, device=model.device)[None] % model.config.get_text_config().vocab_size
    hidden = model.get_decoder()(input_ids=ids).last_hidden_state
    if not torch.allclose(model.get_output_embeddings()(hidden), model(input_ids=ids).logits, rtol=1e-2, atol=1e-2):
        raise UserError(
            f"model {name!r}: {type(model).__name__} changes its logits after the head, which is not supported"
        )


@contextmanager
def _without_bars() -> Iterator[None]:
    """Transformers draws a bar for all weights read or written, on every rank, across the progress of a run."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _tokenizer_trouble(local: bool) -> str:
    return "the folder has no usable tokenizer" if local else "not found on the hub, or the hub cannot be reached"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
