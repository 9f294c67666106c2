"""Sampling and learning of a random Qwen2 of 0.5 billion parameters on a GPU, against the same written plainly.

bfloat16 products over float32 weights, a vocabulary of 151,936, responses of 1,024 tokens: tokens per second and peak
memory of the sampler, of a learner's step, and of both with transformers alone (``generate``; a clipped loss over
padded rows and whole logits). Skips where there is no CUDA; ``--tiny`` runs the same code with a small model on
whatever there is, and keeps no numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from _machine import keep
from torch.nn import functional as F
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from outrider.learn.learner import Learner
from outrider.learn.options import LearnOptions
from outrider.model.attention import use_plans
from outrider.model.device import placement
from outrider.model.load import Policy
from outrider.model.options import PolicyOptions
from outrider.model.tiny import character_tokenizer
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.record import Problem, SampleRequest
from outrider.record.row import TrainingRow
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready


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
    micro_rows: int

    @property
    def rows(self) -> int:
        return self.prompts * self.samples


HALF_BILLION = Size(896, 4864, 24, 14, 2, 151_936, 8, 8, 128, 1024, 8)
TINY = Size(64, 96, 2, 4, 2, 1000, 2, 2, 8, 24, 2)


def fresh(size: Size) -> PreTrainedModel:
    """The same random weights every time, in float32, where there is a GPU on it."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.keys,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return Qwen2ForCausalLM(config).to(placement().device).eval()


def timed(work: Callable[[], int]) -> dict[str, float]:
    """Tokens per second and peak gibibytes of the second call; the first warms up."""
    cuda = torch.cuda.is_available()
    for _ in range(2):
        if cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        tokens = work()
        if cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan")
    return {"tokens_per_second": round(tokens / seconds, 1), "peak_gib": round(peak, 2)}


def prompts(size: Size) -> np.ndarray:
    return np.random.default_rng(0).integers(3, size.vocabulary, (size.prompts, size.prompt)).astype(np.int32)


def our_sampling(size: Size, path: str) -> dict[str, float]:
    policy = Policy(fresh(size), character_tokenizer(), PolicyOptions(dtype="bfloat16"))
    sampler = LocalSampler(ready(policy, path)[0], SampleOptions(max_tokens=size.response))
    asked = [
        SampleRequest(Problem(str(i), ""), n=size.samples, prompt_ids=ids, group_id=str(i))
        for i, ids in enumerate(prompts(size))
    ]
    return timed(lambda: sum(len(rollout.token_ids) for rollout in sampler.sample(asked)))


def plain_sampling(size: Size) -> dict[str, float]:
    model = fresh(size).to(torch.bfloat16)
    ids = torch.from_numpy(prompts(size).astype(np.int64)).to(model.device).repeat_interleave(size.samples, 0)

    def work() -> int:
        with torch.no_grad():
            made = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, max_new_tokens=size.response
            )
        return int((made[:, size.prompt :] != 0).sum())

    return timed(work)


def responses(size: Size) -> np.ndarray:
    return np.random.default_rng(1).integers(3, size.vocabulary, (size.rows, size.response)).astype(np.int32)


def our_learning(size: Size, recompute: bool) -> dict[str, float]:
    model = fresh(size)
    use_plans(model)
    loss = PolicyLoss(ObjectiveOptions(aggregate="token_mean", kl=0.0), size.response)
    micro = size.micro_rows * (size.prompt + size.response)
    options = LearnOptions(micro_tokens=micro, gradient_checkpointing=recompute)
    learner = Learner(model, options, loss, dtype=torch.bfloat16)
    old = np.full(size.response, -np.log(size.vocabulary), np.float32)
    context = prompts(size)
    rows = [
        TrainingRow(
            context_ids=context[i // size.samples],
            token_ids=ids,
            old_logprobs_N=old,
            advantages_N=np.full(size.response, 1.0 if i % 2 else -1.0),
            trainable_N=np.ones(size.response, np.bool_),
            stream="main",
            group=str(i // size.samples),
        )
        for i, ids in enumerate(responses(size))
    ]

    def work() -> int:
        learner.update(rows)
        return size.rows * size.response

    return timed(work)


def plain_learning(size: Size, recompute: bool) -> dict[str, float]:
    """One optimizer step of a clipped token mean, as a page of transformers and PyTorch has it."""
    model = fresh(size)
    if recompute:
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    context = np.repeat(prompts(size), size.samples, 0)
    ids = torch.from_numpy(np.concatenate([context, responses(size)], 1).astype(np.int64)).to(model.device)
    advantages = torch.tensor([1.0 if i % 2 else -1.0 for i in range(size.rows)], device=model.device)
    old = -float(np.log(size.vocabulary))

    def work() -> int:
        optimizer.zero_grad()
        for part, advantage in zip(ids.split(size.micro_rows), advantages.split(size.micro_rows), strict=True):
            with torch.autocast(model.device.type, torch.bfloat16):
                logits = model(part, use_cache=False, logits_to_keep=size.response + 1).logits[:, :-1].float()
            logprobs = -F.cross_entropy(logits.flatten(0, 1), part[:, size.prompt :].flatten(), reduction="none")
            ratio = (logprobs - old).exp().view(len(part), -1)
            gain = torch.minimum(ratio * advantage[:, None], ratio.clamp(0.8, 1.2) * advantage[:, None])
            (-gain.sum() / (size.rows * size.response)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return size.rows * size.response

    return timed(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args().tiny
    if not (tiny or torch.cuda.is_available()):
        print("no CUDA here: skipped")
        return
    size = TINY if tiny else HALF_BILLION
    numbers: dict[str, object] = {
        "engine": str(placement("bfloat16")),
        "parameters": sum(p.numel() for p in fresh(size).parameters()),
        "sampling": our_sampling(size, "fused"),
        "sampling, packed path": our_sampling(size, "packed"),
        "sampling, transformers": plain_sampling(size),
        "learning": our_learning(size, recompute=False),
        "learning, layers recomputed": our_learning(size, recompute=True),
        "learning, transformers": plain_learning(size, recompute=False),
        "learning, transformers, layers recomputed": plain_learning(size, recompute=True),
    }
    for name, value in numbers.items():
        print(f"{name}: {value}")
    if not tiny:
        keep("gpu", {**numbers, "size": size._asdict()})


if __name__ == "__main__":
    main()
