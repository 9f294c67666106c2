"""The local sampler against ``transformers.generate``: the same model, prompts and lengths, tokens per second.

Aim of the fused path: 5 times ``generate``, and 45 % of the machine's sgemm. Two comparisons: one thread against one
thread, and the whole machine used as each is best used (one sampler process per core; ``generate`` with a thread per
core).
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import torch
from _machine import PAIRS, base, keep, operations, rates, ratio, rounded, sgemm
from _sampling_rates import ROWS, generate_rate_function, machine, sampler_rate_function

from outrider.processes.launch import launch


def main() -> None:
    torch.set_num_threads(1)
    peak = sgemm()
    numbers: dict[str, object] = {"pairs": PAIRS, "rows": ROWS, "sgemm_gflops_one_thread": round(peak / 1e9, 1)}
    plain = generate_rate_function(1)
    parameters = sum(p.numel() for p in base().model.parameters())
    for path in ("fused", "packed", "plain"):
        sample = sampler_rate_function(path)
        ours, theirs = rates(sample, plain)
        numbers[path] = {
            "tokens_per_second_one_thread": round(statistics.median(ours)),
            "generate_tokens_per_second_one_thread": round(statistics.median(theirs)),
            "ratio": rounded(ratio(ours, theirs), 2),
            "share_of_sgemm": round(2 * parameters * statistics.median(ours) / peak, 3),
            "operations": operations(sample),
        }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "machine"
        launch(0, machine, out)
        ours_, theirs_, of = map(float, out.read_text().split())
    numbers["whole_machine"] = {
        "tokens_per_second": round(ours_),
        "generate_tokens_per_second": round(theirs_),
        "ratio": round(of, 2),
    }
    keep("sampler", numbers)


if __name__ == "__main__":
    main()
