"""Adds, merges, saves and loads LoRA adapters with the package peft."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from outrider.errors import UserError, nearest
from outrider.model.options import LoraOptions
from outrider.record.disk import disk_refused

ADAPTER = "adapter_config.json"
_NAME = "default"


def add_adapter(model: PreTrainedModel, options: LoraOptions, seed: int) -> None:
    """Add an adapter to the linear layers of ``model`` and freeze all other weights. The new adapter does not change
    the model's outputs.

    The adapter's weights are float32, whatever the model's dtype is. The adapter's random matrices depend only on
    ``seed``.

    Raises:
        UserError: peft is not installed or fails, or the model does not have the layers that ``options`` name.
    """
    peft = _peft("policy.lora")
    known = _adaptable(model)
    if not known:
        raise UserError(f"policy.lora: {type(model).__name__} has no linear layers to adapt")
    config = peft.LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        target_modules=known if options.targets == "all-linear" else _checked_targets(model, options.targets, known),
        task_type="CAUSAL_LM",
        base_model_name_or_path=model.name_or_path,
    )
    # peft draws from the global generator; the model is still on the CPU, so no other generator is used
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with warnings.catch_warnings(action="ignore"):  # a warning that Conv1D is transposed, which peft handles
                # not transformers' add_adapter: version 5.24 refuses the newest peft
                peft.inject_adapter_in_model(config, model, _NAME)
        except ValueError as error:
            reason = str(error).removeprefix("[PEFT:PeftType.LORA] ").partition(". ")[0]
            raise UserError(f"policy.lora: peft cannot adapt {type(model).__name__} ({reason})") from error
    model._hf_peft_config_loaded = True  # the flag by which transformers recognises a model with an adapter
    for parameter in model.parameters():
        if parameter.requires_grad:  # only the adapter: in bfloat16 most steps of AdamW would be rounded away
            parameter.data = parameter.data.float()
    model.eval()


def _adaptable(model: PreTrainedModel) -> list[str]:
    """Return the names of all linear layers except the head. A name is shortened to its last part, such as ``q_proj``,
    unless the head or a module that is not linear has the same last part.
    """
    head = model.get_output_embeddings()
    whole = {name: _is_product(m) and m is not head for name, m in model.named_modules() if name}
    mixed = {name.rpartition(".")[2] for name, linear in whole.items() if not linear}
    names = [name for name, linear in whole.items() if linear]
    return list(dict.fromkeys(name if (last := name.rpartition(".")[2]) in mixed else last for name in names))


@torch.no_grad()
def _is_product(module: torch.nn.Module) -> bool:
    """Whether a module is a linear layer that can be adapted; False for routers that inherit from Linear but return a
    tuple."""
    if isinstance(module, torch.nn.Linear) and type(module) is not torch.nn.Linear:
        return isinstance(module(module.weight.new_zeros(1, module.in_features)), Tensor)
    return isinstance(module, (torch.nn.Linear, Conv1D))


def _checked_targets(model: PreTrainedModel, targets: Sequence[str], known: Sequence[str]) -> list[str]:
    if not targets:
        raise UserError(f"policy.lora.targets is empty; write all-linear, or some of {', '.join(known)}")
    for target in targets:
        if target not in known:
            raise UserError(
                f"policy.lora.targets: {type(model).__name__} has no linear layer {target!r} to adapt "
                f"({nearest(target, known)})"
            )
    return list(targets)


@torch.no_grad()
def merged(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model without adapter layers: the adapter of ``model`` is merged into the weights. Weights that have no
    adapter are shared with ``model``, not copied.
    """
    plain = without_adapter(model)
    for name, layer in adapted_layers(model).items():
        plain.get_submodule(name).weight = torch.nn.Parameter(folded(layer), requires_grad=False)
    return plain


