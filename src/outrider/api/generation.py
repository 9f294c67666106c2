"""Samples responses to the caller's prompts from a run's policy."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.errors import UserError
from outrider.model.options import PolicyOptions
from outrider.record import Problem, SampleRequest
from outrider.sample.options import SampleOptions


def generate(
    model: str, policy: PolicyOptions, sample: SampleOptions, prompts: Sequence[str], n: int, seed: int
) -> list[list[str]]:
    """Return ``n`` responses to each prompt, sampled from the policy as in a run; see :meth:`outrider.Run.generate`."""
    if isinstance(prompts, str):
        raise UserError("prompts is one text: give a list of texts")
    if n < 1:
        raise UserError(f"n is {n}: at least one response is drawn for a prompt")
    from outrider.model.load import load_policy  # imported here, since it imports PyTorch
    from outrider.sample.local import LocalSampler
    from outrider.sample.ready import ready

    loaded, _ = ready(load_policy(model, policy), sample.path)
    problems = [Problem(f"prompt-{i}", prompt) for i, prompt in enumerate(prompts)]
    requests = [
        SampleRequest(problem, n=n, prompt_ids=loaded.encode(problem), group_id=f"generate:{problem.id}", seed=seed)
        for problem in problems
    ]
    texts = iter([rollout.text for rollout in LocalSampler(loaded, sample).sample(requests)])
    return [[next(texts) for _ in range(n)] for _ in problems]
