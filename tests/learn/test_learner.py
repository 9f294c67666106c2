"""The learner: packing, split invariance, skipped rows, non-finite steps, schedules, imitation."""

from __future__ import annotations

import copy
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel

from outrider.learn.batching import cut_by_group, micro_batches, split_by_tokens
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.attention import use_plans
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import ImitationLoss, PolicyLoss
from outrider.objective.weights import token_weights
from outrider.record import Mode
from outrider.record.row import WeightedRow, imitation_row
from policy_rows import STREAMS, gradient, learner
from policy_rows import ragged_rows as rows
from policy_rows import row as given_row
from small import random_model


def naive_gradient(model: PreTrainedModel, batch: list[WeightedRow], aggregate: str) -> torch.Tensor:
    """Each row alone through transformers' own forward pass and plain autograd."""
    model = copy.deepcopy(model)
    objective = ObjectiveOptions(streams=STREAMS, aggregate=aggregate)
    total = torch.zeros((), dtype=torch.float64)
    for row, weight in zip(batch, token_weights(batch, objective, 16), strict=True):
        ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))[None]
        logps = model(input_ids=ids).logits[0, len(row.context_ids) - 1 : -1].log_softmax(-1)
        logprobs = logps.gather(1, ids[0, len(row.context_ids) :, None])[:, 0]
        ratio = (logprobs - torch.from_numpy(row.old_logprobs_N.astype(np.float64))).exp()
        advantages = torch.from_numpy(row.advantages_N)
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        total = total - weight * (torch.from_numpy(row.trainable_N) * gain).sum()
    total.backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean", "constant"])
def test_packed_gradient_is_that_of_rows_one_by_one(family: str, aggregate: str) -> None:
    model = random_model(family).double()
    ours = gradient(model, rows(), {"aggregate": aggregate})
    assert torch.allclose(ours, naive_gradient(model, rows(), aggregate), rtol=1e-9, atol=1e-12)


def test_skipped_rows_change_no_denominator() -> None:
    """Rows without advantage are not computed, but removing them from the batch is another loss."""
    model = random_model("qwen2").double()
    batch = rows()
    live = [row for row in batch if row.has_signal]
    made = learner(copy.deepcopy(model))
    assert made.update(batch).metrics["rows_skipped"] == len(batch) - len(live) > 0
    assert not torch.allclose(gradient(model, batch, {}), gradient(model, live, {}), rtol=1e-3)


def test_logprobs_are_those_of_the_policy_in_row_order() -> None:
    model = random_model("llama")
    plain = copy.deepcopy(model)
    batch = rows()
    for row, values in zip(batch, learner(model, micro_tokens=40).logprobs(batch), strict=True):
        ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))[None]
        with torch.no_grad():
            logps = plain(input_ids=ids).logits[0, len(row.context_ids) - 1 : -1].log_softmax(-1)
        expected = logps.gather(1, ids[0, len(row.context_ids) :, None])[:, 0].numpy()
        assert np.abs(values - expected).max() < 1e-5


def test_a_batch_without_signal_moves_nothing_and_says_so() -> None:
    model = random_model("qwen2")
    made = learner(model)
    made.update(rows())  # so that AdamW has momentum that could move on
    before = copy.deepcopy(model.state_dict())
    silent = [row for row in rows() if not row.has_signal]
    assert made.update(silent).metrics == {"rows_skipped": len(silent), "skipped_no_signal": 1.0}
    assert made.update([]).metrics.get("updates") is None
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_non_finite_gradient_moves_nothing_and_is_counted() -> None:
    model = random_model("qwen2")
    made = learner(model)
    before = copy.deepcopy(model.state_dict())
    broken = rows()
    broken[1].advantages_N[:] = np.inf
    assert made.update(broken).metrics["skipped_nonfinite"] == 1.0
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert made.optimizer_steps == 0
    assert "skipped_nonfinite" not in made.update(rows()).metrics


def test_kl_at_the_reference_is_zero_and_pulls_back_afterwards() -> None:
    model = random_model("qwen2")
    made = learner(model, {"kl": 1.0})
    silent = [row for row in rows() if not row.has_signal]
    first = made.update(silent).metrics
    assert first["kl_reference"] == pytest.approx(0.0, abs=1e-7)  # trained on: a KL needs no advantage
    for _ in range(3):
        made.update(rows())
    assert made.update(rows()).metrics["kl_reference"] > 1e-4


