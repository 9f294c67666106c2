"""Split invariance: the gradient is the same for 1, 2, 4 and 8 micro-batches, for any order, and on two ranks."""

from __future__ import annotations

import copy
import itertools
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from outrider import objective as objective_components
from outrider.arrays import Flags, Floats
from outrider.learn.batching import micro_batches
from outrider.learn.learner import Updated
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.learn.processes import OneProcess
from outrider.model.attention import use_plans
from outrider.objective.correction import Correction
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from policy_rows import STREAMS, learner, ragged_rows
from small import VOCABULARY, random_model

LEVELS = ("token", "sequence", "sequence_token")
SURROGATES: dict[str, Any] = {
    **{f"clip {level}": {"clip": {"low": 0.2, "high": 0.28, "dual": 3.0, "ratio": level}} for level in LEVELS},
    **{f"unclipped {level}": {"unclipped": {"ratio": level}} for level in LEVELS},
    "cispo": {"cispo": [0.5, 1.0]},
    "gmpo": "gmpo",
    "sapo": "sapo",
    "simko": {"simko": {"quantile": 0.5, "share": 0.5}},
}
SELECTIONS: dict[str, Any] = {
    "none": None,
    "forking": {"forking": {"share": 0.3}},
    "clip_cov": {"clip_cov": {"share": 0.1, "low": 0.1}},
    "kl_cov": {"kl_cov": {"share": 0.1}},
}
AGGREGATES: dict[str, Any] = {
    "token_mean": "token_mean",
    "sequence_mean": {"sequence_mean": {"denominator": "with_signal"}},
    "constant": "constant",
}
CORRECTIONS: dict[str, Any] = {
    "none": None,
    "truncate": {"truncate": {"level": "token", "cap": 0.2}},
    "mask": {"mask": {"level": "geometric", "low": 0.1, "high": 0.3}},
}


class Bigram(nn.Module):
    """A policy that sees one token back, with the two methods that the learner asks of a model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY, bias=False)
        nn.init.normal_(self.head.weight, std=0.5)

    def get_decoder(self) -> Any:
        return lambda input_ids, **plan: SimpleNamespace(last_hidden_state=self.body(input_ids))

    def get_output_embeddings(self) -> nn.Linear:
        return self.head


BIGRAM = Bigram().double()


def makes_sense(surrogate: str, select: str) -> bool:
    """A ratio of a whole response leaves no single tokens out: refused, see the tests of surrogates."""
    return surrogate not in ("clip sequence", "unclipped sequence", "gmpo") or select in ("none", "kl_cov")


PARTS = ("surrogate", "select", "aggregate", "correction")
PAIRS = [pair for pair in itertools.product(SURROGATES, SELECTIONS) if makes_sense(*pair)]
BATCH = ragged_rows(10)


def micro_tokens(parts: int) -> int:
    """The largest budget under which the batch fills so many micro-batches."""
    largest = sum(row.length for row in BATCH)
    return next(size for size in range(largest, 0, -1) if len(micro_batches(BATCH, size)) == parts)


BUDGETS = {parts: micro_tokens(parts) for parts in (1, 2, 4, 8)}


class Splits:
    """Gradients of the batch under an objective, as many as are asked for, and the metrics of the last one."""

    def __init__(self, objective: dict[str, Any], model: nn.Module) -> None:
        options = LearnOptions(lr=1e-300, clip_norm=1e6)  # so that the model stays where it is
        self.made = LocalLearner(model, options, PolicyLoss(ObjectiveOptions(streams=STREAMS, **objective), 16))
        self.begun, self.metrics = self.made.loss.state_dict(), dict[str, float]()

    def __call__(self, parts: int, order: int = 1) -> Tensor:
        """Over ``parts`` micro-batches, rows in order or (-1) in reverse."""
        self.made.loss.load_state_dict(self.begun)
        self.made.options = self.made.options.model_copy(update={"micro_tokens": BUDGETS[parts]})
        self.metrics = self.made.update(BATCH[::order]).metrics
        return torch.cat([p.grad.reshape(-1) for p in self.made.parameters])


def same(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("surrogate", "select"), PAIRS)
def test_every_combination_has_one_gradient_however_it_is_split(surrogate: str, select: str) -> None:
    """With every aggregation and correction: one micro-batch, and eight of rows in reverse."""
    for aggregate, correction in itertools.product(AGGREGATES, CORRECTIONS):
        chosen = SURROGATES[surrogate], SELECTIONS[select], AGGREGATES[aggregate], CORRECTIONS[correction]
        split = Splits(dict(zip(PARTS, chosen, strict=True)), BIGRAM)
        whole = split(1)
        assert whole.abs().max() > 1e-4
        assert same(split(8, order=-1), whole)
        assert correction not in ("truncate", "mask") or 0 < split.metrics["weight_clamped"] < 1


# The terms that are not in the product above, and every component once more, through a transformer.
OBJECTIVES: list[dict[str, Any]] = [
    {},
    {"aggregate": "sequence_mean", "kl": 0.3},
    {"aggregate": {"constant": {"denominator": "with_signal"}}, "kl": 0.3},
    {"kl": {"coef": 0.3, "estimator": "k1", "mask_without_signal": True}, "entropy": {"bonus": 0.1}},
    {"surrogate": {"clip": {"ratio": "sequence", "dual": 2.0}}, "kl": {"coef": 0.3, "estimator": "k2"}},
    {"surrogate": {"clip": {"ratio": "sequence_token"}}, "select": SELECTIONS["forking"]},
    {"surrogate": {"cispo": [None, 1.0]}, "select": SELECTIONS["clip_cov"]},
    {"surrogate": "unclipped", "select": SELECTIONS["kl_cov"], "correction": "recompute"},
    {"surrogate": "gmpo", "entropy": {"bonus": 0.1, "target": 2.0, "most": 0.2}, "correction": {"mask": {"high": 3.0}}},
    {"surrogate": "sapo", "select": SELECTIONS["forking"], "correction": {"truncate": {"level": "token"}}},
]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradient_does_not_depend_on_the_split_or_the_order(objective: dict[str, Any]) -> None:
    model = random_model("qwen2").double()
    use_plans(model)
    split = Splits(objective, model)
    whole = split(1)
    assert whole.abs().max() > 1e-3
    assert all(same(split(parts), whole) for parts in (2, 4, 8))
    assert same(split(1, order=-1), whole)


class Meeting:
    """Where several threads meet, as ranks would."""

    def __init__(self, size: int) -> None:
        self.barrier, self.parts = threading.Barrier(size), [torch.zeros(0)] * size


class Threads(OneProcess):
    """One of them."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.meeting = rank, len(meeting.parts), meeting

    def sum_(self, tensor: Tensor) -> Tensor:
        self.meeting.parts[self.rank] = tensor.clone()
        self.meeting.barrier.wait(60)
        total = torch.stack(self.meeting.parts).sum(0)
        self.meeting.barrier.wait(60)
        return tensor.copy_(total)


