"""Deliberately wrong components of credit: the rules of the matrix catch each, without a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from credit_cases import CASES, Case
from test_credit_matrix import RULES, its_example_is_as_it_was_worked_by_hand

from outrider.arrays import Floats
from outrider.credit import (
    BASELINES,
    REWARD_SHAPERS,
    SHAPERS,
    AnnealedPassK,
    Baseline,
    BoundaryGate,
    Brevity,
    Covariance,
    Difficulty,
    EntropyAdvantage,
    Focal,
    GreedyBaseline,
    GroupMean,
    LeaveOneOut,
    Link,
    MaxRL,
    Members,
    Novelty,
    Overlong,
    PassK,
    Perplexity,
    Polarity,
    Position,
    Quantile,
    ReinforcePP,
    RewardShaper,
    Shaper,
    Shrinkage,
    SiblingsMean,
    Smoothing,
    StatedGoal,
    TreeGrpo,
    TreeValues,
    UniformCorrect,
)
from outrider.credit.siblings_mean import within


def catches(rule: Callable[[Case], None], case: Case) -> bool:
    try:
        rule(case)
    except AssertionError:
        return True
    return False


# Baselines


class MedianOfTheGroup(GroupMean):
    def _compared(self, rewards: Floats) -> Floats:
        return rewards - np.median(rewards) if len(rewards) else rewards


class DeviationOverN(GroupMean):
    def _compared(self, rewards: Floats) -> Floats:
        return super()._compared(rewards) * np.sqrt(len(rewards) / max(len(rewards) - 1, 1))


class EpsilonUnderTheRoot(GroupMean):
    def _compared(self, rewards: Floats) -> Floats:
        if len(rewards) < 2:
            return np.zeros(len(rewards))
        return (rewards - rewards.mean()) / np.sqrt(rewards.var(ddof=1) + self.epsilon)


class ConditioningsInOnePool(GroupMean):
    def advantages(self, members: Members) -> Floats:
        return GroupMean(std=False).advantages(members)


class TheBestGreedyOne(GreedyBaseline):
    def advantages(self, members: Members) -> Floats:
        best = np.nanmax(members.rewards_G[members.greedy_G], initial=-np.inf)
        return np.where(members.valid_G & ~members.greedy_G & np.isfinite(best), members.rewards_G - best, 0.0)


class EverybodyCounts(LeaveOneOut):
    """The unscorable and the empty count as others."""

    def advantages(self, members: Members) -> Floats:
        return GroupMean(std=False).advantages(members) * (members.size / max(members.size - 1, 1))


class SuccessByReward(MaxRL):
    def advantages(self, members: Members) -> Floats:
        share = (members.rewards_G[members.valid_G] > 0).mean() if members.valid_G.any() else 0.0
        return GroupMean(std=False).advantages(members) / (share or 1.0)


class OneForK(PassK):
    """The gain of one of k, where all k are drawn."""

    def advantages(self, members: Members) -> Floats:
        return super().advantages(members) / self.k


class OneBelowTheQuantile(Quantile):
    """The highest of the share, and not the lowest behind which it is reached."""

    def _base(self, rewards: Floats) -> float:
        return float(np.sort(rewards)[int(self.share * len(rewards)) - 1])


class DeviationFromTheQuantile(Quantile):
    def advantages(self, members: Members) -> Floats:
        compared = Quantile(share=self.share, std=False).advantages(members)
        spread = np.sqrt((compared**2).sum() / max(members.valid_G.sum() - 1, 1))
        return compared / (spread or 1.0)


class AStepAhead(AnnealedPassK):
    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        return super().of_stream(groups, step + 200)


class EachGroupForItself(ReinforcePP):
    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        return [super(EachGroupForItself, self).of_batch([members])[0] for members in groups]


class ResponsesForTokens(ReinforcePP):
    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        return ReinforcePP(group_mean=self.group_mean, epsilon=self.epsilon).of_batch(groups)


class AcrossFamilies(SiblingsMean):
    def advantages(self, members: Members) -> Floats:
        return GroupMean(std=False).advantages(members)


class FamiliesForTrees(TreeGrpo):
    def advantages(self, members: Members) -> Floats:
        return GroupMean().advantages(members) + within(members.families_G, members, GroupMean())


class ScaledBeforeTheDifference(TreeValues):
    def per_token(self, members: Members) -> list[Floats]:
        return TreeValues(variant="treerl_code").per_token(members)


class TheEndForTheWholeMember(TreeValues):
    def per_token(self, members: Members) -> list[Floats]:
        return Baseline.per_token(self, members)


# Shapers of rewards


class OwnTokensForThePath(Overlong):
    def rewards(self, members: Members, step: int) -> Floats:
        over_G = np.clip((members.tokens_G - (self.max_tokens - self.buffer)) / self.buffer, 0.0, 1.0)
        return np.where(members.valid_G, members.rewards_G - self.weight * over_G, members.rewards_G)


class ABonusForWhatIsShort(Overlong):
    def rewards(self, members: Members, step: int) -> Floats:
        over_G = (members.starts_G + members.tokens_G - (self.max_tokens - self.buffer)) / self.buffer
        return np.where(members.valid_G, members.rewards_G - self.weight * np.minimum(over_G, 1.0), members.rewards_G)


class FailuresMayGain(Brevity):
    def rewards(self, members: Members, step: int) -> Floats:
        return super().rewards(replace(members, success_G=np.ones(members.size, np.bool_)), step)


# Shapers of advantages


class TiesByPosition(Covariance):
    """Exactly the share: of tokens that are equal at the threshold, those that come first."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        found = super().shape(advantages_GT, members, step)
        left = max(1, int(self.share * members.tokens_G[members.valid_G].sum()))
        for a, before in zip(found, advantages_GT, strict=True):
            scaled = np.flatnonzero(a != before)
            a[scaled[left:]] = before[scaled[left:]]
            left = max(0, left - len(scaled))
        return found


