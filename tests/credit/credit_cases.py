"""Every component of credit: an example that was worked by hand, and the laws that it keeps. The laws are in
``outrider.testing``, and ``test_credit_matrix.py`` holds every component to them.

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
wrong, truncated             1         -2           10          -0.5
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

import credit_by_hand as hand
import numpy as np
from credit_groups import GREEDY, PAIR, ROOTS, SIBLINGS, TREE, worked

from outrider.credit import (
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
    Imitation,
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
    Quantile,
    ReinforcePP,
    Shrinkage,
    SiblingsMean,
    Smoothing,
    StatedGoal,
    TreeGrpo,
    TreeValues,
    UniformCorrect,
    UntilBox,
)
from outrider.testing.credit import STEP, CreditClaims


class Case(NamedTuple):
    """A component, an example of it, and the laws that its chain keeps beside the rules that all keep.

    Attributes:
        by_hand: for each member of the example one number, or one per token where they differ. Of a baseline, the
            advantages; of a shaper, what it makes of those of ``after``; of a reward shaper, the rewards.
        on: the groups of the example, one step's. Their members follow each other.
        after: the baseline before a shaper: rewards less their mean, or one that tells tokens apart (``TreeValues`` on
            ``TREE`` gives ``credit_by_hand.SEGMENTS``).
        shift: a constant added to all rewards changes nothing.
        scale: the power of s in A(s r) = s^power A(r) for s > 0; None: no such law, an epsilon is in the way.
        still: equal rewards leave exactly 0. Not so where a component finds something else to compare, such as lengths.
        ordered: of members without branches, a better reward never has the lower advantage.
        dissent: a lone success and a lone failure have the largest advantage of their group.
        compares: a reward means something only beside others.
        lengths: a member's advantage is another where the others are longer.
    """

    component: Link
    by_hand: Sequence[float | Sequence[float]]
    on: Sequence[Members] = (ROOTS,)
    after: Baseline = GroupMean(std=False)
    shift: bool = True
    scale: int | None = None
    still: bool = True
    ordered: bool = True
    dissent: bool = True
    compares: bool = True
    lengths: bool = False

    @property
    def claims(self) -> CreditClaims:
        """What the laws of ``outrider.testing`` need."""
        keeps = {"still": self.still, "compares": self.compares, "ordered": self.ordered, "dissent": self.dissent}
        return CreditClaims(self.component, self.shift, self.scale, **keeps, alike=not self.lengths)


CASES = {
    "group_mean": Case(GroupMean(), hand.times(1 / (math.sqrt(6) + 1e-6), hand.LESS_MEAN)),
    "group_mean without std": Case(GroupMean(std=False), hand.LESS_MEAN, scale=1),
    "group_mean without epsilon": Case(GroupMean(epsilon=0.0), hand.times(1 / math.sqrt(6), hand.LESS_MEAN), scale=0),
    "group_mean by conditioning": Case(
        GroupMean(std=False, per_conditioning=True), hand.BY_CONDITIONING, scale=1, ordered=False
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
    "imitation": Case(
        Imitation(), [1, 1, 1, 1, 1, 1, 0], scale=0, still=False, ordered=False, dissent=False, compares=False
    ),
    # two of six succeed. Not ordered among failures: without a success all get 0
    "maxrl": Case(MaxRL(), hand.times(1 / (2 / 6), hand.LESS_MEAN), scale=1, ordered=False),
    # a problem that every pair solves counts as solved
    "passk": Case(
        PassK(k=2),
        [*((best - hand.PAIRS) / (hand.PAIRS_DEVIATION + 1e-6) for best in hand.IN_PAIRS), 0],
        ordered=False,
        dissent=False,
    ),
    # in step 250 of 600 the second of three values of k: 2
    "annealed_passk": Case(
        AnnealedPassK(first=3, steps=600),
        [*((best - hand.PAIRS) / (hand.PAIRS_DEVIATION + 1e-6) for best in hand.IN_PAIRS), 0],
        ordered=False,
        dissent=False,
    ),
    "annealed_passk, down to two of PKPO": Case(
        AnnealedPassK(first=5, last=2, steps=9, variant="pkpo"),
        [2 * 9 / 5, 2 * 9 / 5, 0, 0, 2 * (18 + 6) / 5, 0, 0],
        scale=1,
        dissent=False,
    ),
    "annealed_passk, down to two of PKPO, centred": Case(
        AnnealedPassK(first=5, last=2, steps=9, variant="pkpo_centred"),
        [*(2 * (best - hand.PAIRS) for best in hand.IN_PAIRS), 0],
        scale=1,
        ordered=False,
        dissent=False,
    ),
    "passk without epsilon": Case(
        PassK(k=3, epsilon=0.0),
        [*((best - hand.THREES) / hand.THREES_DEVIATION for best in hand.IN_THREES), 0],
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
        [*(2 * (best - hand.PAIRS) for best in hand.IN_PAIRS), 0],
        scale=1,
        ordered=False,
        dissent=False,
    ),
    # 0.4 of six are less than three, and the third lowest is 1; 0.6 less than four, and the fourth is 4. A dissenter
    # from what the quantile expects moves, and nobody else
    "quantile": Case(Quantile(), hand.times(1 / (math.sqrt(6) + 1e-6), (3, 3, 0, 0, 6, 0, 0)), dissent=False),
    "quantile of the better half": Case(
        Quantile(share=0.6, epsilon=0.0), hand.times(1 / math.sqrt(6), (0, 0, -3, -3, 3, -3, 0)), scale=0, dissent=False
    ),
    # 1, 1, 1, 4, 4, 7: a quarter of the way from the third to the fourth
    "quantile of the released code": Case(
        Quantile(share=0.45, interpolate=True, std=False),
        (2.25, 2.25, -0.75, -0.75, 5.25, -0.75, 0),
        scale=1,
        dissent=False,
    ),
    "reinforce_pp": Case(
        ReinforcePP(epsilon=0.0), hand.times(1 / hand.APART_DEVIATION, hand.APART), on=[ROOTS, SIBLINGS], scale=0
    ),
    "reinforce_pp without group mean": Case(
        ReinforcePP(group_mean=False),
        [(reward - 32 / 11) / (hand.TOGETHER_DEVIATION + 1e-8) for reward in hand.TOGETHER],
        on=[ROOTS, SIBLINGS],
    ),
    "reinforce_pp by tokens": Case(
        ReinforcePP(weight="token", epsilon=0.0),
        [
            (x - hand.TOKENS_MEAN) / hand.TOKENS_DEVIATION if n else 0
            for n, x in zip(hand.TOKENS, hand.APART, strict=True)
        ],
        on=[ROOTS, SIBLINGS],
        scale=0,
        lengths=True,
    ),
    # six and two count, four on average: leave-one-out times 4 / 6 and times 4 / 2
    "stated_goal": Case(
        StatedGoal(),
        [*hand.times(4 / 6, (4 - 14 / 5, 4 - 14 / 5, 1 - 17 / 5, 1 - 17 / 5, 7 - 11 / 5, 1 - 17 / 5, 0)), 6, -6],
        on=[ROOTS, PAIR],
        scale=1,
    ),
    # twice the mean lead, see passk, pkpo; of the pair the better one leads by 3
    "stated_goal of the best of two": Case(
        StatedGoal(k=2),
        [*hand.times(4 / 6, (2 * 9 / 5, 2 * 9 / 5, 0, 0, 2 * (18 + 6) / 5, 0, 0)), 4 / 2 * 6, 0],
        on=[ROOTS, PAIR],
        scale=1,
        dissent=False,
    ),
    # a group beside two that have the same mean is compared with that. A pair beside means of 3 and 2.5, whose squared
    # deviation is 1/16, and variances of 6 and 4.5, of which half the mean is 21/8: drawn to 11/4 by 42/43
    "shrinkage": Case(
        Shrinkage(),
        [1.5, 1.5, -1.5, -1.5, 4.5, -1.5, 0, *(2 * [(3 + 42 * 5 / 4) / 43, (-3 - 42 * 7 / 4) / 43])],
        on=[ROOTS, PAIR, PAIR],
        scale=1,
    ),
    "siblings_mean": Case(SiblingsMean(), hand.FAMILIES, on=[SIBLINGS], scale=1),
    "siblings_mean with std": Case(
        SiblingsMean(std=True, epsilon=0.5),
        [a / deviation for a, deviation in zip(hand.FAMILIES, hand.FAMILIES_DEVIATION, strict=True)],
        on=[SIBLINGS],
    ),
    "tree_grpo": Case(TreeGrpo(epsilon=0.5), hand.TREES, on=[TREE]),
    "tree_values": Case(TreeValues(), hand.SEGMENTS, on=[TREE], scale=1),
    "tree_values of the released code": Case(
        TreeValues(variant="treerl_code"),
        hand.CODE_SEGMENTS,
        on=[worked("tree", [3 + x for x in hand.COPIED])],
        scale=1,
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
    # floor(0.2 * 32) = 6 tokens. Less the means, -18.8/32 and -1/32, the highest products: where it was truncated, the
    # certain tokens of what earns 7, and two that are equal, of which both
    "covariance": Case(
        Covariance(share=0.2, weight=0.25),
        [1, 1, [-0.5, -2, -2, -2], [-0.5, -2], [4, 1, 1, 1, 1], [-0.5] + [-2] * 9, 0],
        scale=1,
    ),
    # of all, those above 0: now the certain tokens of what is right, too. Where all are as likely, none. In the last
    # group the means over tokens are -1.2 and -0.9 (those over members -1.5 and 0): only (-1.3 + 1.2) (-1.5 + 0.9) > 0
    "covariance of every token": Case(
        Covariance(share=1.0),
        [
            *([1] + [0] * 4, [1] + [0] * 5, [0, -2, -2, -2], [0, -2], [4, 0, 0, 0, 0], [0] + [-2] * 9, 0),
            *hand.LESS_MEAN,
            *(1.5, [0, -1.5, -1.5, -1.5]),
        ],
        on=[ROOTS, replace(ROOTS, logprobs_GT=[np.full(n, -0.1) for n in ROOTS.tokens_G]), hand.ONE_AND_FOUR],
        scale=1,
    ),
    # by the sign of a token, whatever the verdict. Two of six succeed
    "difficulty": Case(
        Difficulty(low=0.5, high=2.0, midpoint=0.6, slope=8.0),
        [
            [-1 / math.sqrt(2) * hand.by_rate(4 / 6)] * 3 + [5 / 2 * hand.by_rate(2 / 6)] * 3,
            [-2 / math.sqrt(3) * hand.by_rate(4 / 6)] * 2 + [-3 * hand.by_rate(4 / 6)] * 4,
            8 * hand.by_rate(2 / 6),
            -7 / 2 * hand.by_rate(4 / 6),
            3 * hand.by_rate(2 / 6),
            -3 * hand.by_rate(4 / 6),
        ],
        on=[TREE],
        after=TreeValues(),
        scale=1,
    ),
    # half of the entropy, 0.7 at forks and 0.1 elsewhere, but at most a third of the token's advantage
    "entropy_advantage": Case(
        EntropyAdvantage(weight=0.5, kappa=3.0),
        [
            [-2 / 3 / math.sqrt(2), *[-1 / math.sqrt(2) + 0.1] * 2, 2.5 + 0.1, 2.5 + 0.7, 2.5 + 0.1],
            [-4 / 3 / math.sqrt(3), -2 / math.sqrt(3) + 0.1, -3 + 0.1, -3 + 0.1, -3 + 0.7, -3 + 0.1],
            hand.by_fork(5, 8 + 0.7, 8 + 0.1),
            hand.by_fork(3, -3.5 + 0.7, -3.5 + 0.1),
            hand.by_fork(4, 3 + 0.7, 3 + 0.1),
            hand.by_fork(4, -3 + 0.7, -3 + 0.1),
        ],
        on=[TREE],
        after=TreeValues(),
    ),
    # of the pair, 0.9 and 0.3 are one deviation off
    "perplexity": Case(
        Perplexity(weight=0.3),
        [
            *(
                a * (1 - 0.3 * (x - hand.PPL_MEAN) / hand.PPL_DEVIATION)
                for a, x in zip(hand.LESS_MEAN, hand.LOG_PPL, strict=False)
            ),
            0,
            1.5 * (1 - 0.3),
            -1.5 * (1 + 0.3),
        ],
        on=[ROOTS, PAIR],
        scale=1,
    ),
    "perplexity as the released code has it": Case(
        Perplexity(weight=0.1, drop_outliers=True, clamp=(0.8, 1.1)),
        [1.1, 1 - hand.OFF, -2 * 1.1, -2, 4 * (1 - hand.OFF), -2 * 0.8, 0],
        on=[hand.OUTLIER],
        scale=1,
    ),
    # with k = 3, u(c) of n is 3 (n - c + 1) (n - c + 2) / ((n + 2) (n + 3)): 2 of 6 has 30 / 42 of the value of 1 of 6,
    # and 2 of 2 has value 0.3, less than 0.11 of 3
    "boundary_gate": Case(
        BoundaryGate(k=3, threshold=0.11),
        [*hand.times(30 / 42, hand.LESS_MEAN), 1.5, -1.5, 0, 0],
        on=[ROOTS, PAIR, replace(PAIR, success_G=np.array([True, True]), rewards_G=np.array([4.0, 1.0]))],
        scale=1,
    ),
    # two of six succeed; of the pair, one
    "focal": Case(
        Focal(gamma=2.0),
        [*hand.times((4 / 6) ** 2, hand.LESS_MEAN), 1.5 / 4, -1.5 / 4],
        on=[ROOTS, PAIR],
        scale=1,
    ),
    # by the verdict, whatever the sign of a token: the third is wrong and has 8
    "polarity": Case(
        Polarity(positive=0.1, negative=0.5),
        [
            [-0.1 / math.sqrt(2)] * 3 + [0.25] * 3,
            [-1 / math.sqrt(3)] * 2 + [-1.5] * 4,
            4,
            -1.75,
            0.3,
            -1.5,
        ],
        on=[TREE],
        after=TreeValues(),
        scale=1,
    ),
    # the third begins after 3 of 7
    "position": Case(
        Position(),
        [
            [1 + hand.late(t, 5) for t in range(5)],
            [1 + hand.late(t, 6) for t in range(6)],
            [-2 - hand.late(t, 7) for t in range(3, 7)],
            [-2 - hand.late(t, 2) for t in range(2)],
            [4 + hand.late(t, 5) for t in range(5)],
            [-2 - hand.late(t, 10) for t in range(10)],
            0,
        ],
    ),
    # at most half of the token's advantage, which is less than the bonus at the first two of the first two members
    "position with a cap, in this step alone": Case(
        Position(weight=0.9, slope=-15, midpoint=0.25, cap=0.5, first_step=STEP, steps=1),
        [
            [-1.5 / math.sqrt(2)] * 2
            + [-1 / math.sqrt(2) - hand.early(2, 6)]
            + [2.5 + hand.early(t, 6) for t in range(3, 6)],
            [-3 / math.sqrt(3)] * 2 + [-3 - hand.early(t, 6) for t in range(2, 6)],
            [8 + hand.early(t, 5) for t in range(5)],
            [-3.5 - hand.early(t, 6) for t in range(3, 6)],
            [3 + hand.early(t, 6) for t in range(2, 6)],
            [-3 - hand.early(t, 6) for t in range(2, 6)],
        ],
        on=[TREE],
        after=TreeValues(),
    ),
    "position, a step too early": Case(Position(first_step=STEP + 1), hand.LESS_MEAN, scale=1),
    "position, a step too late": Case(Position(first_step=STEP - 9, steps=9), hand.LESS_MEAN, scale=1),
    # of the whole responses: 5, 6, 4, 2, 5 and 10 tokens. The fifth earns most and is wrong
    "smoothing": Case(
        Smoothing(correct=0.2, wrong=0.3, likelihood="sum"),
        [
            *(1 + 0.2 * 1.5, 1 + 0.2 * 5.4, -2 - 0.3 * 1.2, -2 - 0.3 * 1.2, 4 - 0.3 * 4.5, -2 - 0.3 * 5, 0),
            *(1.5 + 0.2 * 0.9, -1.5 - 0.3 * 0.3),
        ],
        on=[ROOTS, PAIR],
        still=False,
        compares=False,
    ),
    "smoothing by tokens": Case(
        Smoothing(likelihood="mean"),
        [1 + 0.03, 1 + 0.09, -2 - 0.03, -2 - 0.06, 4 - 0.09, -2 - 0.05, 0],
        still=False,
        compares=False,
    ),
    # of two successes the rarer one has exp(0.6) times the other's share; the lone one of the pair has nobody beside it
    "uniform_correct": Case(
        UniformCorrect(tau=0.5),
        [
            *(0.5 + 1 / (1 + math.exp(0.6)), 0.5 + 1 / (1 + math.exp(-0.6)), -2, -2, 4, -2, 0),
            *(1.5, -1.5),
        ],
        on=[ROOTS, PAIR],
        scale=1,
    ),
    # the first closes its box with the fourth of five tokens; the second has none; the third is not closed
    "until_box": Case(
        UntilBox(),
        [[1] * 4 + [0], 1, -2, -2, 4, -2, 0],
        on=[hand.BOXED],
        scale=1,
    ),
    # the mean is -3.5/6. The first is likelier; the second would get 2.5 (1 - exp(-0.9 + 3.5/6)) = 0.68, which is more
    # than half of 1; the right one of the pair gets 2.5 (1 - exp(-0.9 + 0.6)) = 0.65, less than half of 1.5
    "novelty": Case(
        Novelty(), [1, 1 + 0.5, -2, -2, 4, -2, 0, 1.5 + 2.5 * (1 - math.exp(-0.9 + 0.6)), -1.5], on=[ROOTS, PAIR]
    ),
    # the mean is -4/6. The first would get 2 (1 - exp(-1.2 + 4/6)) = 0.83, but has an advantage of 0.90 in the mean
    "novelty in a tree": Case(
        Novelty(weight=2.0, cap=0.75),
        [
            [-1 / math.sqrt(2) + hand.CAP] * 3 + [2.5 + hand.CAP] * 3,
            [-2 / math.sqrt(3)] * 2 + [-3] * 4,
            8,
            -3.5,
            3 + 2 * (1 - math.exp(-0.9 + 4 / 6)),
            -3,
        ],
        on=[replace(TREE, logprobs_GT=[4 * TREE.logprobs_GT[0], *TREE.logprobs_GT[1:]])],
        after=TreeValues(),
    ),
    # nothing where not all of them succeed. Where they differ, who is less likely than the plain ones is below the mean
    "novelty among alike": Case(
        Novelty(degenerate_cap=0.3, per_conditioning=True),
        [*(bonus - sum(hand.BONUS) / 6 for bonus in hand.BONUS), 0, *[0] * 7, *hand.LESS_MEAN],
        on=[hand.ALIKE, replace(hand.ALIKE, success_G=ROOTS.success_G), replace(hand.ALIKE, rewards_G=ROOTS.rewards_G)],
        still=False,
    ),
}