@pytest.mark.parametrize("minibatches", [1, 2], ids="{} updates".format)
@pytest.mark.parametrize("objective", [OBJECTIVES[0], *OBJECTIVES[5:]])
def test_two_ranks_update_as_one(objective: dict[str, Any], minibatches: int) -> None:
    """Three steps, so that old log-probabilities, selections and coefficients are not those of the first."""
    model = random_model("qwen2").double()
    meeting = Meeting(2)
    ranks = [
        learner(copy.deepcopy(model), objective, Threads(rank, meeting), minibatches=minibatches) for rank in range(2)
    ]
    seen: list[list[Updated]] = [[], []]

    def work(rank: int) -> None:
        seen[rank] = [ranks[rank].update(ragged_rows(16, seed)) for seed in range(3)]

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = learner(copy.deepcopy(model), objective, minibatches=minibatches)
    for seed in range(3):
        expected = alone.update(ragged_rows(16, seed))
        for rank in range(2):
            assert seen[rank][seed].metrics == pytest.approx(expected.metrics, rel=1e-6, abs=1e-9)
            for mine, one in zip(seen[rank][seed].logprobs, expected.logprobs, strict=True):
                assert (mine is None) == (one is None)
                assert mine is None or mine == pytest.approx(one, abs=1e-5)
    for made in ranks:
        for mine, other in zip(made.parameters, alone.parameters, strict=True):
            assert torch.allclose(mine, other, rtol=1e-6, atol=1e-9)


class Normalized(Correction):
    """Divides weights by their mean, so that each depends on all of a step."""

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        return weights / weights.mean(), np.zeros(len(weights), np.bool_)


@pytest.mark.parametrize("correction", [*[*CORRECTIONS.values()][1:], Normalized()], ids=str)
def test_a_correction_has_one_gradient_however_a_step_with_one_update_is_split(correction: object) -> None:
    """Also in float32, in which models are trained."""
    model, found = random_model("qwen2"), []
    for tokens in (10_000, 60, 20):
        made = learner(copy.deepcopy(model), {"correction": correction}, micro_tokens=tokens)
        made.update(ragged_rows(16))
        found.append(torch.cat([p.grad.reshape(-1) for p in made.parameters]))
    for gradient in found[1:]:
        torch.testing.assert_close(gradient, found[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", objective_components.CORRECTIONS)
def test_a_correction_that_is_made_in_the_pass_reads_each_weight_alone(name: str) -> None:
    correction = objective_components.CORRECTIONS[name]()
    weights = np.exp(np.random.default_rng(0).normal(0, 2, 50))
    whole = correction.importance(weights)
    alone = [correction.importance(weights[i : i + 1]) for i in range(len(weights))]
    assert correction.per_weight
    for part, single in zip(whole, zip(*alone, strict=True), strict=True):
        assert part.tolist() == np.concatenate(single).tolist()
