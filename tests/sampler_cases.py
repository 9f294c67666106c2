"""What the contracts of samplers draw, and what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.load import Policy, load_policy
from outrider.model.tiny import character_tokenizer
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.ranks import Ranks
from outrider.record import Ids, Problem, Rollout
from outrider.sample.sampler import Sampler
from outrider.train.weight_sync import WeightSync
from small import request

TEXTS = ["3 4>7:", "11 6 8 9>22:", "7 5 5>30:", "2 9 4 4 3 12>28:2+4=6,9 4 3 12 6;9-6=3,4 3 12 3;"]
_WRITE = character_tokenizer()
PROMPTS = [_WRITE(text)["input_ids"] for text in TEXTS]
LONG = PROMPTS[3]  # longer than a block of a cache of prefixes


def own_logits(policy: Policy, ids: Sequence[int], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """By the forward pass of transformers, of a model of its own with the same weights, over the whole at once.

    In float64, or the rounding of two passes would be compared: on one processor they were 1.2e-5 apart.
    """
    plain = load_policy("base:countdown", policy.options).model
    plain.load_state_dict(policy.model.state_dict())
    plain.to(dtype)
    with torch.no_grad():
        return plain(input_ids=torch.tensor([[*ids]], device=plain.device)).logits[0].cpu()


def own_logprobs(
    policy: Policy, rollout: Rollout, temperature: float = 1.0, dtype: torch.dtype = torch.float64
) -> np.ndarray:
    logits = own_logits(policy, [*rollout.prompt_ids, *rollout.response_ids], dtype) / temperature
    first = len(rollout.prompt_ids) + rollout.branch_at
    chosen = torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None]
    return logits[first - 1 : -1].log_softmax(-1).gather(1, chosen)[:, 0].numpy()


def rounding(policy: Policy, rollout: Rollout, temperature: float = 1.0) -> float:
    """How far float32 log-probabilities may be from those of float64.

    1e-5 on most processors. Where float32 itself is less exact (1.4e-5 on an H100), four times the largest error of
    transformers' own float32 pass: twice, as an engine adds in another order, and twice, as the largest of few tokens
    differs from pass to pass.
    """
    exact, single = (own_logprobs(policy, rollout, temperature, dtype) for dtype in (torch.float64, torch.float32))
    return max(1e-5, 4 * float(np.abs(exact - single).max()))


def draw(sampler: Sampler, n: int = 3, **rest: object) -> list[Rollout]:
    return sampler.sample([request(f"p{i}", prompt, n=n, **rest) for i, prompt in enumerate(PROMPTS)])


def move(policy: Policy, size: float = 0.005) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.requires_grad:
                parameter.add_(size * torch.randn_like(parameter))


def weight_sync(
    sampler: Sampler, policy: Policy, refuse: bool = True, exact: bool = True, ranks: Ranks | None = None
) -> WeightSync:
    loss = PolicyLoss(ObjectiveOptions(), 24)
    learner = LocalLearner(policy.model, LearnOptions(), loss, path=policy.path)
    return WeightSync(sampler, learner, ranks or Ranks(), probe_prompts(), exact, refuse)


def probe_prompts() -> list[tuple[Problem, Ids]]:
    return [(Problem(str(i), ""), np.array(ids, np.int32)) for i, ids in enumerate((LONG, PROMPTS[0]))]
