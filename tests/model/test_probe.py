"""Step attention against the attention weights that transformers' own eager implementation returns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from outrider.model.attention import use_plans
from outrider.record import Rollout
from small import random_model, random_policy


def rollout(prompt: int, prefix: int, own: int, seed: int = 0) -> Rollout:
    ids = np.random.default_rng(seed).integers(3, 32, prompt + prefix + own).astype(np.int32)
    return Rollout(
        problem_id="p",
        group_id="g",
        member=0,
        prompt_ids=ids[:prompt],
        prefix_ids=ids[prompt : prompt + prefix],
        token_ids=ids[prompt + prefix :],
        logprobs_T=np.zeros(own, np.float32),
        parent="g/7" if prefix else None,
    )


def by_hand(family: str, one: Rollout, starts: list[int], **changes: object) -> np.ndarray:
    """Every pair of steps, every head, one mean over the full weights after another."""
    model = random_model(family, **changes)
    model.set_attn_implementation("eager")
    ids = torch.from_numpy(np.concatenate([one.prompt_ids, one.response_ids]).astype(np.int64))[None]
    with torch.no_grad():
        layers = model(input_ids=ids, output_attentions=True).attentions
    ends = [len(one.prompt_ids) + at for at in [*starts, len(one.response_ids)]]
    steps = list(pairwise(ends))
    heads = [weights for layer in layers for weights in layer[0].double().numpy()]
    return np.array([[[h[a:b, c:d].mean() for c, d in steps] for a, b in steps] for h in heads])


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize(
    ("shape", "starts"),
    [
        ((4, 0, 11), [0, 3, 4, 9]),
        ((1, 5, 6), [0, 2, 7, 8, 9, 10]),
        ((3, 0, 5), [0]),
        ((2, 0, 1), [0]),
    ],
)
def test_step_attention_is_that_of_the_eager_model(family, shape, starts):
    one = rollout(*shape)
    policy = random_policy(family)
    use_plans(policy.model)
    measured = policy.attention(one, starts)
    expected = by_hand(family, one, starts)
    assert measured.shape == (2 * 4, len(starts), len(starts))
    np.testing.assert_allclose(measured, expected, atol=1e-5)


def test_blocks_of_queries_make_no_difference(monkeypatch):
    """Blocks that end inside of steps, and inside of the prompt."""
    one, starts = rollout(4, 0, 11), [0, 3, 4, 9]
    policy = random_policy("qwen2")
    use_plans(policy.model)
    whole = policy.attention(one, starts)
    monkeypatch.setattr("outrider.model.probe._ROWS", 3)
    np.testing.assert_allclose(policy.attention(one, starts), whole, atol=1e-6)


def test_a_sliding_window_hides_what_is_far():
    changes = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
    one, starts = rollout(4, 0, 11), [0, 3, 4, 9]
    policy = random_policy("qwen2", **changes)
    use_plans(policy.model)
    measured = policy.attention(one, starts)
    np.testing.assert_allclose(measured, by_hand("qwen2", one, starts, **changes), atol=1e-5)
    assert (measured[4:, 3, 0] == 0).all()  # the second layer, whose window ends before the first step
    assert (measured[:4, 3, 0] > 0).all()


def test_no_step_looks_ahead_and_the_prompt_takes_its_share():
    policy = random_policy("llama")
    use_plans(policy.model)
    measured = policy.attention(rollout(3, 0, 8), [0, 2, 4, 6])
    assert (measured[:, *np.triu_indices(4, 1)] == 0).all()
    assert (2 * measured.sum(-1) < 1).all()  # two tokens per step; what is missing from 1 went to the prompt


def test_measuring_leaves_the_policy_as_it_was():
    policy = random_policy("qwen2")
    use_plans(policy.model)
    before = {key: value.clone() for key, value in policy.model.state_dict().items()}
    policy.attention(rollout(3, 0, 8), [0, 2])
    assert all(torch.equal(before[key], value) for key, value in policy.model.state_dict().items())
    assert not policy.model.training
