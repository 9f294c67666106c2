"""Values of tokens against naive forms in float64: the model's own forward pass, autograd, and counting."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.analyse import forward
from outrider.analyse.arguments import TokensAnalysis
from outrider.analyse.forward import TokenValues, head_values, token_values
from outrider.analyse.shift_command import shift_table
from outrider.analyse.tokens_command import token_table
from outrider.model.attention import use_plans
from outrider.model.load import Policy
from outrider.model.nucleus import nucleus_sizes
from outrider.record import Mode, Rollout
from small import VOCABULARY, random_policy

MASSES = (0.5, 0.95)


def naive(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, y: int, t: float) -> dict[str, float]:
    """One token, by the definitions: the gradient is autograd's, the nucleus is grown token by token."""
    weight = weight.detach().clone().requires_grad_()
    logps = (torch.nn.functional.linear(h, weight, bias) / t).log_softmax(-1)
    (gradient,) = torch.autograd.grad(-logps[y], weight)
    probs = logps.detach().exp().tolist()
    best = max((p, -v) for v, p in enumerate(probs) if v != y)
    error = [(v == y) - p for v, p in enumerate(probs)]
    return {
        "logprobs": float(logps[y].detach()),
        "entropies": -sum(p * np.log(p) for p in probs),
        "error_norms": np.sqrt(sum(e * e for e in error)),
        "hidden_norms": float(h.norm()),
        "gradient_norms": float(gradient.norm()),
        "alternatives": -best[1],
        "alternative_logprobs": np.log(best[0]),
        "branching_TM": [nucleus(probs, mass) for mass in MASSES],
    }


def nucleus(probs: list[float], mass: float) -> int:
    held, size = 0.0, 0
    for p in sorted(probs, reverse=True):
        if held >= mass:
            break
        held, size = held + p, size + 1
    return size


def rollout(prompt: list[int], prefix: list[int], own: list[int], member: int = 0, **more: object) -> Rollout:
    ids = [np.array(part, np.int32) for part in (prompt, own, prefix)]
    return Rollout("p", "g", member, ids[0], ids[1], np.full(len(own), -0.5, np.float32), ids[2], **more)


ROLLOUTS = [
    rollout([1, 5, 9], [], [7, 4, 30, 2]),
    rollout([1, 8], [], [], 1),
    rollout([1, 5, 9], [7, 4], [11], 2),
    rollout([1], [], [3, 3, 3, 31, 0, 12, 6, 2], 3),
]


@pytest.mark.parametrize("chunk", [1, 40, 10**6])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_of_the_head_are_the_naive_ones_whatever_the_chunk(
    chunk: int, temperature: float, with_bias: bool
) -> None:
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((9, 6), (17, 6), (17,)))
    targets = torch.randint(0, 17, (9,))
    used = bias if with_bias else None
    found = TokenValues(*head_values(hidden, weight, used, targets, temperature, MASSES, chunk))
    for n in range(9):
        for name, value in naive(hidden[n], weight, used, int(targets[n]), temperature).items():
            assert getattr(found, name)[n].tolist() == pytest.approx(value, rel=1e-11), name


@pytest.mark.parametrize("family", ["qwen2", "llama"])
@pytest.mark.parametrize("micro_tokens", [1, 9, 4096])
def test_values_of_rollouts_are_those_of_transformers_and_autograd(family: str, micro_tokens: int) -> None:
    policy = random_policy(family)
    plain = copy.deepcopy(policy.model).double()
    use_plans(policy.model.double())
    found = token_values(policy, ROLLOUTS, 0.8, MASSES, micro_tokens)
    for r, values in zip(ROLLOUTS, found, strict=True):
        assert values.branching_TM.shape == (len(r.token_ids), 2)
        ids = torch.tensor([[*r.prompt_ids, *r.response_ids]])
        with torch.no_grad():
            hidden = plain.get_decoder()(input_ids=ids).last_hidden_state[0]
        start = len(r.prompt_ids) + r.branch_at
        for n, y in enumerate(r.token_ids.tolist()):
            for name, value in naive(hidden[start + n - 1], plain.lm_head.weight, None, y, 0.8).items():
                assert getattr(values, name)[n].tolist() == pytest.approx(value, rel=1e-9), name


def test_no_more_logits_than_a_chunk_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, linear = [], torch.nn.functional.linear

    def noted(*arguments: torch.Tensor) -> torch.Tensor:
        result = linear(*arguments)
        sizes.append(result.numel())
        return result

    monkeypatch.setattr(forward.torch.nn.functional, "linear", noted)
    head_values(torch.randn(50, 4), torch.randn(30, 4), None, torch.zeros(50, dtype=torch.int64), chunk=100)
    assert max(sizes) == 90  # three tokens of 30
    assert sum(sizes) == 50 * 30


def test_the_error_of_an_almost_certain_token_keeps_its_precision() -> None:
    """In float32, 1 - p would be 0: p differs from 1 by 2e-9. The two others have 1e-9 each, so the vector of errors is
    (2e-9, 1e-9, 1e-9) and its norm the root of six times 1e-9."""
    logits = torch.tensor([[0.0], [np.log(1e-9)], [np.log(1e-9)]], dtype=torch.float32)
    values = TokenValues(*head_values(torch.ones(1, 1), logits, None, torch.tensor([0])))
    assert float(values.error_norms) == pytest.approx(np.sqrt(6) * 1e-9, rel=1e-5)
    assert int(values.alternatives) == 1  # the lower of two equals


