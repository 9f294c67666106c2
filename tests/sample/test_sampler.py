"""The local sampler: parity with transformers, independence of the batch, stop reasons, truncation, branches."""

from __future__ import annotations

import copy
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from outrider.errors import UserError
from outrider.model.load import Policy, load_policy
from outrider.record import SamplingParams, StopReason, group_id
from outrider.sample.draw import draw, truncated
from outrider.sample.fused import supports
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.screen.progress import Progress
from outrider.tasks.countdown import Countdown
from outrider.train.metrics import step_metrics
from small import branch_of, group, params, random_model, random_policy, request

FAMILIES = ("qwen2", "qwen3", "llama")
PROMPTS = [[1, 5, 9], [1, 7], [1, 5, 9, 12, 14, 3, 8], [1, 30, 30, 4]]


def sampler(policy: Policy, path: str = "auto", rows: int = 64, **values: object) -> LocalSampler:
    return LocalSampler(ready(policy, path)[0], SampleOptions(rows=rows, **{"max_tokens": 24, **values}))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("path", ["fused", "packed", "plain"])
@pytest.mark.parametrize("prompts", [PROMPTS, [[1], [5]]], ids=["several", "of_one_token"])
def test_logprobs_and_entropies_are_those_of_transformers(family: str, path: str, prompts: list[list[int]]) -> None:
    policy = random_policy(family)
    plain = copy.deepcopy(policy.model)
    requests = [request(f"p{i}", prompt, n=3) for i, prompt in enumerate(prompts)]
    for rollout in sampler(policy, path).sample(requests):
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.token_ids]])
        with torch.no_grad():
            logps = plain(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1].log_softmax(-1)
        chosen = logps.gather(1, torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None])[:, 0]
        assert np.abs(rollout.logprobs_T - chosen.numpy()).max() < 1e-5
        entropies = -(logps.exp() * logps).sum(-1)
        assert np.abs(rollout.entropies_T - entropies.numpy()).max() < 1e-5


@pytest.mark.parametrize("window", [3, 5])
def test_sliding_window_is_kept_on_the_generic_path(window: int) -> None:
    changes = {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0}
    policy = random_policy("qwen2", **changes)
    assert not supports(policy.model)
    plain = copy.deepcopy(policy.model)
    plain.set_attn_implementation("eager")
    rollout = max(sampler(policy).sample([request("p", PROMPTS[2], n=8)]), key=lambda r: len(r.token_ids))
    assert len(rollout.token_ids) > window
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.token_ids]])
    with torch.no_grad():
        logps = plain(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1].log_softmax(-1)
    chosen = logps.gather(1, torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None])[:, 0]
    assert np.abs(rollout.logprobs_T - chosen.numpy()).max() < 1e-5


def test_a_rollout_does_not_depend_on_batch_order_or_group_size() -> None:
    """On the shipped base; near-ties may differ, so they are counted, and there are next to none."""
    task = Countdown()
    policy = load_policy("base:countdown")
    problems = task.heldout(24)

    def ask(chosen: list[int], n: int) -> list:
        return [request(problems[i].id, policy.encode(problems[i]).tolist(), n=n, seed=3) for i in chosen]

    long = {"max_tokens": 96}
    alone = {r.id: r for r in sampler(policy, rows=7, **long).sample(ask(list(range(24)), 2))}
    together = sampler(policy, rows=512, **long).sample(ask(list(reversed(range(24))), 12))
    compared = [(alone[r.id], r) for r in together if r.id in alone]
    assert len(compared) == 48
    different = sum(not np.array_equal(a.token_ids, b.token_ids) for a, b in compared)
    assert different <= 1


def test_members_of_a_group_differ_and_seeds_repeat() -> None:
    policy = random_policy()
    first = sampler(policy).sample([request("p", PROMPTS[0], n=16, seed=1)])
    again = sampler(policy).sample([request("p", PROMPTS[0], n=16, seed=1)])
    other = sampler(policy).sample([request("p", PROMPTS[0], n=16, seed=2)])
    assert [r.token_ids.tolist() for r in first] == [r.token_ids.tolist() for r in again]
    assert len({tuple(r.token_ids) for r in first}) > 8
    assert [r.token_ids.tolist() for r in first] != [r.token_ids.tolist() for r in other]
    assert len({r.seed for r in first}) == 16


@pytest.mark.parametrize("path", ["fused", "packed", "plain"])
def test_each_distinct_context_is_prefilled_once(path: str) -> None:
    engine = sampler(random_policy(), path, rows=4)
    root = engine.sample([request("p", PROMPTS[2], n=6), request("q", PROMPTS[2], n=3)])[0]
    assert engine.prefilled_tokens == len(PROMPTS[2])  # one context, though two requests and three waves
    assert len(root.token_ids) > 2
    engine.prefilled_tokens = 0
    engine.sample([branch_of(root, 2, 3, 9), branch_of(root, 2, 2, 12), branch_of(root, 1, 2, 14)])
    assert engine.prefilled_tokens == 2 * len(PROMPTS[2]) + 3


