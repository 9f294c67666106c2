"""Every piece of credit: an example that was worked by hand, and the laws that it keeps. The rules are in
``test_credit_matrix.py``.

Unless ``on`` says otherwise, an example is of the group ``ROOTS`` (``credit_groups.py``). Verdict and reward disagree
in it, since a failure earns the most:

======================= ====== ================ ====== ==================== ======
member                  reward less the mean, 3 tokens log-prob. of a token seeded
======================= ====== ================ ====== ==================== ======
right                      4          1            5          -0.3
right, unlikely            4          1            6          -0.9            yes
wrong                      1         -2            4          -0.3
wrong, short               1         -2            2          -0.6
wrong, unlikely            7          4            5          -0.9            yes
wrong, cut off             1         -2           10          -0.5
no verdict                NaN         0            3          -0.5
======================= ====== ================ ====== ==================== ======

The log-probability is the mean of a member's tokens: the first one has all of it, the others are certain. Every fourth
token from the first on has an entropy of 1.4 nats, the others 0.2. The third member continues, after 3 tokens, one that
is not in the group: its path has 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from credit_groups import GREEDY, PAIR, ROOTS, SIBLINGS, TREE, worked
from outrider.credit import (
    Brevity,
    Covariance,
    Difficulty,
    EntropyAdvantage,
    GreedyBaseline,
    GroupMean,
    LeaveOneOut,
    Link,
    MaxRL,
    Members,
    NoBaseline,
    Novelty,
    Overlong,
    PassK,
    Perplexity,
    Polarity,
    Position,
    ReinforcePP,
    SiblingsMean,
    TreeGrpo,
    TreeValues,
)

STEP = 250  # of training, in all examples and rules


class Case(NamedTuple):
    """A piece, an example of it, and the laws that its chain keeps beside the rules that all keep.

    Attributes:
        by_hand: for each member of the example one number, or one per token where they differ. Of a baseline, the
            advantages; of a shaper, what it makes of rewards less their mean; of a reward shaper, the rewards.
        on: the groups of the example: one, or for what looks at a batch more, whose members follow each other.
        shift: a constant added to all rewards changes nothing.
        scale: the power of s in A(s r) = s^power A(r) for s > 0; None: no such law, an epsilon is in the way.
        still: equal rewards leave exactly 0. Not so where a piece finds something else to compare, such as lengths.
        ordered: of members without branches, a better reward never has the lower advantage.
        dissent: a lone success and a lone failure have the largest advantage of their group.
        compares: a reward means something only beside others.
        lengths: a member's advantage is another where the others are longer.
    """

    piece: Link
    by_hand: Sequence[float | Sequence[float]]
    on: Sequence[Members] = (ROOTS,)
    shift: bool = True
    scale: int | None = None
    still: bool = True
    ordered: bool = True
    dissent: bool = True
    compares: bool = True
    lengths: bool = False


def times(factor: float, numbers: Sequence[float]) -> list[float]:
    return [factor * number for number in numbers]


# The squares of 1, 1, -2, -2, 4 and -2 sum to 30: over 6 - 1, a deviation of sqrt(6)
_LESS_MEAN = (1, 1, -2, -2, 4, -2, 0)
# With and without examples in the prompt: means (4 + 7) / 2 of two and 7/4 of four
_BY_CONDITIONING = [4 - 7 / 4, 4 - 11 / 2, 1 - 7 / 4, 1 - 7 / 4, 7 - 11 / 2, 1 - 7 / 4, 0]

# The best of a pair: in 3 of 15 it is 1, in 7 it is 4, in 5 it is 7
_PAIRS = (3 * 1 + 7 * 4 + 5 * 7) / 15
_PAIRS_DEVIATION = math.sqrt((3 * 1 + 7 * 16 + 5 * 49) / 15 - _PAIRS**2)
# and of the five pairs of a 4 (three with 1, one with 4, one with 7), of a 1 (two, two, one), of the 7
_IN_PAIRS = [(4 * 4 + 7) / 5, (4 * 4 + 7) / 5, (2 + 8 + 7) / 5, (2 + 8 + 7) / 5, 7, (2 + 8 + 7) / 5]
# The best of three: in 1 of 20 it is 1, in 9 it is 4, in 10 it is 7; of a 4 it is 7 in 4 of 10; of a 1, 1 in 1, 7 in 4
_THREES = (1 * 1 + 9 * 4 + 10 * 7) / 20
_THREES_DEVIATION = math.sqrt((1 * 1 + 9 * 16 + 10 * 49) / 20 - _THREES**2)
_IN_THREES = [(24 + 28) / 10, (24 + 28) / 10, (1 + 20 + 28) / 10, (1 + 20 + 28) / 10, 7, (1 + 20 + 28) / 10]

# Two groups of 6 and 5 valid members. Less their means, 3 and 14/5: squares of 30 and 294/5, over 11 - 1
_APART = [*_LESS_MEAN, 6 / 5, -9 / 5, -9 / 5, 21 / 5, -9 / 5]
_APART_DEVIATION = math.sqrt((30 + (6**2 + 3 * 9**2 + 21**2) / 25) / 10)
# As they are: mean (18 + 14) / 11, squares (84 + 68) - 32^2 / 11, over 11 - 1
_TOGETHER = [4, 4, 1, 1, 7, 1, 32 / 11, 4, 1, 1, 7, 1]  # no verdict: at the mean
_TOGETHER_DEVIATION = math.sqrt((152 - 32**2 / 11) / 10)
# By tokens, 5, 6, 4, 2, 5, 10 and 4, 4, 8, 4, 3 of them: the mean is (11 - 32 + 20) + (24 - 108 + 84 - 27) / 5 over 55
_TOKENS = (5, 6, 4, 2, 5, 10, 0, 4, 4, 8, 4, 3)
_TOKENS_MEAN = (-1 - 27 / 5) / 55
_TOKENS_DEVIATION = math.sqrt(
    sum(n * (x - _TOKENS_MEAN) ** 2 for n, x in zip(_TOKENS, _APART, strict=True)) / 54  # 55 tokens, less 1
)

# In the first pivot's family 4, 1, 1: mean 2, deviation sqrt(6 / 2); in the second 7, 1: mean 4, deviation sqrt(18)
_FAMILIES = (2, -1, -1, 3, -3)
_FAMILIES_DEVIATION = [math.sqrt(3) + 1e-6] * 3 + [math.sqrt(18) + 1e-6] * 2

# In the whole tree 1, -2, 4, -2, 1, -2 with sqrt(30 / 5); in the trees 4, 1 (mean 5/2), then 1, 4, 1 (mean 2), then 7
_TREES = [
    1 / (math.sqrt(6) + 1e-6) + 1.5 / (math.sqrt(4.5) + 1e-6),
    -2 / (math.sqrt(6) + 1e-6) - 1 / (math.sqrt(3) + 1e-6),
    4 / (math.sqrt(6) + 1e-6),
    -2 / (math.sqrt(6) + 1e-6) - 1.5 / (math.sqrt(4.5) + 1e-6),
    1 / (math.sqrt(6) + 1e-6) + 2 / (math.sqrt(3) + 1e-6),
    -2 / (math.sqrt(6) + 1e-6) - 1 / (math.sqrt(3) + 1e-6),
]
# Values less the prompt's: of the first's start (1 - 2) / 2, of the second's (-2 + 1 - 2) / 3, of an end its own
_SEGMENTS = [
    [(-1 / 2 - 1 / 2) / math.sqrt(2)] * 3 + [1 + (1 + 1 / 2)] * 3,
    [(-1 - 1) / math.sqrt(3)] * 2 + [-2 + (-2 + 1)] * 4,
    4 + 4,
    -2 + (-2 + 1 / 2),
    1 + (1 + 1),
    -2 + (-2 + 1),
]
# Rewards less their mean that make the code copy a step: the first's start has (1 + 2 sqrt(2) - 1) / 2 / sqrt(2) = 1,
# as its end, whose step of 0 gives way to the 1 of before. The second's start: (-1 + 3 - 1) / 3 / sqrt(3)
_COPIED = [1, -1, -1 - 2 * math.sqrt(2), 2 * math.sqrt(2) - 1, 3, -1]
_START = 1 / 3 / math.sqrt(3)
_CODE_SEGMENTS = [
    6 / 5 * (1 + 1),  # leave-one-out: n / (n - 1) = 6/5 of the distance to the mean
    [6 / 5 * (_START + _START)] * 2 + [6 / 5 * (-1 + (-1 - _START))] * 4,
    6 / 5 * 2 * (-1 - 2 * math.sqrt(2)),
    6 / 5 * (2 * math.sqrt(2) - 1 + (2 * math.sqrt(2) - 1 - 1)),
    6 / 5 * (3 + (3 - _START)),
    6 / 5 * (-1 + (-1 - _START)),
]


def by_fork(tokens: int, fork: float, other: float) -> list[float]:
    """Numbers of tokens that are forks, every fourth one from the first on, and of the others."""
    return [other if t % 4 else fork for t in range(tokens)]


def late(t: int, length: int) -> float:
    """The report's bonus at the t-th token, from 0, of a path of that length: 0.1 sigmoid(15 (l - 0.5))."""
    return 0.1 / (1 + math.exp(-15 * (t / length - 0.5)))


