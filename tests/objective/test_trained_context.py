"""Rollouts drawn with examples in their prompt, on a policy whose outcomes are enumerated: what each choice trains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.arrays import Floats
from outrider.credit import Baseline, GroupMean, Members
from outrider.credit.assign import assign
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.record import PLAIN, Context, Group, Problem, Rollout
from outrider.record.row import WeightedRow

Response = tuple[int, ...]
TRAINED = ["as_generated", "original", "excluded"]
PROMPTS = {"plain": np.array([9], np.int32), "seeded": np.array([5, 9], np.int32)}
RESPONSES: list[Response] = list(itertools.product((0, 1), repeat=2))
REWARD = dict(zip(RESPONSES, [1.0, 0.0, 0.2, 0.7], strict=True))
STARTS: list[Response] = [(), (0,), (1,)]


class Tabular:
    """A next-token distribution after each start, with parameters of its own after each prompt: a gradient shows which
    prompt was trained."""

    def __init__(self) -> None:
        shape = (len(PROMPTS), len(STARTS), 2)
        self.logits = torch.from_numpy(np.random.default_rng(4).normal(size=shape)).requires_grad_()

    def logprobs(self, prompt: str, response: Response) -> Tensor:
        at = [STARTS.index(response[:k]) for k in range(len(response))]
        return torch.log_softmax(self.logits[list(PROMPTS).index(prompt)], -1)[at, list(response)]

    def of_row(self, row: WeightedRow) -> Tensor:
        """Of a row's tokens, after the prompt that the row holds."""
        return self.logprobs("plain" if len(row.context_ids) == 1 else "seeded", tuple(row.token_ids.tolist()))

    def gradient(self, value: Tensor) -> dict[str, np.ndarray]:
        found = torch.autograd.grad(value, self.logits, retain_graph=True)[0].numpy()
        return dict(zip(PROMPTS, found, strict=True))


POLICY = Tabular()


class Fixed(Baseline):
    """Reward minus a number that no rollout has a part in."""

    def advantages(self, members: Members) -> Floats:
        return members.rewards_G - 0.3


class Outcome(NamedTuple):
    """One rollout after the plain prompt and one with examples, both on-policy."""

    plain: Response
    seeded: Response
    probability: float


def outcomes() -> Iterator[Outcome]:
    for pair in itertools.product(RESPONSES, repeat=2):
        logprobs = [POLICY.logprobs(prompt, y).sum().detach() for prompt, y in zip(PROMPTS, pair, strict=True)]
        yield Outcome(*pair, float(torch.stack(logprobs).sum().exp()))


def group(outcome: Outcome, trained: str) -> Group:
    made = []
    for member, prompt in enumerate(PROMPTS):
        response: Response = getattr(outcome, prompt)
        rollout = Rollout(
            problem_id="p",
            group_id="g",
            member=member,
            prompt_ids=PROMPTS[prompt],
            token_ids=np.array(response, np.int32),
            logprobs_T=POLICY.logprobs(prompt, response).detach().numpy(),
            prefix_ids=np.zeros(0, np.int32),
            context=PLAIN if prompt == "plain" else Context("seeded", ("other",), trained),
            reward=REWARD[response],
        )
        made.append(rollout)
    return Group(Problem("p", ""), "g", tuple(made))


def loss_of(outcome: Outcome, trained: str, baseline: Baseline, **objective: Any) -> Tensor:
    """From rollouts to a number, as the trainer and the learner take it."""
    rows: Sequence[WeightedRow] = assign(
        [group(outcome, trained)], {"main": [baseline]}, 1, False, lambda p: PROMPTS["plain"]
    ).rows
    loss = PolicyLoss(ObjectiveOptions(**objective), max_tokens=2)
    rows, _ = loss.begin(rows, lambda asked: [POLICY.of_row(row).detach().numpy() for row in asked])
    logprobs = torch.cat([POLICY.of_row(row) for row in rows])
    return loss(TokenBatch.of(loss.prepare(rows), logprobs), logprobs, torch.zeros_like(logprobs), None)[0]


def expected(trained: str, **objective: Any) -> dict[str, np.ndarray]:
    """The gradient on average over every outcome; a constant denominator, so that all tokens weigh one row's share."""
    objective.setdefault("aggregate", {"constant": {"length": 1}})
    return POLICY.gradient(sum(o.probability * loss_of(o, trained, Fixed(), **objective) for o in outcomes()))


def of_reward(prompt: str) -> np.ndarray:
    """The gradient of the expected reward after a prompt."""
    return POLICY.gradient(sum(POLICY.logprobs(prompt, y).sum().exp() * REWARD[y] for y in RESPONSES))[prompt]


def ratios(response: Response) -> np.ndarray:
    """Probability after the plain prompt over that with examples, of each token."""
    return (POLICY.logprobs("plain", response) - POLICY.logprobs("seeded", response)).detach().exp().numpy()