def test_rows_of_different_modes_are_refused() -> None:
    first, second = rows(2)
    hot = replace(second, mode=Mode(0.7))
    made = learner(random_model("qwen2"), micro_tokens=1)  # each row in a micro-batch of its own
    for together in (made.logprobs, made.update):
        with pytest.raises(ValueError, match="different or truncated log-probability modes"):
            together([first, hot])
        with pytest.raises(ValueError, match="different or truncated log-probability modes"):
            together([replace(first, mode=Mode(1.0, top_p=0.9))])


def test_temperature_of_the_mode_is_applied() -> None:
    model = random_model("qwen2")
    plain = copy.deepcopy(model)
    row = rows(1)[0]
    hot = replace(row, mode=Mode(0.7))
    ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))[None]
    with torch.no_grad():
        logps = (plain(input_ids=ids).logits[0, len(row.context_ids) - 1 : -1] / 0.7).log_softmax(-1)
    expected = logps.gather(1, ids[0, len(row.context_ids) :, None])[:, 0].numpy()
    assert np.abs(learner(model).logprobs([hot])[0] - expected).max() < 1e-5


RESET = {"kl": {"coef": 0.5, "reset_every": 2}, "entropy": {"target": 3.4}}


@pytest.mark.parametrize("objective", [{}, {"kl": 0.5}, RESET])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_resumed_learner_ends_with_the_same_weights(objective: dict[str, object], steps: int, tmp_path: Path) -> None:
    """Before, at and after a reset of the reference; the model that training began with is loaded anew."""
    begun = random_model("qwen2")
    made = learner(copy.deepcopy(begun), objective)
    for seed in range(steps):
        made.update(rows(seed=seed))
    made.save(tmp_path)
    assert ("reference" in torch.load(tmp_path / "optimizer.pt")) == (objective is RESET)
    other = learner(copy.deepcopy(begun), objective)
    other.load(tmp_path)
    for seed in range(steps, 5):
        mine, others = made.update(rows(seed=seed)), other.update(rows(seed=seed))
        assert mine[:3] == others[:3]
        for one, two in zip(mine.logprobs, others.logprobs, strict=True):
            assert (one is None) == (two is None)
            assert one is None or (one == two).all()
    for mine, theirs in zip(made.parameters, other.parameters, strict=True):
        assert torch.equal(mine, theirs)


def test_a_reset_makes_the_policy_the_reference_and_forgets_momentum() -> None:
    made = learner(random_model("qwen2"), RESET)
    first = made.update(rows(seed=0)).metrics
    assert "reference_resets" not in first
    assert not torch.equal(made.reference[0], made.parameters[0])
    assert made.update(rows(seed=1)).metrics["reference_resets"] == 1.0
    for old, new in zip(made.reference, made.parameters, strict=True):
        assert torch.equal(old, new)
    assert made.optimizer.state == {}
    assert made.update(rows(seed=2)).metrics["kl_reference"] == pytest.approx(0.0, abs=1e-7)
    assert "reference_resets" not in learner(random_model("qwen2"), {"kl": 0.5}).update(rows()).metrics


def test_correction_measures_what_the_sampler_was_off_by() -> None:
    """A sampler that reports all log-probabilities 0.1 too low: every weight is e^0.1, and no ratio has moved."""
    model = random_model("qwen2").double()
    exact = learner(copy.deepcopy(model)).logprobs(rows())
    off = [replace(row, old_logprobs_N=lp - 0.1) for row, lp in zip(rows(), exact, strict=True)]
    metrics = learner(model, {"correction": {"truncate": {"cap": 1.05}}}).update(off).metrics
    assert metrics["sampler_kl_k1"] == pytest.approx(-0.1)
    assert (metrics["weight_p01"], metrics["weight_p99"]) == (pytest.approx(np.exp(0.1)),) * 2
    assert (metrics["weight_clamped"], metrics["importance"]) == (1.0, pytest.approx(1.05))
    assert metrics["kl_old"] == pytest.approx(0.0, abs=1e-15)