class WhateverTheSignOfTheCovariance(Covariance):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a * self.weight for a in advantages_GT]


class MeansOverMembers(Covariance):
    """A short response counts as much as a long one. For a share of 1."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        valid = np.flatnonzero(members.valid_G)
        logprob, advantage = (
            np.mean([values_GT[i].mean() for i in valid]) if len(valid) else 0.0
            for values_GT in (members.logprobs_GT, advantages_GT)
        )
        return [
            np.where((lp - logprob) * (a - advantage) > 1e-12, self.weight * a, a)
            for a, lp in zip(advantages_GT, members.logprobs_GT, strict=True)
        ]


class OneSignForTheResponse(Difficulty):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        rate = members.success_G[members.valid_G].mean() if members.valid_G.any() else 0.0
        return [a * self.of(rate if len(a) and a[-1] > 0 else 1 - rate) for a in advantages_GT]


class VerdictForSign(Difficulty):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        rate = members.success_G[members.valid_G].mean() if members.valid_G.any() else 0.0
        weights_G = np.where(members.success_G, self.of(rate), self.of(1 - rate))
        return [a * weight for a, weight in zip(advantages_GT, weights_G, strict=True)]


class RateOfEverybody(Difficulty):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        rate = members.success_G.mean() if members.size else 0.0
        return [a * np.where(a > 0, self.of(rate), self.of(1 - rate)) for a in advantages_GT]


class AwayFromZero(EntropyAdvantage):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        up = super().shape([np.abs(a) for a in advantages_GT], members, step)
        return [np.sign(a) * b for a, b in zip(advantages_GT, up, strict=True)]


class OneEntropyForTheResponse(EntropyAdvantage):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        mean_GT = [np.full(len(h), h.mean()) if len(h) else h for h in members.entropies_GT]
        return super().shape(advantages_GT, replace(members, entropies_GT=mean_GT), step)


class SumForMean(Perplexity):
    def factors(self, members: Members) -> Floats:
        summed_GT = [np.full(len(lp), lp.sum()) for lp in members.logprobs_GT]
        return super().factors(replace(members, logprobs_GT=summed_GT))


class DeviationsForQuartiles(Perplexity):
    """Outliers by mean and deviation."""

    def _standardised(self, values: Floats) -> Floats:
        compared = values[np.abs(values - values.mean()) <= 2 * values.std()]
        return (values - compared.mean()) / (compared.std() if compared.std() > 1e-6 else 1.0)


class OverNLessOne(Perplexity):
    def _standardised(self, values: Floats) -> Floats:
        return super()._standardised(values) * np.sqrt(1 - 1 / len(values))


class GateByTheWeight(BoundaryGate):
    """The threshold is of the weight, and not of the value of a gain."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        n, c = int(members.valid_G.sum()), int((members.success_G & members.valid_G).sum())
        weight = self.utility(c, n) / self.utility(1, n) if n else 0.0
        return [a * (weight if weight >= self.threshold else 0.0) for a in advantages_GT]


