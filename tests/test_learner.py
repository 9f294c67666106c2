"""The learner: packing, split invariance, skipped rows, non-finite steps, schedules, imitation."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel

from outrider.learn.batching import cut_by_group, micro_batches, split_by_tokens
from outrider.learn.learner import Learner
from outrider.learn.options import LearnOptions
from outrider.model.attention import use_plans
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import ImitationLoss, PolicyLoss
from outrider.objective.row import Row, imitation_row
from outrider.objective.weights import token_weights
from outrider.record import Mode
from small import random_model


def rows(n: int = 12, seed: int = 0, groups: int = 4) -> list[Row]:
    """Ragged rows; one in three has no advantage, some tokens are observed."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        own = int(rng.integers(1, 12))
        trainable = rng.random(own) > 0.15
        advantages = np.where(trainable, rng.normal(), 0.0) if i % 3 else np.zeros(own)
        made.append(
            Row(
                rng.integers(3, 32, int(rng.integers(1, 9))).astype(np.int32),
                rng.integers(3, 32, own).astype(np.int32),
                rng.normal(-2, 0.5, own).astype(np.float32),
                advantages,
                trainable,
                "branch" if i % 4 == 1 else "main",
                f"g{i % groups}",
            )
        )
    return made


STREAMS = {"main": 1.0, "branch": 0.5}


def learner(model: PreTrainedModel, kl: float = 0.0, aggregate: str = "token_mean", **options: object) -> Learner:
    use_plans(model)
    objective = ObjectiveOptions(kl=kl, streams=STREAMS, aggregate=aggregate, clip=(0.2, 0.28))
    return Learner(
        model,
        LearnOptions(**{"lr": 1e-2, "clip_norm": 1e6, **options}),
        PolicyLoss(objective),
        lambda batch: token_weights(batch, objective, 16),
    )


def gradient(model: PreTrainedModel, batch: list[Row], **options: object) -> torch.Tensor:
    """The gradient of one optimizer batch."""
    made = learner(copy.deepcopy(model), **options)
    made.update(batch)
    return torch.cat([p.grad.reshape(-1) for p in made.parameters])


def naive_gradient(model: PreTrainedModel, batch: list[Row], aggregate: str) -> torch.Tensor:
    """Each row alone through transformers' own forward pass and plain autograd."""
    model = copy.deepcopy(model)
    objective = ObjectiveOptions(streams=STREAMS, aggregate=aggregate, clip=(0.2, 0.28))
    total = torch.zeros((), dtype=torch.float64)
    for row, weights in zip(batch, token_weights(batch, objective, 16), strict=True):
        ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))[None]
        logps = model(input_ids=ids).logits[0, len(row.context_ids) - 1 : -1].log_softmax(-1)
        logprobs = logps.gather(1, ids[0, len(row.context_ids) :, None])[:, 0]
        ratio = (logprobs - torch.from_numpy(row.old_logprobs_N.astype(np.float64))).exp()
        advantages = torch.from_numpy(row.advantages_N)
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        total = total - (torch.from_numpy(weights) * gain).sum()
    total.backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean", "constant"])