CORRECTIONS = {
    "recompute": "recompute",
    "token": {"truncate": {"cap": 1.1}},
    "sequence": {"truncate": {"level": "sequence", "cap": 1.3}},
    "geometric": {"mask": {"level": "geometric", "low": 0.9, "high": 1.1}},
    "mask of tokens": {"mask": {"level": "token", "low": 0.8, "high": 1.2}},
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_one_update_corrects_in_its_own_pass_as_with_a_pass_before_it(name: str) -> None:
    """Gradients, and metrics over the rows that are trained."""
    model, objective = random_model("qwen2").double(), {"correction": CORRECTIONS[name]}
    exact, rng = learner(copy.deepcopy(model)).logprobs(rows()), np.random.default_rng(0)
    off = [replace(row, old_logprobs_N=lp + rng.normal(0, 0.3, len(lp))) for row, lp in zip(rows(), exact, strict=True)]
    signal = [row for row in off if row.has_signal]
    for batch in (off, signal):
        before = PolicyLoss(ObjectiveOptions(streams=STREAMS, **objective), 16)
        corrected, expected = before.begin(batch, lambda given: learner(copy.deepcopy(model)).logprobs(given))
        reference = copy.deepcopy(model)
        wanted = gradient(reference, corrected, {})
        made = learner(copy.deepcopy(model), objective, micro_tokens=40)  # several micro-batches
        made.logprobs = None  # type: ignore[method-assign, assignment] # no other pass is made
        metrics = made.update(batch).metrics
        found = torch.cat([p.grad.reshape(-1) for p in made.parameters])
        assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert {key: metrics[key] for key in expected} == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert 0 < metrics["weight_clamped"] < 1 or name == "recompute"


@pytest.mark.parametrize("more", [{"epochs": 2}, {"minibatches": 2}, {"select": "forking"}])
def test_several_updates_or_a_selection_take_a_pass_before_the_first(more: dict[str, object]) -> None:
    selection = {key: more[key] for key in more if key == "select"}
    options = {key: more[key] for key in more if key != "select"}
    made = learner(random_model("qwen2").double(), {"correction": "recompute", **selection}, **options)
    passes, plain = [], made.logprobs
    made.logprobs = lambda given: passes.append(len(given)) or plain(given)  # type: ignore[method-assign]
    metrics = made.update(rows()).metrics
    assert passes == [len(rows())]
    assert "weight_ess" in metrics


def test_the_second_epoch_is_off_policy_and_the_old_log_probabilities_stay() -> None:
    made = learner(random_model("qwen2").double(), {"correction": "recompute"}, epochs=2, lr=1e-3)
    both = made.update(rows()).metrics
    once = learner(random_model("qwen2").double(), {"correction": "recompute"}, lr=1e-3).update(rows()).metrics
    assert (both["updates"], once["updates"]) == (2.0, 1.0)
    assert once["kl_old"] == pytest.approx(0.0, abs=1e-15)
    assert both["kl_old"] > 1e-8


def test_a_batch_of_3072_problems_for_several_epochs_fits_into_bounded_memory() -> None:
    """DARS's breadth: all problems of a step are one optimizer batch, twice over."""
    rng = np.random.default_rng(0)
    advantages_G, entropies_GN = rng.normal(size=3072), rng.exponential(size=(3072, 4)).astype(np.float32)
    batch = [
        given_row([a] * 4, entropies=e, group=f"g{i}")
        for i, (a, e) in enumerate(zip(advantages_G, entropies_GN, strict=True))
    ]
    objective = {"aggregate": "constant", "select": "forking", "correction": "recompute"}
    made = learner(random_model("qwen2", num_hidden_layers=1), objective, epochs=2, micro_tokens=2048)
    made.update(batch[:2])  # gradients and AdamW's state exist
    sizes: list[int] = []
    made.model.get_decoder().register_forward_pre_hook(
        lambda module, args, inputs: sizes.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    tracemalloc.start()
    metrics = made.update(batch).metrics
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert metrics["updates"] == 2.0  # one optimizer batch an epoch
    assert max(sizes) <= 2048
    # old log-probabilities, and two epochs; the context, of one token, once in each pass
    assert sum(sizes) == 3 * sum(len(row.token_ids) for row in batch) + len(sizes)
    assert peak < 2000 * len(batch)  # NumPy and Python: a few small arrays a row, none for an epoch


@pytest.mark.parametrize(
    ("schedule", "progress", "expected"),
    [("constant", 0.9, 1.0), ("linear", 0.25, 0.75), ("cosine", 0.5, 0.5), ("cosine", 1.0, 0.0), ("linear", 2.0, 0.0)],
)
def test_schedule(schedule: str, progress: float, expected: float) -> None:
    assert LearnOptions(schedule=schedule, lr=0.5).rate(progress, 0, 0) == pytest.approx(0.5 * expected, abs=1e-12)


def test_warm_up_counts_optimizer_steps() -> None:
    made = learner(random_model("qwen2"), warmup="4 updates", lr=1.0)
    rates = [made.update(rows()).metrics["learning_rate"] for _ in range(5)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_imitation_learns_what_it_is_shown() -> None:
    model = random_model("qwen2")
    use_plans(model)
    made = LocalLearner(model, LearnOptions(lr=3e-3), ImitationLoss())
    shown = [imitation_row(np.array([1, 4], np.int32), np.array([9, 8, 2], np.int32))]
    losses = [made.update(shown).metrics["loss"] for _ in range(60)]
    assert losses[-1] < 0.05 < 1.0 < losses[0]


def computed(part: list[WeightedRow], shares: bool = True) -> int:
    """Tokens of a micro-batch, with each context once where they are shared."""
    contexts = {row.context_ids.tobytes() if shares else id(row): len(row.context_ids) for row in part}
    return sum(contexts.values()) + sum(len(row.token_ids) for row in part)


def load(part: list[WeightedRow]) -> int:
    """Computed tokens, and a quarter of each repeated context."""
    contexts = {row.context_ids.tobytes(): len(row.context_ids) // 4 for row in part}
    return computed(part) + sum(len(row.context_ids) // 4 for row in part) - sum(contexts.values())


CUTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=40)


def rows_of(drawn: list[tuple[int, int]]) -> list[WeightedRow]:
    """Rows of a few contexts, of 1 to 31 tokens."""
    return [imitation_row(np.full(1 + 10 * c, c, np.int32), np.zeros(n, np.int32)) for c, n in drawn]


@given(CUTS, st.integers(1, 80), st.integers(1, 5), st.booleans())
def test_cuts_keep_every_row_once(drawn: list[tuple[int, int]], budget: int, parts: int, shares: bool) -> None:
    made = rows_of(drawn)
    micros, split = micro_batches(made, budget, shares), split_by_tokens(made, parts, shares)
    for cut in (micros, split):
        assert sorted(id(row) for part in cut for row in part) == sorted(map(id, made))
    assert all(part and (len(part) == 1 or computed(part, shares) <= budget) for part in micros)
    assert len(split) == parts


@given(CUTS, st.integers(1, 5))
def test_no_rank_computes_more_than_longest_first_would_give_it(drawn: list[tuple[int, int]], parts: int) -> None:
    made = rows_of(drawn)
    alone = [computed(part, shares=False) for part in split_by_tokens(made, parts, shares=False)]
    assert max(alone) - min(alone) <= max((row.length for row in made), default=0)
    naive = split_by_tokens(made, parts, shares=False)
    assert max(map(load, split_by_tokens(made, parts))) <= max(map(load, naive))


def test_siblings_stay_together_where_their_prompt_is_long() -> None:
    """4 prompts of 31 tokens with 8 responses of 10 on 2 ranks: each rank computes 2 prompts, not 4."""
    made = [imitation_row(np.full(31, c, np.int32), np.zeros(10, np.int32)) for _ in range(8) for c in range(4)]
    assert [computed(part) for part in split_by_tokens(made, 2)] == [2 * 31 + 16 * 10] * 2
    assert [computed(part) for part in micro_batches(made, 160)] == [31 + 8 * 10] * 4  # 31 + 8 * 10 + 7 * (31 // 4)
    assert len(micro_batches(made, 160, shares=False)) == 11  # three rows of 41 tokens each


def test_optimizer_batches_hold_whole_groups_and_lose_none() -> None:
    """3,509 rows over mini-batches of 640 once crashed elsewhere; ours are cut by groups, ragged as they are."""
    made = rows(100, groups=7)
    for parts in (1, 3, 7, 50):
        cut = cut_by_group(made, parts)
        assert sorted(id(row) for part in cut for row in part) == sorted(map(id, made))
        homes = [{row.group for row in part} for part in cut]
        assert sum(map(len, homes)) == 7
        assert len(cut) == min(parts, 7)
    assert cut_by_group([], 3) == []