class FocalOfEverybody(Focal):
    """Members that are not valid count as failures."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        rate = members.success_G.mean() if members.size else 0.0
        return [a * (1.0 - rate) ** self.gamma for a in advantages_GT]


class FocalBySuccess(Focal):
    """What is rarely solved teaches less."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        rate = members.success_G[members.valid_G].mean() if members.valid_G.any() else 0.0
        return [a * rate**self.gamma for a in advantages_GT]


class SignForVerdict(Polarity):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a * np.where(a > 0, self.positive, self.negative) for a in advantages_GT]


class WithinTheMemberAlone(Position):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return super().shape(advantages_GT, replace(members, starts_G=np.zeros(members.size, np.int64)), step)


class UpForFailuresToo(Position):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        up = super().shape([np.abs(a) for a in advantages_GT], members, step)
        return [a + (b - np.abs(a)) for a, b in zip(advantages_GT, up, strict=True)]


class AStepTooLong(Position):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return super().shape(advantages_GT, members, step - (step == self.first_step + (self.steps or 0)))


class CapBeforeTheWeight(Novelty):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        eta_G = self.typicality(members)
        added = (
            self.weight * np.clip(self.cap * a, 0.0, max(1 - eta, 0.0)) if success else 0.0
            for a, eta, success in zip(advantages_GT, eta_G, members.success_G, strict=True)
        )
        return [a + more for a, more in zip(advantages_GT, added, strict=True)]


