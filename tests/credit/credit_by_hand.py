"""The arithmetic of credit's examples, where it takes more than a line of ``credit_cases.py``.

From the papers' formulas and the groups of ``credit_groups.py``, never from what the code gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from credit_groups import PAIR, ROOTS


def times(factor: float, numbers: Sequence[float]) -> list[float]:
    return [factor * number for number in numbers]


# The squares of 1, 1, -2, -2, 4 and -2 sum to 30: over 6 - 1, a deviation of sqrt(6)
LESS_MEAN = (1, 1, -2, -2, 4, -2, 0)
# With and without examples in the prompt: means (4 + 7) / 2 of two and 7/4 of four
BY_CONDITIONING = [4 - 7 / 4, 4 - 11 / 2, 1 - 7 / 4, 1 - 7 / 4, 7 - 11 / 2, 1 - 7 / 4, 0]

# The best of a pair: in 3 of 15 it is 1, in 7 it is 4, in 5 it is 7
PAIRS = (3 * 1 + 7 * 4 + 5 * 7) / 15
PAIRS_DEVIATION = math.sqrt((3 * 1 + 7 * 16 + 5 * 49) / 15 - PAIRS**2)
# and of the five pairs of a 4 (three with 1, one with 4, one with 7), of a 1 (two, two, one), of the 7
IN_PAIRS = [(4 * 4 + 7) / 5, (4 * 4 + 7) / 5, (2 + 8 + 7) / 5, (2 + 8 + 7) / 5, 7, (2 + 8 + 7) / 5]
# The best of three: in 1 of 20 it is 1, in 9 it is 4, in 10 it is 7; of a 4 it is 7 in 4 of 10; of a 1, 1 in 1, 7 in 4
THREES = (1 * 1 + 9 * 4 + 10 * 7) / 20
THREES_DEVIATION = math.sqrt((1 * 1 + 9 * 16 + 10 * 49) / 20 - THREES**2)
IN_THREES = [(24 + 28) / 10, (24 + 28) / 10, (1 + 20 + 28) / 10, (1 + 20 + 28) / 10, 7, (1 + 20 + 28) / 10]

# Two groups of 6 and 5 valid members. Less their means, 3 and 14/5: squares of 30 and 294/5, over 11 - 1
APART = [*LESS_MEAN, 6 / 5, -9 / 5, -9 / 5, 21 / 5, -9 / 5]
APART_DEVIATION = math.sqrt((30 + (6**2 + 3 * 9**2 + 21**2) / 25) / 10)
# As they are: mean (18 + 14) / 11, squares (84 + 68) - 32^2 / 11, over 11 - 1
TOGETHER = [4, 4, 1, 1, 7, 1, 32 / 11, 4, 1, 1, 7, 1]  # no verdict: at the mean
TOGETHER_DEVIATION = math.sqrt((152 - 32**2 / 11) / 10)
# By tokens, 5, 6, 4, 2, 5, 10 and 4, 4, 8, 4, 3 of them: the mean is (11 - 32 + 20) + (24 - 108 + 84 - 27) / 5 over 55
TOKENS = (5, 6, 4, 2, 5, 10, 0, 4, 4, 8, 4, 3)
TOKENS_MEAN = (-1 - 27 / 5) / 55
TOKENS_DEVIATION = math.sqrt(
    sum(n * (x - TOKENS_MEAN) ** 2 for n, x in zip(TOKENS, APART, strict=True)) / 54  # 55 tokens, less 1
)

# In the first pivot's family 4, 1, 1: mean 2, deviation sqrt(6 / 2); in the second 7, 1: mean 4, deviation sqrt(18)
FAMILIES = (2, -1, -1, 3, -3)
FAMILIES_DEVIATION = [math.sqrt(3) + 0.5] * 3 + [math.sqrt(18) + 0.5] * 2

# In the whole tree 1, -2, 4, -2, 1, -2 with sqrt(30 / 5); in the trees 4, 1 (mean 5/2), then 1, 4, 1 (mean 2), then 7
TREES = [
    1 / (math.sqrt(6) + 0.5) + 1.5 / (math.sqrt(4.5) + 0.5),
    -2 / (math.sqrt(6) + 0.5) - 1 / (math.sqrt(3) + 0.5),
    4 / (math.sqrt(6) + 0.5),
    -2 / (math.sqrt(6) + 0.5) - 1.5 / (math.sqrt(4.5) + 0.5),
    1 / (math.sqrt(6) + 0.5) + 2 / (math.sqrt(3) + 0.5),
    -2 / (math.sqrt(6) + 0.5) - 1 / (math.sqrt(3) + 0.5),
]
# Values less the prompt's: of the first's start (1 - 2) / 2, of the second's (-2 + 1 - 2) / 3, of an end its own
SEGMENTS = [
    [(-1 / 2 - 1 / 2) / math.sqrt(2)] * 3 + [1 + (1 + 1 / 2)] * 3,
    [(-1 - 1) / math.sqrt(3)] * 2 + [-2 + (-2 + 1)] * 4,
    4 + 4,
    -2 + (-2 + 1 / 2),
    1 + (1 + 1),
    -2 + (-2 + 1),
]
# Rewards less their mean that make the code copy a step: the first's start has (1 + 2 sqrt(2) - 1) / 2 / sqrt(2) = 1,
# as its end, whose step of 0 gives way to the 1 of before. The second's start: (-1 + 3 - 1) / 3 / sqrt(3)
COPIED = [1, -1, -1 - 2 * math.sqrt(2), 2 * math.sqrt(2) - 1, 3, -1]
START = 1 / 3 / math.sqrt(3)
CODE_SEGMENTS = [
    6 / 5 * (1 + 1),  # leave-one-out: n / (n - 1) = 6/5 of the distance to the mean
    [6 / 5 * (START + START)] * 2 + [6 / 5 * (-1 + (-1 - START))] * 4,
    6 / 5 * 2 * (-1 - 2 * math.sqrt(2)),
    6 / 5 * (2 * math.sqrt(2) - 1 + (2 * math.sqrt(2) - 1 - 1)),
    6 / 5 * (3 + (3 - START)),
    6 / 5 * (-1 + (-1 - START)),
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
    """The weight of an advantage above 0 where that share succeeds: from 2 down to 0.5, half-way at 0.6."""
    return 0.5 + (2.0 - 0.5) / (1 + math.exp(8 * (rate - 0.6)))


# One right token of -2.0 and four wrong ones of -1.0 in the mean
ONE_AND_FOUR = replace(
    PAIR, tokens_G=np.array([1, 4]), logprobs_GT=[np.array([-2.0]), np.array([-1.3, -0.7, -1.0, -1.0])]
)

# Log-perplexities, the mean and the deviation (over n) of the six that are valid
LOG_PPL = [0.3, 0.9, 0.3, 0.6, 0.9, 0.5]
PPL_MEAN = (0.3 + 0.9 + 0.3 + 0.6 + 0.9 + 0.5) / 6
PPL_DEVIATION = math.sqrt((0.09 + 0.81 + 0.09 + 0.36 + 0.81 + 0.25) / 6 - PPL_MEAN**2)
# Were the one that was truncated at 1.8: quartiles 0.375 and 0.9 reach from below 0 to 0.9 + 1.5 * 0.525 = 1.69, and
# 1.8 is less than two deviations off. Of the other five the mean is 0.6 and the deviation sqrt(4 * 0.09 / 5); 0.3 makes
# 1 + 0.1 * 1.118, 0.9 as much less, and 1.8 four times that
OUTLIER = replace(ROOTS, logprobs_GT=[*ROOTS.logprobs_GT[:5], 3.6 * ROOTS.logprobs_GT[5], *ROOTS.logprobs_GT[6:]])
OFF = 0.1 * 0.3 / math.sqrt(4 * 0.09 / 5)

# Three quarters of the first member's mean advantage
CAP = 0.75 * (3 * 2.5 - 3 / math.sqrt(2)) / 6
# Where all succeed alike. Plain ones have -0.3, -0.3, -0.6, -0.5 with the mean -1.7/4, the seeded ones both -0.9
ALIKE = replace(ROOTS, rewards_G=np.where(ROOTS.valid_G, 4.0, np.nan), success_G=ROOTS.valid_G)
BONUS = [0, 0, 0, 0.3, 0, 2.5 * (1 - math.exp(-0.5 + 1.7 / 4))]  # the fourth's, 2.5 * 0.16, is capped

BOXED = replace(
    ROOTS,
    token_texts_GT=[
        np.array(["so \\boxed{", "\\frac{1}", "{2}", "}, or ", "\\boxed{3}"]),
        np.array(["4"] * 6),
        np.array(["\\boxed{", "1", "2", "3"]),
        *(np.array(["7"] * n) for n in ROOTS.tokens_G[3:]),
    ],
)