def without_adapter(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model without adapter layers; its weights are the base weights of ``model``, shared and not copied."""
    shared = {id(p): p for p in model.parameters()}
    # deepcopy does not copy objects in its memo, so modules are new and parameters are shared
    plain: PreTrainedModel = copy.deepcopy(model, shared)
    for name, layer in adapted_layers(plain).items():
        plain.set_submodule(name, layer.base_layer)
    plain._hf_peft_config_loaded = False  # else transformers would try to save the removed adapter
    return plain


def adapted_layers(model: PreTrainedModel) -> dict[str, Any]:
    """Return the layers that have an adapter, keyed by layer name."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}


def write_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write only the adapter of ``model`` into ``folder``, in peft's format.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        save_adapter(model, folder)
    except (OSError, SafetensorError) as error:
        raise disk_refused(folder, error) from error


def save_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write an adapter as :func:`write_adapter` does, but raise disk errors unchanged."""
    kept = {name: p.detach().contiguous() for name, p in model.named_parameters() if ".lora_" in name}
    cast(Any, model).peft_config[_NAME].save_pretrained(str(folder))
    save_file(
        {f"base_model.model.{name.replace(f'.{_NAME}.', '.')}": tensor for name, tensor in kept.items()},
        folder / "adapter_model.safetensors",
        metadata={"format": "pt"},
    )


def adapter_outputs(model: PreTrainedModel) -> dict[str, torch.nn.Parameter]:
    """Return the adapter's matrices that are zero before training, keyed by name; the dict is empty without an
    adapter."""
    return {name: p for name, p in model.named_parameters() if ".lora_B." in name}


def foldable(layer: torch.nn.Module) -> bool:
    """Whether :func:`folded` supports a layer: a plain linear layer that has no adapter, or only the adapter that
    Outrider adds.
    """
    plain = getattr(layer, "base_layer", layer)
    return type(plain) is torch.nn.Linear and (plain is layer or set(getattr(layer, "lora_A", ())) == {_NAME})


def folded(layer: Any) -> Tensor:
    """Return the weight of a :func:`foldable` layer, with the adapter added if the layer has one."""
    if not hasattr(layer, "base_layer"):
        return cast(Tensor, layer.weight)
    base: Tensor = layer.base_layer.weight
    delta: Tensor = layer.get_delta_weight(_NAME)
    # with a bfloat16 base, only the sum is rounded
    return (base.float() + delta.float()).to(base.dtype)


def base_of(folder: Path) -> str:
    """Return the name of the base model that the adapter in ``folder`` belongs to.

    Raises:
        UserError: the adapter does not name its base model.
    """
    try:
        base = json.loads((folder / ADAPTER).read_bytes())["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"model {str(folder)!r}: its {ADAPTER} names no base model") from error
    return str(base)


def with_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Return a plain model: ``model`` with the adapter in ``folder`` merged into its weights.

    Raises:
        UserError: peft is not installed; the adapter does not fit the model; or the adapter cannot be merged. An
            adapter cannot be merged if it is of a type that does not change weights, or if two layers share the weight
            that it adapts.
    """
    peft = _peft(f"model {str(folder)!r} is an adapter, which")
    try:
        with warnings.catch_warnings(category=FutureWarning, action="ignore"):  # peft calls a deprecated function
            adapted = peft.PeftModel.from_pretrained(model, str(folder)).eval()
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"model {str(folder)!r}: the adapter does not fit its base ({reason})") from error
    if not hasattr(adapted.base_model, "merge_and_unload"):
        kind = adapted.active_peft_config.peft_type.value
        raise UserError(
            f"model {str(folder)!r}: an adapter of the kind {kind} cannot be added to the weights of its base"
        )
    want = _logprobs(adapted)
    plain: PreTrainedModel = adapted.merge_and_unload()
    # if two layers share one weight, peft merges without a warning, and changes both
    apart = (_logprobs(plain) - want).abs()
    # bfloat16 rounds the merged weights: single log-probabilities may change a lot, but the mean change is small
    if (apart.max() > 1e-3) if plain.dtype is torch.float32 else (apart.mean() > 0.3):
        raise UserError(
            f"model {str(folder)!r}: added to the weights of its base, the adapter gives log-probabilities that are "
            f"{float(apart.max()):.1e} apart from its own, as if head and embedding share the weight that it changes"
        )
    return plain


@torch.no_grad()
def _logprobs(model: Any) -> Tensor:
    """Return the log-probabilities of the whole vocabulary at each position of a short test sequence."""
    tokens = model.get_input_embeddings().weight.shape[0]
    logits: Tensor = model(input_ids=torch.arange(3, 19, device=model.device)[None] % tokens, use_cache=False).logits
    return logits.float().log_softmax(-1)


def _peft(who: str) -> ModuleType:
    try:
        import peft
    except ImportError as error:
        raise UserError(f"{who} needs the package peft: pip install 'outrider[lora]'") from error
    return peft
