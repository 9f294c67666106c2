"""The packed learner against a right-padded Hugging Face forward and backward pass over the same rows, one thread.

Floor: 1.5 times. Both compute log-probabilities of the same tokens and the same gradient; the padded side takes
micro-batches of 64 rows in the order in which they come, as a padded trainer does.
"""

from __future__ import annotations

import copy
import statistics

import numpy as np
import torch
from _machine import PAIRS, base, keep, operations, rates, ratio, rounded, sgemm

from outrider.config import load_recipe
from outrider.learn.local import LocalLearner
from outrider.model.attention import use_plans
from outrider.model.load import Policy
from outrider.objective.policy_loss import ImitationLoss
from outrider.record.row import WeightedRow, imitation_row
from outrider.tasks.countdown import Countdown

ROWS, MICRO_BATCH = 512, 64


def rows(policy: Policy) -> list[WeightedRow]:
    """Worked solutions of the training stream: the lengths that the embedded task has."""
    made = []
    for problem in map(Countdown().train, range(ROWS)):
        own = policy.tokenizer(problem.metadata["solution"], add_special_tokens=False)["input_ids"]
        made.append(imitation_row(policy.encode(problem), np.array([*own, policy.tokenizer.eos_token_id], np.int32)))
    return made


def packed(policy: Policy, batch: list[WeightedRow], micro_tokens: int):
    model = copy.deepcopy(policy.model)
    use_plans(model)
    options = load_recipe("grpo").learn.model_copy(update={"micro_tokens": micro_tokens})
    learner = LocalLearner(model, options, ImitationLoss())
    tokens = sum(row.length for row in batch)
    return lambda: tokens if learner.update(batch).metrics else 0


def padded(policy: Policy, batch: list[WeightedRow]):
    model = copy.deepcopy(policy.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, own = sum(row.length for row in batch), sum(len(row.token_ids) for row in batch)

    def run() -> int:
        optimizer.zero_grad()
        for start in range(0, len(batch), MICRO_BATCH):
            part = batch[start : start + MICRO_BATCH]
            width = max(row.length for row in part)
            ids = torch.zeros(len(part), width, dtype=torch.int64)
            mask, trained = torch.zeros_like(ids), torch.zeros(len(part), width - 1)
            for i, row in enumerate(part):
                ids[i, : row.length] = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]))
                mask[i, : row.length] = 1
                trained[i, len(row.context_ids) - 1 : row.length - 1] = 1
            logps = model(input_ids=ids, attention_mask=mask).logits[:, :-1].log_softmax(-1)
            logprobs = logps.gather(-1, ids[:, 1:, None])[..., 0]
            (-(logprobs * trained).sum() / own).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return tokens

    return run


def main() -> None:
    torch.set_num_threads(1)
    peak = sgemm()
    policy = base()
    batch = rows(policy)
    parameters = sum(p.numel() for p in policy.model.parameters())
    numbers: dict[str, object] = {
        "pairs": PAIRS,
        "rows": ROWS,
        "tokens": sum(row.length for row in batch),
        "sgemm_gflops_one_thread": round(peak / 1e9, 1),
    }
    plain = padded(policy, batch)
    for micro_tokens in (2048, 4096, 16_384):
        learn = packed(policy, batch, micro_tokens)
        ours, theirs = rates(learn, plain)
        numbers[f"micro_tokens_{micro_tokens}"] = {
            "tokens_per_second": round(statistics.median(ours)),
            "padded_tokens_per_second": round(statistics.median(theirs)),
            "ratio": rounded(ratio(ours, theirs), 2),
            "share_of_sgemm": round(6 * parameters * statistics.median(ours) / peak, 3),
            "operations": operations(learn),
        }
    keep("learner", numbers)


if __name__ == "__main__":
    main()
