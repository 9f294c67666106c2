"""One family through folder, load, check, sampler and learner, held against its own forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from families.configs import tiny
from outrider.errors import UserError
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.attention import use_own
from outrider.model.load import Policy, load_policy
from outrider.model.lora import adapter_outputs
from outrider.model.options import LoraOptions, TrainedPolicyOptions
from outrider.model.tiny import character_tokenizer
from outrider.objective.policy_loss import ImitationLoss
from outrider.record import Rollout
from outrider.record.row import WeightedRow
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from small import branch_of, request

TEMPERATURE = 0.7
PROMPTS = ([5, 6, 7, 8, 9, 10, 11, 12, 13], [14], [20, 21, 22])
LORA = TrainedPolicyOptions(lora=LoraOptions(rank=2, alpha=4))


class Measured(NamedTuple):
    """A row of the table.

    Attributes:
        path: fused, packed, plain, or refused.
        difference: the largest of log-probabilities, sampler's or learner's, from those of the model's own forward
            pass over each rollout alone; None where the family is refused.
        lora: whether an adapter on all linear layers runs as exactly; the reason where not.
        low: the mean difference of log-probabilities between a sampler in bfloat16 and a learner in float32.
        remark: why no faster path, or none at all, is taken; what else is to be known.
    """

    family: str
    model: str
    path: str
    difference: float | None
    lora: str
    low: float | None
    remark: str


def measure(family: str, folder: Path) -> Measured:
    """Measure a family; its folder is written, in bfloat16, and left there."""
    model = tiny(family)
    model.to(torch.bfloat16).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    name = type(model).__name__
    try:
        policy, told = ready(load_policy(str(folder)))
    except UserError as refusal:
        return Measured(family, name, "refused", None, "", None, _reason(str(refusal)))
    assert policy.model.dtype is torch.float32, "a folder in bfloat16 is trained in float32"
    oracle = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    difference = farthest(policy, oracle)
    remarks = told.split("; ")[2:]
    try:
        low = _low(folder)
    except UserError as refusal:
        low, remarks = None, [*remarks, f"refused in bfloat16: {_reason(str(refusal))}"]
    remark = "; ".join(remarks)
    return Measured(family, name, policy.path.name, difference, _with_adapter(folder), low, remark)


def farthest(policy: Policy, oracle: PreTrainedModel) -> float:
    """The largest difference of log-probabilities from the oracle's, in what was sampled and in what is trained on."""
    rollouts = sampled(policy)
    rows = [_row(rollout) for rollout in rollouts]
    trained = learner(policy).logprobs(rows)
    most = 0.0
    for rollout, learned in zip(rollouts, trained, strict=True):
        want = own_logprobs(oracle, rollout)
        most = max(most, np.abs(rollout.logprobs_T - want).max(), np.abs(learned - want).max())
    return float(most)


def sampled(policy: Policy) -> list[Rollout]:
    """Ragged prompts, several members, and branches that continue a prefix, at a temperature that is not 1."""
    sampler = LocalSampler(policy, SampleOptions(max_tokens=11, temperature=TEMPERATURE))
    first = sampler.sample([request(f"p{i}", prompt, n=3) for i, prompt in enumerate(PROMPTS)])
    parents = [rollout for rollout in first if len(rollout.token_ids) > 3][:3]
    return first + sampler.sample([branch_of(parent, 3, 2, first_member=3) for parent in parents])


def own_logprobs(oracle: PreTrainedModel, rollout: Rollout) -> np.ndarray:
    """Of the sampled tokens, by a plain forward pass over the one sequence."""
    context = len(rollout.prompt_ids) + len(rollout.prefix_ids)
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.prefix_ids, *rollout.token_ids]])
    with torch.no_grad():
        logps = (oracle(input_ids=ids, use_cache=False).logits[0, context - 1 : -1] / TEMPERATURE).log_softmax(-1)
    return logps.gather(1, torch.from_numpy(rollout.token_ids).long()[:, None])[:, 0].numpy()


def learner(policy: Policy) -> LocalLearner:
    return LocalLearner(policy.model, LearnOptions(), ImitationLoss(), path=policy.path)


def shaken(policy: Policy) -> Policy:
    """With an adapter that changes outputs."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter_outputs(policy.model).values():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return policy


def adapted(folder: Path, targets: str | Sequence[str] = "all-linear") -> float:
    """The largest difference with an adapter, from a twin that was never made ready.

    Raises:
        AssertionError: the adapter changes nothing, so nothing would be seen.
    """
    options = LORA.model_copy(update={"lora": LORA.lora.model_copy(update={"targets": targets})})
    policy = ready(shaken(load_policy(str(folder), options)))[0]
    twin = shaken(load_policy(str(folder), options)).model
    use_own(twin)
    ids = torch.arange(5, 15)[None]
    with torch.no_grad():
        bare = load_policy(str(folder)).model(input_ids=ids).logits
        assert (twin(input_ids=ids).logits - bare).abs().max() > 0.02
    return farthest(policy, twin)


def _with_adapter(folder: Path) -> str:
    try:
        difference = adapted(folder)
    except UserError as refusal:
        return f"no: {_reason(str(refusal))}"
    return "yes" if difference < 1e-3 else f"no: differs by {difference:.1e}"


def _low(folder: Path) -> float:
    """The same draws for sampler and learner; the sampler's products are in bfloat16."""
    options = TrainedPolicyOptions(dtype="bfloat16")
    rollouts = sampled(ready(load_policy(str(folder), options))[0])
    exact = learner(ready(load_policy(str(folder)))[0]).logprobs([_row(rollout) for rollout in rollouts])
    gaps = [np.abs(rollout.logprobs_T - learned) for rollout, learned in zip(rollouts, exact, strict=True)]
    return float(np.concatenate(gaps).mean())


def _row(rollout: Rollout) -> WeightedRow:
    own = len(rollout.token_ids)
    context = np.concatenate([rollout.prompt_ids, rollout.prefix_ids]).astype(np.int32)
    nothing = np.zeros(own, np.float32)
    return WeightedRow(
        context, rollout.token_ids, nothing, nothing, np.ones(own, np.bool_), "main", "g", mode=rollout.mode
    )


def _reason(sentence: str) -> str:
    """What is in the parentheses of a refusal, or all of it."""
    return sentence.partition("(")[2].rpartition(")")[0] if "no path reproduces" in sentence else sentence