@pytest.mark.parametrize("path", ["fused", "packed", "plain"])
def test_a_branch_continues_its_prefix_exactly(path: str) -> None:
    policy = random_policy(seed=1)
    plain = copy.deepcopy(policy.model)
    engine = sampler(policy, path)
    root = max(engine.sample([request("p", PROMPTS[0], n=8)]), key=lambda r: len(r.token_ids))
    branches = engine.sample([branch_of(root, 3, 6, 8, stream="branch")])
    for branch in branches:
        assert branch.parent == root.id
        assert branch.branch_at == 3
        assert branch.prefix_ids.tolist() == root.token_ids[:3].tolist()
        assert branch.response_text == branch.prefix_text + branch.text
        assert len(branch.response_ids) <= 24
        ids = torch.tensor([[*branch.prompt_ids, *branch.response_ids]])
        start = len(branch.prompt_ids) + 3
        with torch.no_grad():
            logps = plain(input_ids=ids).logits[0, start - 1 : -1].log_softmax(-1)
        chosen = logps.gather(1, torch.from_numpy(branch.token_ids.astype(np.int64))[:, None])[:, 0]
        assert np.abs(branch.logprobs_T - chosen.numpy()).max() < 1e-5


def test_stop_reasons() -> None:
    policy = random_policy(max_position_embeddings=16)
    rollouts = sampler(policy, max_tokens=5).sample([request("p", PROMPTS[0], n=64)])
    assert {r.stop for r in rollouts} == {StopReason.STOP, StopReason.LENGTH}
    for r in rollouts:
        assert (r.stop is StopReason.STOP) == (r.token_ids[-1] == 2)
        assert 2 not in r.token_ids[:-1]
        assert r.stop is StopReason.STOP or len(r.token_ids) == 5
        assert r.truncated == (r.stop is not StopReason.STOP)
    full = sampler(policy, max_tokens=40).sample([request("p", PROMPTS[2], n=64)])
    cut = [r for r in full if r.stop is StopReason.CONTEXT]
    assert cut
    assert all(len(r.prompt_ids) + len(r.token_ids) == 16 for r in cut)
    assert StopReason.LENGTH not in {r.stop for r in full}


def test_a_token_that_ends_exactly_at_the_limit_is_a_stop() -> None:
    """Ending by the end token on the last allowed position is no truncation."""
    rollouts = sampler(random_policy(), max_tokens=3).sample([request("p", PROMPTS[0], n=200)])
    on_the_edge = [r for r in rollouts if len(r.token_ids) == 3 and r.token_ids[-1] == 2]
    assert on_the_edge
    assert all(r.stop is StopReason.STOP for r in on_the_edge)


def test_different_counts_and_parameters_in_one_call() -> None:
    requests = [
        request("a", PROMPTS[0], n=1),
        request("b", PROMPTS[1], n=5, params=params(temperature=0.0)),
        request("c", PROMPTS[0], n=3, params=params(max_tokens=2)),
    ]
    rollouts = sampler(random_policy()).sample(requests)
    assert [r.problem_id for r in rollouts] == ["a"] + ["b"] * 5 + ["c"] * 3
    assert [r.member for r in rollouts] == [0, 0, 1, 2, 3, 4, 0, 1, 2]
    assert len({tuple(r.token_ids) for r in rollouts[1:6]}) == 1  # greedy
    assert all(len(r.token_ids) <= 2 for r in rollouts[6:])
    assert sampler(random_policy()).sample([]) == []


def test_greedy_is_that_of_transformers() -> None:
    policy = random_policy(seed=4)
    plain = copy.deepcopy(policy.model)
    for path in ("fused", "packed", "plain"):
        rollouts = sampler(policy, path, temperature=0.0).sample([request(str(i), p) for i, p in enumerate(PROMPTS)])
        for rollout, prompt in zip(rollouts, PROMPTS, strict=True):
            out = plain.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24, pad_token_id=0)
            assert rollout.token_ids.tolist() == out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("path", ["fused", "packed", "plain"])