class TheFirstTokenForTheMean(Novelty):
    """The cap is a share of the first token's advantage."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        first_GT = [np.full(len(a), a[0]) if len(a) else a for a in advantages_GT]
        added_GT = super().shape(first_GT, members, step)
        return [a + (b - c) for a, b, c in zip(advantages_GT, added_GT, first_GT, strict=True)]


class NoveltyOfFailures(Novelty):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return super().shape(advantages_GT, replace(members, success_G=members.valid_G), step)


class RareFailuresGain(Smoothing):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        flipped = replace(members, logprobs_GT=[lp if ok else -lp for lp, ok in _by_verdict(members)])
        return super().shape(advantages_GT, flipped, step)


def _by_verdict(members: Members) -> list[tuple[Floats, bool]]:
    return list(zip(members.logprobs_GT, members.success_G.tolist(), strict=True))


class UnscorableAsFailures(Smoothing):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return super().shape(advantages_GT, replace(members, rewards_G=np.zeros(members.size)), step)


class LikelyOnesGain(UniformCorrect):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return super().shape(advantages_GT, replace(members, logprobs_GT=[-lp for lp in members.logprobs_GT]), step)


class WholeResponses(UniformCorrect):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        summed = [np.full(len(lp), lp.sum()) for lp in members.logprobs_GT]
        return super().shape(advantages_GT, replace(members, logprobs_GT=summed), step)


class AmongSuccesses(Novelty):
    """The mean likelihood is that of the successes alone."""

    def typicality(self, members: Members) -> Floats:
        rewards_G = np.where(members.success_G, members.rewards_G, np.nan)
        return super().typicality(replace(members, rewards_G=rewards_G))


class ProblemsByTheirRollouts(StatedGoal):
    """A problem counts as often as it was drawn."""

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        return [PassK(k=self.k, variant="pkpo").advantages(members) for members in groups]


class DrawnToAll(Shrinkage):
    """What a group is drawn to has its own responses in it."""

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        mean = np.mean([members.rewards_G[members.valid_G].mean() for members in groups if members.valid_G.any()])
        found, outside = super().of_batch(groups), [members.rewards_G - mean for members in groups]
        return [np.where(m.valid_G, (a + b) / 2, 0.0) for a, b, m in zip(found, outside, groups, strict=True)]


class PulledAlike(Shrinkage):
    """Groups are drawn away from their own mean by half, whatever they say."""

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        own = [LeaveOneOut().advantages(members) for members in groups]
        return [(a_G + b_G) / 2 for a_G, b_G in zip(super().of_batch(groups), own, strict=True)]


class EverybodyInTheSize(StatedGoal):
    """Members that are not valid make their group larger."""

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        shares = [members.valid_G.sum() / max(members.size, 1) for members in groups]
        return [a_G * share for a_G, share in zip(super().of_batch(groups), shares, strict=True)]


WRONG: list[tuple[str, type[Link]]] = [
    ("group_mean without std", MedianOfTheGroup),
    ("group_mean without epsilon", DeviationOverN),
    ("group_mean", EpsilonUnderTheRoot),
    ("group_mean by conditioning", ConditioningsInOnePool),
    ("greedy", TheBestGreedyOne),
    ("leave_one_out", EverybodyCounts),
    ("maxrl", SuccessByReward),
    ("passk, pkpo", OneForK),
    ("annealed_passk", AStepAhead),
    ("quantile of the better half", OneBelowTheQuantile),
    ("quantile of the better half", DeviationFromTheQuantile),
    ("reinforce_pp", EachGroupForItself),
    ("reinforce_pp by tokens", ResponsesForTokens),
    ("stated_goal", ProblemsByTheirRollouts),
    ("stated_goal of the best of two", EverybodyInTheSize),
    ("shrinkage", DrawnToAll),
    ("shrinkage", PulledAlike),
    ("siblings_mean", AcrossFamilies),
    ("tree_grpo", FamiliesForTrees),
    ("tree_values", ScaledBeforeTheDifference),
    ("tree_values", TheEndForTheWholeMember),
    ("overlong", OwnTokensForThePath),
    ("overlong", ABonusForWhatIsShort),
    ("brevity", FailuresMayGain),
    ("covariance", TiesByPosition),
    ("covariance of every token", WhateverTheSignOfTheCovariance),
    ("covariance of every token", MeansOverMembers),
    ("difficulty", OneSignForTheResponse),
    ("difficulty", VerdictForSign),
    ("difficulty", RateOfEverybody),
    ("entropy_advantage", AwayFromZero),
    ("entropy_advantage", OneEntropyForTheResponse),
    ("boundary_gate", GateByTheWeight),
    ("focal", FocalOfEverybody),
    ("focal", FocalBySuccess),
    ("perplexity", SumForMean),
    ("perplexity", OverNLessOne),
    ("perplexity as the released code has it", DeviationsForQuartiles),
    ("polarity", SignForVerdict),
    ("position", WithinTheMemberAlone),
    ("position", UpForFailuresToo),
    ("position, a step too late", AStepTooLong),
    ("smoothing", RareFailuresGain),
    ("smoothing", UnscorableAsFailures),
    ("uniform_correct", LikelyOnesGain),
    ("uniform_correct", WholeResponses),
    ("novelty", CapBeforeTheWeight),
    ("novelty in a tree", TheFirstTokenForTheMean),
    ("novelty", NoveltyOfFailures),
    ("novelty in a tree", AmongSuccesses),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=[wrong.__name__ for _, wrong in WRONG])
def test_the_matrix_catches_what_is_wrong(name: str, wrong: type[Link]) -> None:
    """The right version passes: that is ``test_the_rules_that_every_component_keeps``."""
    case = CASES[name]
    assert type(case.component) is wrong.__mro__[1]
    mutated = case._replace(component=wrong(**case.component.model_dump()))
    assert any(catches(rule, mutated) for rule in RULES.values())


class NoAdvantages(Baseline):
    def advantages(self, members: Members) -> Floats:
        return np.zeros(members.size)


class NoChange(Shaper):
    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return list(advantages_GT)


class NoChangeOfRewards(RewardShaper):
    def rewards(self, members: Members, step: int) -> Floats:
        return members.rewards_G


@pytest.mark.parametrize(
    ("components", "idle"),
    [(BASELINES, NoAdvantages()), (SHAPERS, NoChange()), (REWARD_SHAPERS, NoChangeOfRewards())],
    ids=["baselines", "shapers", "reward shapers"],
)
def test_examples_show_their_components_at_work(components: dict[str, type[Link]], idle: Link) -> None:
    """Each component has one that a component which does nothing would not give."""
    for component in components.values():
        examples = [case._replace(component=idle) for case in CASES.values() if type(case.component) is component]
        assert any(catches(its_example_is_as_it_was_worked_by_hand, case) for case in examples), component
