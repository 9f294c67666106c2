"""Tokens per second of the local sampler and of ``transformers.generate``, for ``sampler.py``.

A module of its own, since other ranks import the function that they run.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import torch
from _machine import MAX_TOKENS, base, rates, ratio, requests

from outrider.processes.ranks import Ranks
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready

PROBLEMS, N, ROWS = 32, 16, 512


def generate_rate_function(threads: int):
    """Own tokens made by one call of ``generate`` on 512 left-padded rows, its best batch size here."""
    policy = base()
    prompts = [r.problem.prompt for r in requests(policy, PROBLEMS, 1) for _ in range(N)]
    batch = policy.tokenizer(prompts, return_tensors="pt", padding=True)

    def run() -> int:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        with torch.inference_mode():
            out = policy.model.generate(
                batch["input_ids"],
                attention_mask=batch["attention_mask"],
                do_sample=True,
                top_k=0,
                top_p=1.0,
                max_new_tokens=MAX_TOKENS,
            )
        torch.set_num_threads(before)
        return int((out[:, batch["input_ids"].shape[1] :] != policy.tokenizer.pad_token_id).sum())

    return run


def sampler_rate_function(path: str):
    policy, _ = ready(base(), path)
    sampler = LocalSampler(policy, SampleOptions(max_tokens=MAX_TOKENS, rows=ROWS))
    asked = requests(policy, PROBLEMS, N)
    return lambda: sum(len(r.token_ids) for r in sampler.sample(asked))


def machine(ranks: Ranks, out: Path) -> int:
    """Every rank samples its own rows; rank 0 runs ``generate`` with all threads in between, the others wait."""
    ours = sampler_rate_function("fused")
    theirs = generate_rate_function(ranks.size) if ranks.main else None

    def together() -> int:
        return sum(ranks.gather(lambda: [ours()]))

    def alone() -> int:
        made = 0
        if theirs is not None:
            pinned = os.sched_getaffinity(0)
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
            made = theirs()
            os.sched_setaffinity(0, pinned)
        return sum(ranks.gather(lambda: [made]))

    first, second = rates(together, alone)
    if ranks.main:
        out.write_text(f"{statistics.median(first)} {statistics.median(second)} {ratio(first, second)['median']}")
    return 0
