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


def own_logits(policy: Policy, ids: Sequence[int]) -> torch.Tensor:
    """By the forward pass of transformers, of a model of its own with the same weights, over the whole at once.

    In float64, or the rounding of two passes would be compared: on one processor they were 1.2e-5 apart.
    """
    plain = load_policy("base:countdown", policy.options).model
    plain.load_state_dict(policy.model.state_dict())
    plain.double()
    with torch.no_grad():
        return plain(input_ids=torch.tensor([[*ids]], device=plain.device)).logits[0].cpu()


def own_logprobs(policy: Policy, rollout: Rollout, temperature: float = 1.0) -> np.ndarray:
    logits = own_logits(policy, [*rollout.prompt_ids, *rollout.response_ids]) / temperature
    first = len(rollout.prompt_ids) + rollout.branch_at
    chosen = torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None]
    return logits[first - 1 : -1].log_softmax(-1).gather(1, chosen)[:, 0].numpy()


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