def test_how_often_one_looks_for_ended_rows_changes_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU decodes ended rows on for a few tokens, and past the end of all of them."""
    asked = [request(str(i), prompt, n=6) for i, prompt in enumerate(PROMPTS)]
    often = sampler(random_policy(), path).sample(asked)
    for every in (5, 1000):
        monkeypatch.setattr("outrider.sample.wave.looks_every", lambda device, every=every: every)
        for one, other in zip(often, sampler(random_policy(), path).sample(asked), strict=True):
            assert one.token_ids.tolist() == other.token_ids.tolist()
            assert one.stop is other.stop
            assert np.abs(one.logprobs_T - other.logprobs_T).max() < 1e-5
    assert len({len(rollout.token_ids) for rollout in often}) > 3, "some end early"


def test_new_weights_are_seen_when_they_are_taken() -> None:
    policy, other = random_policy(seed=0), random_model("qwen2", seed=9)
    engine = sampler(policy)
    before = engine.sample([request("p", PROMPTS[0], n=8)])
    policy.model.load_state_dict(other.state_dict())
    engine.take(7, lambda folder: None)
    after = engine.sample([request("p", PROMPTS[0], n=8)])
    new = sampler(Policy(other, policy.tokenizer)).sample([request("p", PROMPTS[0], n=8)])
    assert [r.token_ids.tolist() for r in after] == [r.token_ids.tolist() for r in new]
    assert [r.token_ids.tolist() for r in after] != [r.token_ids.tolist() for r in before]
    assert {r.policy_version for r in after} == {7}


def test_without_entropies_surprisal_estimates_them() -> None:
    """Both are means over the same tokens, so over many they meet; only one of them is shown."""
    drawn = sampler(random_policy()).sample([request("p", PROMPTS[0], n=400)])
    known = step_metrics([group(drawn)], 0)
    assert "surprisal" not in known
    unknown = step_metrics([group([replace(rollout, entropies_T=None) for rollout in drawn])], 0)
    assert np.isnan(unknown["entropy"])
    tokens = np.concatenate([rollout.logprobs_T for rollout in drawn])
    assert abs(unknown["surprisal"] - known["entropy"]) < 4 * tokens.std() / len(tokens) ** 0.5
    progress = Progress(1, "steps", console=Console(file=(shown := io.StringIO()), width=80))
    with progress:
        progress.stats(unknown)
    assert f"surprisal {unknown['surprisal']:.3f}" in shown.getvalue()
    assert "entropy" not in shown.getvalue()


def test_a_context_without_room_is_refused_by_name() -> None:
    engine = sampler(random_policy(max_position_embeddings=4))
    with pytest.raises(UserError, match="problem 'p': 7 tokens so far leave no room in the"):
        engine.sample([request("p", PROMPTS[2])])
    with pytest.raises(UserError, match="has no fused path"):
        sampler(random_policy("qwen2", use_sliding_window=True, sliding_window=3, max_window_layers=0), "fused")


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, float("-inf"), 2.0]]).repeat(40_000, 1)
    uniforms = (torch.arange(40_000, dtype=torch.float64) + 0.5) / 40_000  # a perfect grid: no sampling noise
    drawn = draw(logits, uniforms, SamplingParams(temperature=0.7))
    share = torch.bincount(drawn.ids, minlength=5) / 40_000
    expected = (logits[0] / 0.7).softmax(-1)
    assert (share - expected).abs().max() < 1e-4
    assert share[3] == 0
    assert torch.allclose(drawn.logprobs, expected.log()[drawn.ids], atol=1e-6)
    assert torch.isfinite(drawn.entropies).all()


@pytest.mark.parametrize("uniform", [2.0**-54, 1 - 2.0**-53])
def test_extreme_uniforms_never_draw_an_impossible_token(uniform: float) -> None:
    logits = torch.tensor([[float("-inf"), 0.0, 1.0, float("-inf")]])
    drawn = draw(logits, torch.tensor([uniform], dtype=torch.float64), SamplingParams())
    assert drawn.ids.item() in (1, 2)


def test_truncation_keeps_the_smallest_set_with_the_mass() -> None:
    probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]])
    assert truncated(probs, 0.5, 0).nonzero()[:, 1].tolist() == [1, 3]  # 0.4 is not enough, 0.7 is
    assert truncated(probs, 0.35, 0).nonzero()[:, 1].tolist() == [1]
    assert truncated(probs, 1.0, 3).nonzero()[:, 1].tolist() == [1, 2, 3]
    assert truncated(probs, 0.5, 1).nonzero()[:, 1].tolist() == [1]
    assert truncated(probs, 1.0, 0) is probs


def test_truncated_sampling_reports_untruncated_logprobs() -> None:
    policy = random_policy()
    rollouts = sampler(policy, top_k=1, temperature=0.8).sample([request("p", PROMPTS[0], n=2)])
    assert rollouts[0].token_ids.tolist() == rollouts[1].token_ids.tolist()  # one candidate a token
    assert rollouts[0].mode == (0.8, 1.0, 0)
    assert (rollouts[0].logprobs_T < 0).all()  # a renormalised single candidate would have probability 1


def test_group_ids_name_step_and_problem() -> None:
    problem = Countdown().train(0)
    assert group_id(3, problem) != group_id(4, problem)