def early(t: int, length: int) -> float:
    """0.9 sigmoid(-15 (l - 0.25))."""
    return 0.9 / (1 + math.exp(15 * (t / length - 0.25)))


def by_rate(rate: float) -> float:
    """The weight of a success where that share succeeds."""
    return 0.4 + (1.5 - 0.4) / (1 + math.exp(10 * (rate - 0.75)))


# Log-perplexities, the mean and the deviation (over n) of the six that are valid
_LOG_PPL = [0.3, 0.9, 0.3, 0.6, 0.9, 0.5]
_PPL_MEAN = (0.3 + 0.9 + 0.3 + 0.6 + 0.9 + 0.5) / 6
_PPL_DEVIATION = math.sqrt((0.09 + 0.81 + 0.09 + 0.36 + 0.81 + 0.25) / 6 - _PPL_MEAN**2)
# Were the one that was cut off at 1.8: quartiles 0.375 and 0.9 reach from below 0 to 0.9 + 1.5 * 0.525 = 1.69, and 1.8
# is less than two deviations off. Of the other five the mean is 0.6 and the deviation sqrt(4 * 0.09 / 5); 0.3 makes
# 1 + 0.1 * 1.118, 0.9 as much less, and 1.8 four times that
_OUTLIER = replace(ROOTS, logprobs_GT=[*ROOTS.logprobs_GT[:5], 3.6 * ROOTS.logprobs_GT[5], *ROOTS.logprobs_GT[6:]])
_OFF = 0.1 * 0.3 / math.sqrt(4 * 0.09 / 5)

