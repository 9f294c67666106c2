"""Loads and saves policies. A model is given as a base model of Outrider (``base:NAME``), a folder, or a name on the
Hugging Face hub.
"""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from outrider.errors import UserError
from outrider.model.chat import chat_of, observation_text, prompt_end, refuse_other_calls
from outrider.model.compute import PACKED, ComputePath
from outrider.model.device import placement
from outrider.model.lacking import lacking_weights
from outrider.model.lora import add_adapter, merged, save_adapter, with_adapter
from outrider.model.nucleus import branching_of
from outrider.model.options import PolicyOptions, TrainedPolicyOptions
from outrider.model.places import looks_local
from outrider.model.probe import step_attention
from outrider.model.quiet import without_bars
from outrider.model.tokenizer import first_line, open_tokenizer
from outrider.record import Ids, Problem, Rollout
from outrider.record.disk import disk_refused

PLAIN = PolicyOptions()
_FILE = "2GB"  # maximum size of a file, since each is assembled in host memory


class Policy(NamedTuple):
    """A causal LM with its tokenizer and options; ``path`` is the implementation of forward passes."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    options: PolicyOptions = PLAIN
    path: ComputePath = PACKED

    def encode(self, problem: Problem) -> Ids:
        """Return a problem's prompt as int32 token ids, including the special tokens that the tokenizer adds.

        With ``options.chat`` the prompt is a user message (:func:`outrider.model.chat.chat_of`), followed by the start
        of the policy's turn.

        Raises:
            UserError: the tokenizer cannot encode the whole prompt; see also ``chat_of``.
        """
        turns = chat_of(problem, self.options)
        try:
            ids = self.tokenizer(problem.prompt) if turns is None else self._chat(turns, problem)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"problem {problem.id!r}: the tokenizer cannot write its prompt ({error})") from error
        read = [problem.prompt] if turns is None else [turn["content"] for turn in turns]
        if lost := lost_characters(self.tokenizer, "\n".join(text for text in read if isinstance(text, str))):
            raise UserError(
                f"problem {problem.id!r}: the tokenizer has no token for {', '.join(map(repr, lost[:5]))} of its prompt"
            )
        if not ids["input_ids"]:
            raise UserError(f"problem {problem.id!r}: its prompt has no tokens")
        return np.array(ids["input_ids"], np.int32)

    def observation(self, text: str, last: int | None = None) -> Ids:
        """Return an observation as int32 token ids. With ``options.chat``, the observation is a user message, followed
        by the start of the next turn.

        Args:
            last: the last token of the policy's previous turn; None before the first turn.

        Raises:
            UserError: see :func:`outrider.model.chat.observation_text`.
        """
        if self.options.chat:
            end = "" if last is None else self.token_texts(np.array([last]))[0]
            text = observation_text(self.tokenizer, text, end, self.options.chat_template_kwargs)
        return np.array(self.tokenizer(text, add_special_tokens=False)["input_ids"], np.int32)

    @property
    def prompt_end(self) -> str | None:
        """The text with which the chat template ends every prompt (:func:`outrider.model.chat.prompt_end`); None
        without a chat template.
        """
        return prompt_end(self.tokenizer, self.options) if self.options.chat else None

    def token_texts(self, ids: Ids) -> list[str]:
        """Return the text of each token. A token that encodes only part of a character is decoded as the Unicode
        replacement character."""
        return list(self.tokenizer.batch_decode([[int(i)] for i in ids], clean_up_tokenization_spaces=False))

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
        """Return the mean attention between the steps of a response. ``starts`` has the positions of the steps' first
        tokens; see :class:`outrider.explore.view.Engine`.

        Raises:
            UserError: ``path.name`` is ``"plain"`` (the model's own forward pass), which does not return attention
                weights.
        """
        if self.path.name == "plain":
            raise UserError(
                f"attention between steps cannot be measured in {type(self.model).__name__}, which runs on the plain "
                "path; select branches in another way, for example by utility or surprisal"
            )
        return step_attention(self.model, rollout, starts)

    def branching(self, rollouts: Sequence[Rollout], mass: float) -> list[NDArray[np.int32]]:
        """Return the nucleus sizes at the sampled tokens of rollouts; see :class:`outrider.explore.view.Engine`.

        Raises:
            UserError: ``path.name`` is ``"plain"`` (the model's own forward pass), which does not return hidden states.
        """
        if self.path.name == "plain":
            raise UserError(
                f"nucleus sizes cannot be measured in {type(self.model).__name__}, which runs on the plain path; keep "
                "responses in another way, for example by entropy"
            )
        return [branching_of(self.model, rollout, mass) for rollout in rollouts]

    def _chat(self, turns: list[dict[str, Any]], problem: Problem) -> Mapping[str, Any]:
        tools: list[Any] = [dict(tool) for tool in problem.tools]
        if tools:
            refuse_other_calls(self.tokenizer, tools, self.options.chat_template_kwargs)
        given: dict[str, Any] = {"tools": tools or None, **self.options.chat_template_kwargs}
        encoded = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True, **given)
        return encoded  # type: ignore[return-value]  # the stub lists every return type


def lost_characters(tokenizer: PreTrainedTokenizerBase, text: str) -> list[str]:
    """Return the letters, digits, punctuation and symbols of a text for which the tokenizer has no token.

    Combining marks, spaces and control characters are ignored, since normalisation may remove them. If the tokenizer
    reports no token offsets, the result is empty.
    """
    if not tokenizer.is_fast:
        return []
    places = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    read = np.zeros(len(text), np.bool_)
    for begin, end in places:
        read[begin:end] = True
    lost = {text[place] for place in np.flatnonzero(~read)}
    return sorted(character for character in lost if unicodedata.category(character)[0] in "LNPS")


def load_policy(name: str, options: PolicyOptions = PLAIN, seed: int = 0, device: torch.device | None = None) -> Policy:
    """Load a policy for the sampler and the learner, in evaluation mode. This mode turns dropout off, so that the
    sampler and the learner use the same distribution.

    A folder with a LoRA adapter is loaded as the adapter's base model with the adapter merged.

    Args:
        seed: seed of a new adapter's random matrices; unused if ``options`` add no adapter.
        device: device of the weights; None selects the device of :func:`outrider.model.device.placement`. If the device
            is ``meta``, only the shapes are loaded, without weights or adapter.

    Raises:
        UserError: the folder is missing, is not a model, or has no tokenizer; weights are missing; the model is not on
            the hub, or the hub cannot be reached. The error is also raised if ``options`` need a chat template or
            layers that the model does not have.
    """
    tokenizer, place, adapter = open_tokenizer(name, options)
    lora = options.lora if isinstance(options, TrainedPolicyOptions) else None
    runs_on = placement(options.dtype)
    weights_in = torch.float32 if lora is None else runs_on.dtype  # see PolicyOptions: frozen weights need no float32
    if device is not None and device.type == "meta":
        return Policy(_shape_of(place, device), tokenizer, options)
    model = _weights(name, place, weights_in)
    if adapter is not None:
        model = with_adapter(model, adapter)
    if tokenizer.eos_token_id >= tokens_of(model):
        raise UserError(
            f"model {name!r}: its tokenizer ends a sequence with token {tokenizer.eos_token_id}, and the model has "
            f"{tokens_of(model)} tokens, so no response could end"
        )
    model.eval()
    if lora is not None:
        add_adapter(model, lora, seed)
    return Policy(model.to(device or runs_on.device), tokenizer, options)  # type: ignore[arg-type]  # a wrapped method's stub


def _weights(name: str, folder: str, dtype: torch.dtype) -> PreTrainedModel:
    """Load weights. Raise UserError if weights are missing, since transformers would initialise them at random."""
    model: PreTrainedModel
    info: dict[str, Any]
    try:
        quiet = looks_local(folder)  # a download takes long, so its progress bar is shown
        with without_bars() if quiet else nullcontext():
            model, info = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc]  # the stub lacks the pair
                folder, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True
            )
    except (OSError, ValueError, SafetensorError, ImportError) as error:  # ImportError: a package for quantised weights
        raise UserError(f"model {name!r}: the weights could not be loaded ({first_line(error)})") from error
    if lacking := lacking_weights(info):
        raise UserError(f"model {name!r}: its weights are not those of its config.json: {lacking}")
    return model


def _shape_of(place: str, device: torch.device) -> PreTrainedModel:
    """Return a model without weights. The model's generation_config.json is loaded, since it may list more end tokens
    than config.json.
    """
    with device:
        model: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(place)).eval()
    with suppress(OSError):  # without the file, config.json applies, as for a model with weights
        model.generation_config = GenerationConfig.from_pretrained(place)
    return model


def tokens_of(model: PreTrainedModel) -> int:
    """Return the number of rows of the model's embedding matrix."""
    return int(model.get_input_embeddings().weight.shape[0])  # type: ignore[index]  # a module's stub


def save_policy(policy: Policy, folder: Path, about: Mapping[str, Any]) -> None:
    """Write a policy to a folder that ``AutoModelForCausalLM.from_pretrained`` can load; the folder appears atomically.

    For a policy with an adapter, ``options.export`` selects the merged model or only the adapter. ``about``, JSON data
    on the origin of the weights, is written to ``outrider.json``.

    Raises:
        UserError: the folder cannot be written, or exists already.
    """
    if folder.exists():
        raise UserError(f"{folder} exists; choose another folder for the model")
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        with without_bars():
            _write_weights(policy, part)
        policy.tokenizer.save_pretrained(part)
        (part / "outrider.json").write_text(json.dumps(about, indent=1) + "\n")
        os.replace(part, folder)
    except (OSError, SafetensorError) as error:  # safetensors raises the latter on a full disk
        raise disk_refused(folder, error) from error


def _write_weights(policy: Policy, folder: Path) -> None:
    options, model = policy.options, policy.model
    if isinstance(options, TrainedPolicyOptions) and options.lora is not None:
        if options.export == "adapter":
            folder.mkdir(parents=True)
            save_adapter(model, folder)
            if model.can_generate() and model.generation_config is not None:
                model.generation_config.save_pretrained(folder)
            return
        model = merged(model)
    model.save_pretrained(folder, max_shard_size=_FILE)


def prompt_policy(name: str, options: PolicyOptions = PLAIN) -> tuple[Policy, int]:
    """Return a policy that can only encode prompts, and the model's context length; no weights are read.

    Raises:
        UserError: see :func:`load_policy`.
    """
    tokenizer, place, _ = open_tokenizer(name, options)
    try:
        config = AutoConfig.from_pretrained(place)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"model {name!r}: its configuration cannot be loaded ({first_line(error)})") from error
    return Policy(cast(Any, None), tokenizer, options), min(_lengths(config))


def context_length(model: PreTrainedModel) -> int:
    """Return the maximum number of tokens in a prompt and its response together.

    A model whose rotary embedding changes beyond its pre-training length (longrope) is used only up to that length.
    With longer responses, the embedding would change in the middle of a response, and would differ between sampler and
    learner.
    """
    return min(_lengths(model.config))


def unused_context(model: PreTrainedModel) -> str:
    """Return a message about the part of a model's context that is not used; empty if the whole context is used."""
    stated, *shorter = _lengths(model.config)
    if min([stated, *shorter]) == stated:
        return ""
    return f"{min(shorter):,} of {stated:,} tokens of context are used: its rotary embedding changes beyond them"


def _lengths(whole: PretrainedConfig) -> list[int]:
    """Return the context length in the config, and the lengths at which the rotary embeddings of some layers change."""
    config = whole.get_text_config()
    stated = getattr(config, "max_position_embeddings", None) or getattr(config, "max_seq_len", None) or 1 << 30
    ropes = getattr(config, "rope_parameters", None) or {}
    kinds = [ropes, *(kind for kind in ropes.values() if isinstance(kind, dict))]
    return [
        int(stated),
        *(int(k["original_max_position_embeddings"]) for k in kinds if k.get("rope_type") == "longrope"),
    ]
