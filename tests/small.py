"""Small policies and requests that several tests share."""

from __future__ import annotations

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from outrider.model.load import Policy
from outrider.model.tiny import character_tokenizer
from outrider.record import Group, Prefix, Problem, Rollout, SampleRequest, SamplingParams

VOCABULARY = 32


def random_model(family: str, seed: int = 0, **changes: object) -> PreTrainedModel:
    """A random two-layer model with weights large enough that its distributions are far from uniform."""
    torch.manual_seed(seed)
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 128,
        "initializer_range": 0.2,  # at 0.3 the float32 rounding of transformers itself is 1e-5
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **changes,
    }
    classes = {
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),
        "llama": (LlamaConfig, LlamaForCausalLM),
    }
    config, model = classes[family]
    built = model(config(**shape)).eval()
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if "norm" in name or "bias" in name:  # ones and zeros would hide a missing norm or bias
                parameter.add_(0.3 * torch.randn_like(parameter))
    return built


def random_policy(family: str = "qwen2", seed: int = 0, **changes: object) -> Policy:
    return Policy(random_model(family, seed, **changes), character_tokenizer())


def request(name: str, prompt: list[int], n: int = 1, **rest: object) -> SampleRequest:
    problem = Problem(name, "")
    ids = np.array(prompt, np.int32)
    return SampleRequest(problem, n=n, prompt_ids=ids, group_id=f"g:{name}", **rest)


def branch_of(parent: Rollout, at: int, n: int, first_member: int, **rest: object) -> SampleRequest:
    return SampleRequest(
        Problem(parent.problem_id, ""),
        n=n,
        prefix=Prefix(parent.id, parent.response_ids[:at]),
        prompt_ids=parent.prompt_ids,
        group_id=parent.group_id,
        first_member=first_member,
        **rest,
    )


def params(**values: object) -> SamplingParams:
    return SamplingParams(**{"max_tokens": 24, **values})


def group(rollouts: list[Rollout]) -> Group:
    return Group(Problem(rollouts[0].problem_id, ""), rollouts[0].group_id).joined(rollouts)
