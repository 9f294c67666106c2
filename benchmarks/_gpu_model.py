"""Models of random weights for ``gpu.py``: Qwen2.5's shapes, a tokenizer that has a text for every token, problems."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from outrider.config import Recipe, load_recipe
from outrider.model.device import placement
from outrider.model.tiny import BOS, EOS, PAD

REWARD = Path(__file__).with_name("_gpu_reward.py")
VLLM_MEMORY = 0.3
"""vLLM's share of the GPU, the same for Outrider and TRL; the learner has the rest."""


class Size(NamedTuple):
    """What is measured: the model's shape, and how many tokens."""

    width: int
    inner: int
    layers: int
    heads: int
    keys: int
    vocabulary: int
    prompts: int
    samples: int
    prompt: int
    response: int
    micro_batch: int

    @property
    def rows(self) -> int:
        return self.prompts * self.samples

    @property
    def micro_tokens(self) -> int:
        return self.micro_batch * (self.prompt + self.response)


SIZES = {
    "0.5b": Size(896, 4864, 24, 14, 2, 151_936, 32, 8, 128, 1024, 8),
    "1.5b": Size(1536, 8960, 28, 12, 2, 151_936, 32, 8, 128, 1024, 4),
    "tiny": Size(128, 192, 2, 4, 2, 1000, 6, 4, 8, 24, 4),
}


def new_model(size: Size) -> PreTrainedModel:
    """Random weights in float32, the same each time, on the GPU where there is one."""
    config = Qwen2Config(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.keys,
        tie_word_embeddings=True,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    with placement().device:  # seconds where the host would take minutes
        return Qwen2ForCausalLM(config).eval()


def tokenizer(size: Size) -> Qwen2Tokenizer:
    """A token for each digit, and a text of its own for every other one, so that other tokens are another response."""
    words = [*"0123456789", *(f"w{i}" for i in range(13, size.vocabulary))]
    return Qwen2Tokenizer(
        vocab={token: i for i, token in enumerate([PAD, BOS, EOS, *words])},
        merges=[],
        unk_token=None,  # type: ignore[arg-type]  # its default is a token that this vocabulary lacks
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def write_model(size: Size, folder: Path) -> None:
    """A folder to load it from, and prompts of ``size.prompt`` digits in ``train.jsonl`` and ``heldout.jsonl``."""
    new_model(size).to(torch.bfloat16).save_pretrained(folder)
    tokenizer(size).save_pretrained(folder)
    draw = random.Random(0)
    for name, count in (("train", 4 * size.prompts), ("heldout", 4)):
        rows = [{"problem": "".join(draw.choices("0123456789", k=size.prompt))} for _ in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def recipe_of(name: str, size: Size, folder: Path, engine: str) -> Recipe:
    """A recipe on this model; without a KL, as TRL's default is, and with bfloat16 matmuls on a GPU."""
    task = {
        "train_data": str(folder / "train.jsonl"),
        "heldout_data": str(folder / "heldout.jsonl"),
        "prompt": "{problem}",
        "verifier": {"function": {"function": f"{REWARD}:half", "style": "trl"}},
    }
    vllm = {"vllm": {"memory": VLLM_MEMORY}, "vllm asleep": {"memory": VLLM_MEMORY, "sleep": True}}
    sampler = {"vllm": vllm[engine]} if engine in vllm else engine
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    words = {
        "model": str(folder),
        "policy.dtype": dtype,
        "task": {"table": task},
        "engine.sampler": sampler,
        "sample.max_tokens": size.response,
        "explore.0.n": size.samples,
        "objective.kl": 0.0,
        "learn.micro_tokens": size.micro_tokens,
        "train.problems": size.prompts,
    }
    return load_recipe(name, [f"{key}={json.dumps(value)}" for key, value in words.items()])