def test_packed_gradient_is_that_of_rows_one_by_one(family: str, aggregate: str) -> None:
    model = random_model(family).double()
    ours = gradient(model, rows(), aggregate=aggregate)
    assert torch.allclose(ours, naive_gradient(model, rows(), aggregate), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kl", [0.0, 0.3])
def test_gradient_does_not_depend_on_the_split_or_the_order(kl: float) -> None:
    model = random_model("qwen2").double()
    batch = rows(24)
    whole = gradient(model, batch, kl=kl)
    lengths = sum(row.length for row in batch)
    counts = set()
    for parts in (2, 4, 8):
        budget = lengths // parts
        counts.add(len(micro_batches(batch, budget)))
        assert torch.allclose(gradient(model, batch, kl=kl, micro_tokens=budget), whole, rtol=1e-9, atol=1e-12)
    assert len(counts) == 3
    assert torch.allclose(gradient(model, batch[::-1], kl=kl), whole, rtol=1e-9, atol=1e-12)


def test_skipped_rows_change_no_denominator() -> None:
    """Rows without advantage are not computed, but removing them from the batch is another loss."""
    model = random_model("qwen2").double()
    batch = rows()
    live = [row for row in batch if row.has_signal]
    made = learner(copy.deepcopy(model))
    assert made.update(batch)["rows_skipped"] == len(batch) - len(live) > 0
    assert not torch.allclose(gradient(model, batch), gradient(model, live), rtol=1e-3)


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
    assert made.update(silent) == {"rows_skipped": len(silent), "skipped_no_signal": 1.0}
    assert made.update([]).get("updates") is None
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_non_finite_gradient_moves_nothing_and_is_counted() -> None:
    model = random_model("qwen2")
    made = learner(model)
    before = copy.deepcopy(model.state_dict())
    broken = rows()
    broken[1].advantages_N[:] = np.inf
    assert made.update(broken)["skipped_nonfinite"] == 1.0
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert made.optimizer_steps == 0
    assert "skipped_nonfinite" not in made.update(rows())


def test_kl_at_the_reference_is_zero_and_pulls_back_afterwards() -> None:
    model = random_model("qwen2")
    made = learner(model, kl=1.0)
    silent = [row for row in rows() if not row.has_signal]
    first = made.update(silent)
    assert first["kl_reference"] == pytest.approx(0.0, abs=1e-7)  # trained on: a KL needs no advantage
    for _ in range(3):
        made.update(rows())
    assert made.update(rows())["kl_reference"] > 1e-4


def test_rows_of_different_modes_are_refused() -> None:
    first, second = rows(2)
    hot = Row(*(getattr(second, name) for name in list(Row.__dataclass_fields__)[:-1]), mode=Mode(0.7))
    with pytest.raises(ValueError, match="different or truncated log-probability modes"):
        learner(random_model("qwen2")).logprobs([first, hot])


def test_temperature_of_the_mode_is_applied() -> None:
    model = random_model("qwen2")
    plain = copy.deepcopy(model)
    row = rows(1)[0]
    hot = Row(*(getattr(row, name) for name in list(Row.__dataclass_fields__)[:-1]), mode=Mode(0.7))
    ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))[None]
    with torch.no_grad():
        logps = (plain(input_ids=ids).logits[0, len(row.context_ids) - 1 : -1] / 0.7).log_softmax(-1)
    expected = logps.gather(1, ids[0, len(row.context_ids) :, None])[:, 0].numpy()
    assert np.abs(learner(model).logprobs([hot])[0] - expected).max() < 1e-5


def test_state_round_trip_continues_exactly() -> None:
    model = random_model("qwen2")
    made = learner(model)
    made.update(rows(seed=1))
    other_model = copy.deepcopy(model)
    other = learner(other_model)
    other.load_state_dict(copy.deepcopy(made.state_dict()))
    for either in (made, other):
        either.update(rows(seed=2))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other_model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("schedule", "progress", "expected"),
    [("constant", 0.9, 1.0), ("linear", 0.25, 0.75), ("cosine", 0.5, 0.5), ("cosine", 1.0, 0.0), ("linear", 2.0, 0.0)],
)
def test_schedule(schedule: str, progress: float, expected: float) -> None:
    made = learner(random_model("qwen2"), schedule=schedule, lr=0.5)
    assert made.learning_rate(progress) == pytest.approx(0.5 * expected, abs=1e-12)


def test_warm_up_counts_optimizer_steps() -> None:
    made = learner(random_model("qwen2"), warmup_steps=4, lr=1.0)
    rates = [made.update(rows())["learning_rate"] for _ in range(5)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_imitation_learns_what_it_is_shown() -> None:
    model = random_model("qwen2")
    use_plans(model)
    objective = ObjectiveOptions()
    made = Learner(model, LearnOptions(lr=3e-3), ImitationLoss(), lambda b: token_weights(b, objective, 1))
    shown = [imitation_row(np.array([1, 4], np.int32), np.array([9, 8, 2], np.int32))]
    losses = [made.update(shown)["loss"] for _ in range(60)]
    assert losses[-1] < 0.05 < 1.0 < losses[0]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 80), st.integers(1, 5))
def test_cuts_keep_every_row_once(lengths: list[int], budget: int, parts: int) -> None:
    made = [imitation_row(np.zeros(1, np.int32), np.zeros(n, np.int32)) for n in lengths]
    for cut in (micro_batches(made, budget), split_by_tokens(made, parts)):
        assert sorted(id(row) for part in cut for row in part) == sorted(map(id, made))
    for part in micro_batches(made, budget):
        assert part
        assert len(part) == 1 or sum(row.length for row in part) <= budget
    loads = [sum(row.length for row in part) for part in split_by_tokens(made, parts)]
    assert max(loads) - min(loads) <= max((row.length for row in made), default=0)


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