EXACT = {"correction": {"truncate": {"level": "sequence", "cap": 1e9}}}


def test_as_generated_is_the_gradient_of_two_objectives_each_after_its_prompt() -> None:
    found = expected("as_generated")
    for prompt in PROMPTS:  # a constant denominator divides by the rows: here two
        np.testing.assert_allclose(found[prompt], -of_reward(prompt) / 2, atol=1e-12)
        assert np.abs(found[prompt]).max() > 0.01


def test_original_weighed_by_the_ratio_of_whole_responses_is_the_plain_objective_twice() -> None:
    found = expected("original", **EXACT)
    np.testing.assert_allclose(found["plain"], -of_reward("plain"), atol=1e-12)
    assert not found["seeded"].any()


@pytest.mark.parametrize("objective", [{"surrogate": "unclipped"}, {"surrogate": {"clip": [0.2, 0.2]}}])
def test_ratios_of_tokens_and_clips_are_not_the_plain_objective(objective: dict[str, Any]) -> None:
    found = expected("original", **objective)
    assert np.abs(found["plain"] + of_reward("plain")).max() > 0.01
    assert not found["seeded"].any()


def test_excluded_trains_the_plain_rollout_alone() -> None:
    found = expected("excluded")
    np.testing.assert_allclose(found["plain"], -of_reward("plain"), atol=1e-12)  # one row: it has the whole weight
    assert not found["seeded"].any()


LOW, HIGH, CAP = 0.2, 0.1, 1.05


def factor(kind: str, ratio: float, advantage: float, whole: float) -> float:
    """What multiplies ``advantage * grad log pi`` of a token of the seeded rollout, trained after the plain prompt."""
    if kind == "clip":
        flat = ratio > 1 + HIGH if advantage > 0 else ratio < 1 - LOW
        return 0.0 if flat else ratio
    return {
        "unclipped": ratio,
        "truncate": min(ratio, CAP),
        "sequence": min(whole, CAP),
        "mask": whole * (1 - LOW <= whole <= 1 + HIGH),
        "recompute": 1.0,
    }[kind]


OBJECTIVES: dict[str, dict[str, Any]] = {
    "unclipped": {"surrogate": "unclipped"},
    "clip": {"surrogate": {"clip": [LOW, HIGH]}},
    "truncate": {"correction": {"truncate": {"level": "token", "cap": CAP}}},
    "sequence": {"correction": {"truncate": {"level": "sequence", "cap": CAP}}},
    "mask": {"correction": {"mask": {"level": "sequence", "low": 1 - LOW, "high": 1 + HIGH}}},
    "recompute": {"correction": "recompute"},
}


def by_definition(outcome: Outcome, trained: str, kind: str) -> dict[str, np.ndarray]:
    """A mean over all trained tokens; both rewards are in the baseline, whatever is trained."""
    rewards = np.array([REWARD[outcome.plain], REWARD[outcome.seeded]])
    mine, theirs = rewards - rewards.mean()
    total = mine * POLICY.logprobs("plain", outcome.plain).sum()
    if trained == "as_generated":
        total = total + theirs * POLICY.logprobs("seeded", outcome.seeded).sum()
    if trained == "original":
        ratio_T = ratios(outcome.seeded)
        factors = torch.tensor([factor(kind, r, theirs, ratio_T.prod()) for r in ratio_T], dtype=torch.float64)
        total = total + theirs * (factors * POLICY.logprobs("plain", outcome.seeded)).sum()
    return POLICY.gradient(-total / (2 if trained == "excluded" else 4))


@pytest.mark.parametrize("kind", list(OBJECTIVES))
@pytest.mark.parametrize("trained", TRAINED)
def test_the_gradient_of_every_outcome_is_the_definition(trained: str, kind: str) -> None:
    for outcome in outcomes():
        if REWARD[outcome.plain] == REWARD[outcome.seeded]:
            continue  # nothing to compare, no gradient: the learner skips it
        found = POLICY.gradient(loss_of(outcome, trained, GroupMean(std=False), **OBJECTIVES[kind]))
        wanted = by_definition(outcome, trained, kind)
        for prompt in PROMPTS:
            np.testing.assert_allclose(found[prompt], wanted[prompt], atol=1e-12)


def test_the_outcomes_meet_every_bound_from_both_sides() -> None:
    """So that the definitions above are distinguished."""
    of_tokens = np.concatenate([ratios(y) for y in RESPONSES])
    of_responses = np.array([ratios(y).prod() for y in RESPONSES])
    for values in (of_tokens, of_responses):
        assert values.min() < 1 - LOW
        assert values.max() > 1 + HIGH
        assert ((values > 1 - LOW) & (values < 1 + HIGH)).any()