# Where all succeed alike. Plain ones have -0.3, -0.3, -0.6, -0.5 with the mean -1.7/4, the seeded ones both -0.9
_ALIKE = replace(ROOTS, rewards_G=np.where(ROOTS.valid_G, 4.0, np.nan), success_G=ROOTS.valid_G)
_BONUS = [0, 0, 0, 0.3, 0, 2.5 * (1 - math.exp(-0.5 + 1.7 / 4))]  # the fourth's, 2.5 * 0.16, is capped

CASES = {
    "group_mean": Case(GroupMean(), times(1 / (math.sqrt(6) + 1e-6), _LESS_MEAN)),
    "group_mean without std": Case(GroupMean(std=False), _LESS_MEAN, scale=1),
    "group_mean without epsilon": Case(GroupMean(epsilon=0.0), times(1 / math.sqrt(6), _LESS_MEAN), scale=0),
    "group_mean by conditioning": Case(
        GroupMean(std=False, per_conditioning=True), _BY_CONDITIONING, scale=1, ordered=False
    ),
    "no_baseline": Case(
        NoBaseline(), [4, 4, 1, 1, 7, 1, 0], shift=False, scale=1, still=False, dissent=False, compares=False
    ),
    # less (4 + 1 + 1) / 3. Without a greedy member all get 0
    "greedy": Case(GreedyBaseline(), [0, 2, 0, -1, 5, -1, 0, 0], on=[GREEDY], scale=1, ordered=False, dissent=False),
    # less the mean of the other five: they sum to 18 - 4, 18 - 1, 18 - 7; of a pair, less the other
    "leave_one_out": Case(
        LeaveOneOut(),
        [4 - 14 / 5, 4 - 14 / 5, 1 - 17 / 5, 1 - 17 / 5, 7 - 11 / 5, 1 - 17 / 5, 0, 4 - 1, 1 - 4],
        on=[ROOTS, PAIR],
        scale=1,
    ),
    # two of six succeed. Not ordered among failures: without a success all get 0
    "maxrl": Case(MaxRL(), times(1 / (2 / 6), _LESS_MEAN), scale=1, ordered=False),
    # a problem that every pair solves counts as solved
    "passk": Case(
        PassK(k=2),
        [*((best - _PAIRS) / (_PAIRS_DEVIATION + 1e-6) for best in _IN_PAIRS), 0],
        ordered=False,
        dissent=False,
    ),
    "passk without epsilon": Case(
        PassK(k=3, epsilon=0.0),
        [*((best - _THREES) / _THREES_DEVIATION for best in _IN_THREES), 0],
        scale=0,
        ordered=False,
        dissent=False,
    ),
    # twice the mean lead: a 4 leads the three 1 by 3, nobody else; the 7 leads three by 6, two by 3
    "passk, pkpo": Case(
        PassK(k=2, variant="pkpo"),
        [2 * 9 / 5, 2 * 9 / 5, 0, 0, 2 * (18 + 6) / 5, 0, 0],
        scale=1,
        dissent=False,
    ),
    # one of one is leave-one-out
    "passk, pkpo of one": Case(
        PassK(k=1, variant="pkpo"),
        [4 - 14 / 5, 4 - 14 / 5, 1 - 17 / 5, 1 - 17 / 5, 7 - 11 / 5, 1 - 17 / 5, 0],
        scale=1,
    ),
    "passk, pkpo centred": Case(
        PassK(k=2, variant="pkpo_centred"),
        [*(2 * (best - _PAIRS) for best in _IN_PAIRS), 0],
        scale=1,
        ordered=False,
        dissent=False,
    ),
    "reinforce_pp": Case(ReinforcePP(epsilon=0.0), times(1 / _APART_DEVIATION, _APART), on=[ROOTS, SIBLINGS], scale=0),
    "reinforce_pp without group mean": Case(
        ReinforcePP(group_mean=False),
        [(reward - 32 / 11) / (_TOGETHER_DEVIATION + 1e-8) for reward in _TOGETHER],
        on=[ROOTS, SIBLINGS],
    ),
    "reinforce_pp by tokens": Case(
        ReinforcePP(weight="token", epsilon=0.0),
        [(x - _TOKENS_MEAN) / _TOKENS_DEVIATION if n else 0 for n, x in zip(_TOKENS, _APART, strict=True)],
        on=[ROOTS, SIBLINGS],
        scale=0,
        lengths=True,
    ),
    "siblings_mean": Case(SiblingsMean(), _FAMILIES, on=[SIBLINGS], scale=1),
    "siblings_mean with std": Case(
        SiblingsMean(std=True),
        [a / deviation for a, deviation in zip(_FAMILIES, _FAMILIES_DEVIATION, strict=True)],
        on=[SIBLINGS],
    ),
    "tree_grpo": Case(TreeGrpo(), _TREES, on=[TREE]),
    "tree_values": Case(TreeValues(), _SEGMENTS, on=[TREE], scale=1),
    "tree_values of the released code": Case(
        TreeValues(variant="treerl_code"), _CODE_SEGMENTS, on=[worked("tree", [3 + x for x in _COPIED])], scale=1
    ),
    # a quarter for each token after 8 - 4, at most all; the third is 7 long
    "overlong": Case(
        Overlong(max_tokens=8, buffer=4, weight=2.0),
        [4 - 2 * 1 / 4, 4 - 2 * 2 / 4, 1 - 2 * 3 / 4, 1, 7 - 2 * 1 / 4, 1 - 2, np.nan],
        still=False,
    ),
    # lengths 5, 6, 7, 2, 5, 10 between 2 and 10: 1/8, 0, -1/8, 1/2, 1/8, -1/2, and a failure can only lose. The pair
    # has one length
    "brevity": Case(
        Brevity(weight=2.0), [4 + 2 / 8, 4, 1 - 2 / 8, 1, 7, 1 - 2 / 2, np.nan, 4, 1], on=[ROOTS, PAIR], still=False
    ),
    # floor(0.2 * 32) = 6 tokens. Less the means, -18.8/32 and -1/32, the highest products: where it was cut off, the
    # certain tokens of what earns 7, and two that are equal, of which both
    "covariance": Case(
        Covariance(share=0.2, weight=0.25),
        [1, 1, [-0.5, -2, -2, -2], [-0.5, -2], [4, 1, 1, 1, 1], [-0.5] + [-2] * 9, 0],
        scale=1,
    ),
    # of all, those above 0: now the certain tokens of what is right, too. Where all are as likely, none
    "covariance of every token": Case(
        Covariance(share=1.0),
        [[1] + [0] * 4, [1] + [0] * 5, [0, -2, -2, -2], [0, -2], [4, 0, 0, 0, 0], [0] + [-2] * 9, 0, *_LESS_MEAN],
        on=[ROOTS, replace(ROOTS, logprobs_GT=[np.full(n, -0.1) for n in ROOTS.tokens_G])],
        scale=1,
    ),
    # two of six succeed; what earns 7 is wrong, and above the mean
    "difficulty": Case(
        Difficulty(),
        [by_rate(2 / 6)] * 2 + [-2 * by_rate(4 / 6)] * 2 + [4 * by_rate(2 / 6), -2 * by_rate(4 / 6), 0],
        scale=1,
    ),
    # 0.4 a nat makes 0.56 and 0.08, and a third of the advantage is less than that at forks of what has 1
    "entropy_advantage": Case(
        EntropyAdvantage(kappa=3.0),
        [
            by_fork(5, 1 + 1 / 3, 1.08),
            by_fork(6, 1 + 1 / 3, 1.08),
            by_fork(4, -2 + 0.56, -2 + 0.08),
            by_fork(2, -2 + 0.56, -2 + 0.08),
            by_fork(5, 4 + 0.56, 4 + 0.08),
            by_fork(10, -2 + 0.56, -2 + 0.08),
            0,
        ],
    ),
    # of the pair, 0.9 and 0.3 are one deviation off
    "perplexity": Case(
        Perplexity(weight=0.3),
        [
            *(a * (1 - 0.3 * (x - _PPL_MEAN) / _PPL_DEVIATION) for a, x in zip(_LESS_MEAN, _LOG_PPL, strict=False)),
            0,
            1.5 * (1 - 0.3),
            -1.5 * (1 + 0.3),
        ],
        on=[ROOTS, PAIR],
        scale=1,
    ),
    "perplexity as the released code has it": Case(
        Perplexity(weight=0.1, drop_outliers=True, clamp=(0.8, 1.1)),
        [1.1, 1 - _OFF, -2 * 1.1, -2, 4 * (1 - _OFF), -2 * 0.8, 0],
        on=[_OUTLIER],
        scale=1,
    ),
    # by the verdict: what earns 7 is wrong
    "polarity": Case(Polarity(positive=0.1, negative=0.5), [0.1, 0.1, -1, -1, 2, -1, 0], scale=1),
    # the third begins after 3 of 7
    "position": Case(
        Position(),
        [
            [1 + late(t, 5) for t in range(5)],
            [1 + late(t, 6) for t in range(6)],
            [-2 - late(t, 7) for t in range(3, 7)],
            [-2 - late(t, 2) for t in range(2)],
            [4 + late(t, 5) for t in range(5)],
            [-2 - late(t, 10) for t in range(10)],
            0,
        ],
    ),
    # half of 1 is less than the bonus of early tokens, half of 2 and of 4 is not
    "position with a cap, in this step alone": Case(
        Position(weight=0.9, slope=-15, midpoint=0.25, cap=0.5, first_step=STEP, steps=1),
        [
            [1 + min(early(t, 5), 0.5) for t in range(5)],
            [1 + min(early(t, 6), 0.5) for t in range(6)],
            [-2 - early(t, 7) for t in range(3, 7)],
            [-2 - early(t, 2) for t in range(2)],
            [4 + early(t, 5) for t in range(5)],
            [-2 - early(t, 10) for t in range(10)],
            0,
        ],
    ),
    "position, a step too late": Case(Position(first_step=STEP - 9, steps=9), _LESS_MEAN, scale=1),
    # the mean is -3.5/6. The first is likelier; the second would get 2.5 (1 - exp(-0.9 + 3.5/6)) = 0.68, which is more
    # than half of 1; the right one of the pair gets 2.5 (1 - exp(-0.9 + 0.6)) = 0.65, less than half of 1.5
    "novelty": Case(
        Novelty(), [1, 1 + 0.5, -2, -2, 4, -2, 0, 1.5 + 2.5 * (1 - math.exp(-0.9 + 0.6)), -1.5], on=[ROOTS, PAIR]
    ),
    "novelty below its cap": Case(Novelty(cap=1.0), [1, 1 + 2.5 * (1 - math.exp(-0.9 + 3.5 / 6)), -2, -2, 4, -2, 0]),
    # nothing where not all of them succeed. Where they differ, who is less likely than the plain ones is below the mean
    "novelty among alike": Case(
        Novelty(degenerate_cap=0.3, per_conditioning=True),
        [*(bonus - sum(_BONUS) / 6 for bonus in _BONUS), 0, *[0] * 7, *_LESS_MEAN],
        on=[_ALIKE, replace(_ALIKE, success_G=ROOTS.success_G), replace(_ALIKE, rewards_G=ROOTS.rewards_G)],
        still=False,
    ),
}
