"""Loads the policy to analyse: the trained model, the run's initial model, a checkpoint or any other model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from outrider.config import read_yaml
from outrider.errors import UserError
from outrider.model.load import Policy, context_length, load_policy
from outrider.model.options import TrainedPolicyOptions
from outrider.record import Rollout
from outrider.runs.checkpoint import checkpoints
from outrider.runs.folder import RunFolder
from outrider.sample.ready import ready
from outrider.sample.requests import decode

_WEIGHTS = "weights.safetensors"


def open_policy(run: Path, word: str) -> Policy:
    """Load the policy that ``word`` names, and prepare it for forward passes.

    ``trained``: the run's exported model, or its newest checkpoint if no model has been exported yet. In a folder
    written by ``outrider evaluate``, ``trained`` is the evaluated model. ``start``: the run's initial model.
    ``step-40``: the checkpoint after step 40. Any other ``word`` names a model: a folder, a name on the Hugging Face
    hub, or one of Outrider's base models, such as ``base:countdown``.

    Raises:
        UserError: the run has no such policy, or the policy cannot be loaded.
    """
    folder = RunFolder.existing(run)
    config = read_yaml(folder.config.read_text("utf-8"), str(folder.config))
    options = TrainedPolicyOptions.model_validate(config.get("policy", {}))
    kept = checkpoints(folder.checkpoints)
    if word == "trained" and (folder.model / "outrider.json").is_file():
        policy = load_policy(str(folder.model))
    elif word == "trained" and kept:
        policy = _restored(config["model"], options, kept[max(kept)])
    elif word in ("trained", "start"):
        policy = load_policy(config["model"])
    elif word.startswith("step-"):
        policy = _restored(config["model"], options, _checkpoint(run, word, kept))
    else:
        policy = load_policy(word)
    return ready(policy)[0]


def refuse_foreign(policy: Policy, model: str, run: Path, rollouts: Sequence[Rollout]) -> None:
    """Raise an error if the rollouts were sampled with another tokenizer or are too long for the policy's model.

    Raises:
        UserError: a token is outside the vocabulary, the first response does not decode to its stored text, or a
            sequence is longer than the model's context.
    """
    vocabulary, context = policy.model.get_output_embeddings().weight.shape[0], context_length(policy.model)
    for rollout in rollouts:
        ids = [*rollout.prompt_ids.tolist(), *rollout.response_ids.tolist()]
        if ids and max(ids) >= vocabulary:
            raise UserError(
                f"rollout {rollout.id} of {run} has the token {max(ids)}, but the vocabulary of {model} ends at "
                f"{vocabulary - 1}: another tokenizer wrote it"
            )
        if len(ids) > context:
            raise UserError(
                f"rollout {rollout.id} of {run} has {len(ids)} tokens, but the context of {model} is {context}"
            )
    for rollout in rollouts[:1]:
        text = decode(policy.tokenizer, [rollout.token_ids])[0].encode("utf-8", "backslashreplace").decode()
        if text != rollout.text:
            raise UserError(
                f"rollout {rollout.id} of {run} has the text {rollout.text[:40]!r}, but {model} decodes its tokens as "
                f"{text[:40]!r}: another tokenizer wrote it"
            )


def vocabulary(policy: Policy) -> list[str]:
    """Return the text of every token id of the model. Ids that the tokenizer does not have get an empty text."""
    known = len(policy.tokenizer)
    size = policy.model.get_output_embeddings().weight.shape[0]
    texts = policy.tokenizer.batch_decode([[i] for i in range(min(size, known))], clean_up_tokenization_spaces=False)
    return [*texts, *[""] * (size - len(texts))]


def _checkpoint(run: Path, word: str, kept: dict[int, Path]) -> Path:
    step = word.removeprefix("step-")
    if not step.isdecimal() or int(step) not in kept:
        known = ", ".join(f"step-{step}" for step in kept) or "none"
        raise UserError(f"{run} holds no checkpoint {word!r} (there: {known})")
    return kept[int(step)]


@torch.no_grad()
def _restored(model: str, options: TrainedPolicyOptions, checkpoint: Path) -> Policy:
    """Load ``model`` with the weights in a checkpoint, which stores either all weights or only an adapter's weights."""
    policy = load_policy(model, options)
    file = checkpoint / _WEIGHTS
    try:
        weights: dict[str, Any] = load_file(file)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file} cannot be read ({error})") from error
    mine = {name: p for name, p in policy.model.named_parameters() if p.requires_grad}
    if {name: p.shape for name, p in mine.items()} != {name: w.shape for name, w in weights.items()}:
        raise UserError(f"{file} has the weights of another model than {model}")
    for name, parameter in mine.items():
        parameter.copy_(weights[name])
    return policy