def test_an_impossible_token_has_no_nan() -> None:
    bias = torch.tensor([0.0, 0.0, float("-inf")])
    values = TokenValues(*head_values(torch.ones(2, 1), torch.zeros(3, 1), bias, torch.tensor([0, 2]), masses=[0.9]))
    assert values.entropies.tolist() == pytest.approx([np.log(2)] * 2)
    assert values.error_norms.tolist() == pytest.approx([np.sqrt(0.5), np.sqrt(1.5)])
    assert values.alternatives.tolist() == [1, 0]
    assert values.branching_TM.tolist() == [[2], [2]]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=12).filter(any), st.integers(1, 63))
def test_a_nucleus_is_the_smallest_set_with_the_mass(weights: list[int], mass: int) -> None:
    """Exact: probabilities and masses are multiples of 1/64, sums in integers. Masses of whole sets are tried."""
    counts = [64 * w // sum(weights) for w in weights]
    counts[0] += 64 - sum(counts)
    ordered = sorted(counts, reverse=True)
    masses = {mass, *(int(held) for held in np.cumsum(ordered) if held < 64)}
    for held, size in zip(masses, nucleus_sizes(torch.tensor([counts]) / 64, [m / 64 for m in masses])[0], strict=True):
        assert sum(ordered[:size]) >= held
        assert sum(ordered[: size - 1]) < held


@pytest.mark.parametrize(
    ("probs", "mass", "size"),
    [
        ([0.25] * 4, 0.75, 3),  # the boundary token closes the set exactly
        ([0.25] * 4, 0.76, 4),
        ([0.1] * 10, 0.9, 9),
        ([0.5, 0.3, 0.2], 0.8, 2),  # through logarithms, 0.5 and 0.3 come to a hair less than 0.8
        ([0.7, 0.2, 0.1], 0.9, 2),
        ([0.96, 0.04], 0.95, 1),
        ([0.94, 0.06], 0.95, 2),
        ([0.001] * 1000, 0.95, 950),
    ],
)
def test_ties_and_boundaries_of_a_nucleus(probs: list[float], mass: float, size: int) -> None:
    for dtype in (torch.float32, torch.float64):
        through_logarithms = torch.tensor([probs], dtype=dtype).log().softmax(-1)
        assert nucleus_sizes(through_logarithms, [mass]).tolist() == [[size]]


def values_of(rollouts: list[Rollout], seed: int = 0) -> list[TokenValues]:
    policy = Policy(random_policy(seed=seed).model, random_policy().tokenizer)
    use_plans(policy.model)
    return token_values(policy, rollouts, masses=(0.9,))


def test_a_table_has_a_row_for_every_token_that_was_sampled() -> None:
    observed = replace(ROLLOUTS[0], trainable_T=np.array([True, False, False, True]), advantage=-0.5)
    other = replace(ROLLOUTS[2], mode=Mode(0.7))
    rollouts = [observed, ROLLOUTS[1], other, ROLLOUTS[3]]
    values = values_of(rollouts)
    table = token_table("train", 7, rollouts, values, TokensAnalysis(masses=[0.9]))
    columns = table.to_pydict()
    assert columns["member"] == [0, 0, 2, *[3] * 8]
    assert columns["position"] == [0, 3, 2, *range(8)]  # the branch begins after its parent's two tokens
    assert columns["length"] == [4, 4, 3, *[8] * 8]
    assert columns["token_id"] == [7, 2, 11, 3, 3, 3, 31, 0, 12, 6, 2]
    assert columns["advantage"] == [-0.5, -0.5, *[None] * 9]
    assert columns["sampled_logprob"] == [-0.5, -0.5, None, *[-0.5] * 8]  # drawn at another temperature
    assert set(columns["step"]) == {7}
    assert set(columns["split"]) == {"train"}
    rows = np.concatenate([values[0].entropies[[0, 3]], values[2].entropies, values[3].entropies])
    assert columns["entropy"] == rows.astype(np.float32).tolist()
    sizes = np.concatenate(
        [values[0].branching_TM[[0, 3], 0], values[2].branching_TM[:, 0], values[3].branching_TM[:, 0]]
    )
    assert columns["branching_90"] == sizes.tolist()
    assert max(sizes) < VOCABULARY


def test_a_shift_is_the_difference_of_two_probabilities() -> None:
    rollouts = [replace(ROLLOUTS[3], trainable_T=np.arange(8) > 2)]
    before, after = values_of(rollouts, seed=0), values_of(rollouts, seed=1)
    table = shift_table("evaluate", 0, rollouts, before, after)
    p, q = (np.exp(v[0].logprobs[3:].astype(np.float64)) for v in (before, after))
    assert np.abs(table["shift"].to_numpy() - (q - p)).max() < 1e-7
    assert np.abs(q - p).max() > 0.01
    assert table["logprob_after"].to_pylist() == after[0].logprobs[3:].tolist()
    assert table["gradient_norm"].to_pylist() == before[0].gradient_norms[3:].tolist()
    nothing = shift_table("evaluate", 0, rollouts, before, before)
    assert set(nothing["shift"].to_pylist()) == {0.0}
