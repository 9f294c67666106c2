"""Sampling with a real vocabulary on one thread: the local sampler against ``transformers.generate``, and where the
time goes.

A random model of SmolLM2-135M's shape (30 layers, width 576, 49,152 tokens), 8 prompts of 60 tokens with 8 responses
of 32 tokens each. Aims: 2.5 times ``generate``, and 45 % of the operations that the machine's square matrix product
reaches, measured in the same minutes. ``operations``: share of the time by the profiler, of the largest ones.
"""

from __future__ import annotations

import statistics

import numpy as np
import torch
from _machine import keep, operations, rates, ratio, rounded, sgemm
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.model.load import Policy
from outrider.model.tiny import character_tokenizer
from outrider.record import Problem, SampleRequest
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready

PROMPTS, EACH, PROMPT, TOKENS, PAIRS = 8, 8, 60, 32, 3
SHAPE = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    # beyond what a character's tokenizer makes and nearly never drawn, so that responses have equal lengths
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def policy() -> Policy:
    torch.manual_seed(0)
    return Policy(LlamaForCausalLM(LlamaConfig(**SHAPE)).eval(), character_tokenizer())


def prompts() -> np.ndarray:
    return np.random.default_rng(0).integers(100, SHAPE["vocab_size"], (PROMPTS, PROMPT)).astype(np.int32)


def ours():
    made, _ = ready(policy(), "fused")
    sampler = LocalSampler(made, SampleOptions(max_tokens=TOKENS, rows=PROMPTS * EACH))
    asked = [
        SampleRequest(Problem(str(i), ""), EACH, prompt_ids=ids, group_id=str(i)) for i, ids in enumerate(prompts())
    ]
    return lambda: sum(len(rollout.token_ids) for rollout in sampler.sample(asked))


def generate():
    model = policy().model
    ids = torch.from_numpy(prompts().astype(np.int64)).repeat_interleave(EACH, 0)

    def run() -> int:
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                max_new_tokens=TOKENS,
                min_new_tokens=TOKENS,
            )
        return int(out[:, PROMPT:].numel())

    return run


def main() -> None:
    torch.set_num_threads(1)
    sample, theirs = ours(), generate()
    before = sgemm()
    fast, slow = rates(sample, theirs, PAIRS)
    peak = max(before, sgemm())
    parameters = sum(p.numel() for p in policy().model.parameters())
    keep(
        "vocabulary",
        {
            "pairs": PAIRS,
            "rows": PROMPTS * EACH,
            "sgemm_gflops_one_thread": round(peak / 1e9, 1),
            "tokens_per_second_one_thread": round(statistics.median(fast), 1),
            "generate_tokens_per_second_one_thread": round(statistics.median(slow), 1),
            "ratio": rounded(ratio(fast, slow), 2),
            "share_of_sgemm": round(2 * parameters * statistics.median(fast) / peak, 3),
            "operations": operations(sample),
        },
    )


if __name__ == "__main__":
    main()
