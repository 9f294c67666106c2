"""Every stage with its promises and a step that was worked by hand: what ``test_stages.py`` goes by.

A new stage joins by one entry in ``CASES``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from worked_steps import Worked

from outrider.explore import (
    Branch,
    Choose,
    Commit,
    Cures,
    EntropyBranch,
    Greedy,
    Hint,
    Invest,
    Keep,
    Knapsack,
    Prefixed,
    Prioritise,
    Rebalance,
    Refill,
    Replay,
    Seed,
    Sift,
    Skip,
    Stage,
    Uniform,
    Vip,
)
from outrider.testing.stages import StageClaims

Sizes = Sequence[int]

EVERY = {"chunk": {"tokens": 1}}
STEP = {"delimiter": {"marks": ["\n\n"]}}


class Case(NamedTuple):
    """A stage and its promise.

    Attributes:
        stage: makes a new one.
        budget: the rollouts it asks for in a step, from the sizes of the groups that it finds; the most it may ask
            for, unless ``exact``.
        by_hand: steps that were worked by hand, at least one.
        exact: it asks for no fewer either.
        first: it samples problems that have no rollouts. Any other stage finds groups that have some.
        single: it leaves out single rollouts, for reasons of their own.
    """

    stage: Callable[[], Stage]
    budget: Callable[[Sizes], int]
    by_hand: Sequence[Worked]
    exact: bool = False
    first: bool = False
    single: bool = False

    @property
    def claims(self) -> StageClaims:
        """What the laws of ``outrider.testing`` need."""
        return StageClaims(self.stage, self.budget, self.first, self.exact, self.single)


CASES = {
    # Of the right ones a1 and a2 are the best of a, then b0: three of four, and the wrong one of most entropy
    "keep": Case(
        lambda: Keep(most=4, by="entropy", noise=0.25, per_problem=2),
        lambda sizes: 0,
        [
            Worked(
                {"a": "111", "b": "10", "c": "00"},
                drops={"a0": "keep: beyond the most", "b1": "keep: beyond the most", "c0": "keep: beyond the most"},
                entropies={
                    "a0": [0.2, 0.4, 0.6],
                    "a1": [1.0],
                    "a2": [0.5, 0.5],
                    "b0": [0.1],
                    "b1": [0.9, 0.9],
                    "c0": [0.3],
                    "c1": [2.0],
                },
            )
        ],
        exact=True,
        single=True,
    ),
    "keep what is right": Case(
        lambda: Keep(by="chance"),
        lambda sizes: 0,
        [
            Worked(
                {"a": "1e0", "b": "0"},
                drops={"a1": "keep: unscorable", "a2": "keep: incorrect", "b0": "keep: incorrect"},
            )
        ],
        exact=True,
        single=True,
    ),
    # the engine of these examples finds all alike: lots decide which one stays, and it is always one
    "keep by branching": Case(
        lambda: Keep(most=9, by="branching", mass=0.5),
        lambda sizes: 0,
        [Worked({"a": "11", "b": "0"}, drops={"b0": "keep: incorrect"})],
        exact=True,
        single=True,
    ),
    # a failure has an answer
    "sift": Case(
        lambda: Sift(digit=False, redundancy=0.5),
        lambda sizes: 0,
        [Worked({"a": "1e0", "b": "t"}, drops={"a1": "sift: unscorable"})],
        exact=True,
        single=True,
    ),
    "uniform": Case(
        lambda: Uniform(n=3),
        lambda sizes: 3 * len(sizes),
        [Worked({"a": "", "b": ""}, [{"a": 3, "b": 3}])],
        exact=True,
        first=True,
    ),
    "hint": Case(
        lambda: Hint(n=3, shares=[0.5], template="{question} {hint}"),
        lambda sizes: 3 * len(sizes),
        [Worked({"a": "", "b": ""}, [{"a": 3, "b": 3}])],
        exact=True,
        first=True,
    ),
    # E sqrt(p (1 - p)) of Beta(1, 1) is pi / 8 = 0.393, of Beta(64, 1) 64 B(64.5, 1.5) = 0.109, of Beta(4, 1) 0.344.
    # Above the floor of 2, nine are left: w / sqrt(n (n + 1)) is a 0.160, c 0.140, a 0.113, c 0.099, a 0.088, c 0.077,
    # a 0.072, c 0.063, a 0.061; b begins with 0.044.
    "cures": Case(
        lambda: Cures(n=5, min_n=2, max_n=9),
        lambda sizes: 5 * len(sizes),
        [Worked(dict.fromkeys("abc", ""), [{"a": 7, "b": 2, "c": 6}], earlier=[{"b": 63 * "1", "c": "111"}])],
        exact=True,
        first=True,
    ),
    # Of 40 successes 12 are left when the last comes: 14 B(14.5, 1.5) = 0.219. The third of the four rollouts above
    # the floor of 2 goes to b for 0.219 / sqrt(2 3) = 0.0894, before a for 0.393 / sqrt(4 5) = 0.0878. With all 41 of
    # them b would have value 0.133, and would get none of the four.
    "cures that forgets": Case(
        lambda: Cures(n=4, memory=0.3),
        lambda sizes: 4 * len(sizes),
        [Worked({"a": "", "b": ""}, [{"a": 5, "b": 3}], earlier=[{"b": 40 * "1"}, {"b": "1"}])],
        exact=True,
        first=True,
    ),
    # The mean of sqrt(p (1 - p)) is 0.368 of Beta(1, 3), 0.399 of Beta(10, 3), 0.304 of Beta(1, 6). Nine are left above
    # the floor of 1: b 0.282, a 0.260, c 0.215, b 0.163, a 0.150, c 0.124, b 0.115, a 0.106, b 0.089
    "cures, hard beforehand": Case(
        lambda: Cures(n=4, min_n=1, prior=(1.0, 3.0)),
        lambda sizes: 4 * len(sizes),
        [Worked(dict.fromkeys("abc", ""), [{"a": 4, "b": 5, "c": 3}], earlier=[{"b": 9 * "1", "c": "000"}])],
        exact=True,
        first=True,
    ),
    # 20 rollouts, of which 12 are floors and the new problem's 4. A quarter is enough at log(0.1) / log(0.75) = 8.004
    # above the floor, as three quarters are, so the 8 left all go to a and b. p^n (1 - p) + (1 - p)^n p is the same of
    # both, 0.188, 0.117, 0.082, …; times p (1 - p)^2: a 0.0264, 0.0165, 0.0115, b 0.0088, a 0.0084, 0.0063, b 0.0055,
    # a 0.0047
    "knapsack": Case(
        lambda: Knapsack(n=4, max_n=9, known=4),
        lambda sizes: 4 * len(sizes),
        [
            Worked(
                dict.fromkeys("abcde", ""),
                [{"a": 8, "b": 4, "c": 2, "d": 2, "e": 4}],
                earlier=[{"a": "1000", "b": "1110", "c": "0000", "d": "1111", "e": "101"}],
            )
        ],
        exact=True,
        first=True,
    ),
    # The last four of a are 0011; log(0.2) / log(0.5) = 2.3 rollouts above the floor are enough, and b has the rest
    "knapsack, to spare": Case(
        lambda: Knapsack(n=5, min_n=1, max_n=12, window=4, known=3, chance=0.8),
        lambda sizes: 5 * len(sizes),
        [
            Worked(
                dict.fromkeys("abc", ""),
                [{"a": 3, "b": 11, "c": 1}],
                earlier=[{"a": "0000", "b": "000"}, {"a": "11", "c": "111"}],
            )
        ],
        exact=True,
        first=True,
    ),
    # Of the six above the floors b may have four, the solved ones have the others
    "knapsack, capped": Case(
        lambda: Knapsack(n=4, max_n=6, known=2),
        lambda sizes: 4 * len(sizes),
        [Worked(dict.fromkeys("abc", ""), [{"a": 3, "b": 6, "c": 3}], earlier=[{"a": "11", "b": "00", "c": "11"}])],
        exact=True,
        first=True,
    ),
    # The level: mean (1/2 + 0 + 1 + 1/2) / 4 = 1/2, spread (1/3 + 1/6) / 4 = 1/8, half of the 1/4 it might be, so
    # Beta(1/2, 1/2). E[p (1 - p)] is 5/24 for a, 3/40 for b and c, 1/8 for d, and over n (n - 1) what a rollout takes
    # off: a 0.1042, d 0.0625, b and c 0.0375, a 0.0347, d 0.0208, a 0.0174, b and c 0.0125, a and d 0.0104, a 0.0069
    "invest": Case(
        lambda: Invest(n=5, max_n=7),
        lambda sizes: 7 * len(sizes),
        [
            Worked(
                dict.fromkeys("abcd", ""),
                [{"a": 7, "b": 4, "c": 4, "d": 5}],
                earlier=[{"a": "1100", "b": "0000", "c": "1111"}],
            )
        ],
        first=True,
    ),
    # A success has 2 z / (n - 1), so the variance is 4 (E[p^2 q] / (n - 1) + E[p q^2]) / n, the two being 5/48 for a,
    # 0.0161 and 0.0589 for b, the other way round for c, and 1/16 for d. A quarter of what a rollout takes off from the
    # third: a 0.0174, d 0.0104, a 0.0087, b 0.0063, c 0.0063, a 0.0052, d 0.0052, b 0.00348, a 0.00347
    "invest, the best of two": Case(
        lambda: Invest(n=5, min_n=3, max_n=8, k=2),
        lambda sizes: 8 * len(sizes),
        [
            Worked(
                dict.fromkeys("abcd", ""),
                [{"a": 6, "b": 5, "c": 4, "d": 5}],
                earlier=[{"a": "1100", "b": "0000", "c": "1111"}],
            )
        ],
        first=True,
    ),
    # As for invest below, E[p (1 - p)] is 1/8 for d, as for any new problem, 5/24 for a, 3/40 for b and c
    "choose": Case(
        lambda: Choose(enough=1.0),
        lambda sizes: 0,
        [
            Worked(
                dict.fromkeys("abcd", ""),
                passes={"a": 1.0, "b": 0.6, "c": 0.6, "d": 1.0},
                earlier=[{"a": "1100", "b": "0000", "c": "1111"}],
            )
        ],
        exact=True,
    ),
    "choose, seldom": Case(
        lambda: Choose(enough=0.8, floor=0.8),
        lambda sizes: 0,
        [
            Worked(
                dict.fromkeys("abcd", ""),
                passes={"a": 1.0, "b": 0.8, "c": 0.8, "d": 1.0},
                earlier=[{"a": "1100", "b": "0000", "c": "1111"}],
            )
        ],
        exact=True,
    ),
    # E[p (1 - p)^2] of Beta(a, b) is a b (b + 1) / (n (n + 1) (n + 2)) with n = a + b: with Beta(1/2, 1/2) for d 1/16,
    # Beta(5/2, 5/2) for a 5/48, Beta(1/2, 9/2) for b 33/560, and Beta(9/2, 1/2) for c 9/560
    "choose, best of two": Case(
        lambda: Choose(enough=1.0, k=2),
        lambda sizes: 0,
        [
            Worked(
                dict.fromkeys("abcd", ""),
                passes={"a": 1.0, "b": 33 / 35, "c": 9 / 35, "d": 1.0},
                earlier=[{"a": "1100", "b": "0000", "c": "1111"}],
            )
        ],
        exact=True,
    ),
    # One of two, so 1 (3 + 2) / (1 + 1) = 2.5 new problems to be expected; then no attempts are left. A quarter and
    # three quarters are within the band
    "commit": Case(
        lambda: Commit(n=3, target=2, low=0.25, attempts=1),
        lambda sizes: len(sizes) * max(sizes, default=0) + 2 * 3,
        [
            Worked(
                {"a": "1000", "b": "1111", "c": "0000", "d": "|0111", "e": "|1111", "f": "|eeee"},
                [{"d": 4, "e": 4, "f": 4}, {"a": 3, "d": 3}],
                drops={
                    "b": "commit: too easy",
                    "c": "commit: too hard",
                    "e": "commit: too easy",
                    "f": "commit: unscorable",
                },
            ),
        ],
    ),
    # 3 of 8 and 4 of 7 are within
    "commit, all of them": Case(
        lambda: Commit(n=5, low=0.3, high=0.6, evict=False),
        lambda sizes: 5 * len(sizes),
        [
            Worked(
                {"a": "10000001", "b": "11100000", "c": "1111000e", "d": "11111000"},
                [{"b": 5, "c": 5}],
                drops={"a": "commit: too hard", "d": "commit: too easy"},
            )
        ],
    ),
    # With so narrow a kernel every problem is by itself: a has 0.5 0.5 = 0.25, b 0.05 0.95 = 0.0475, and c, which is
    # new, what a has. 1 / (n - 1) - 1 / n is 0.167, 0.083, 0.05 after the floor of 3, so the six above the floors go
    # to a and c for 0.042, 0.021 and 0.0125 each, before the 0.0079 of b
    "vip": Case(
        lambda: Vip(n=5, max_n=12, bandwidth=0.05),
        lambda sizes: 5 * len(sizes),
        [Worked(dict.fromkeys("abc", ""), [{"a": 6, "b": 3, "c": 6}], earlier=[{"a": "1100", "b": "0000"}])],
        exact=True,
        first=True,
    ),
    # logit 0.1 = -2.197. b's terms are the, question, b, "the question" and "question b", of which c has three, and
    # two that are new, which weigh 1 + log 2 = 1.693: cos = 3 / sqrt(5 (3 + 2 1.693^2)) = 0.454, so K is
    # exp(0.454 - 1) = 0.579 and c's rate that of -1.272, 0.219. The ten above the floors, by 0.171 / (n (n - 1)) for c
    # and 0.09 / (n (n - 1)) for b: c 0.0285, b 0.0150, c 0.0142, c 0.0085, b 0.0075, c 0.0057, b 0.0045, c 0.0041,
    # c 0.0031, b 0.0030
    "vip, alike": Case(
        lambda: Vip(n=8, bandwidth=1.0, epsilon=0.1),
        lambda sizes: 8 * len(sizes),
        [Worked(dict.fromkeys("bc", ""), [{"b": 7, "c": 9}], earlier=[{"b": "0000"}])],
        exact=True,
        first=True,
    ),
    # By itself again. (n - 1) / n^2 falls by 0.0275, 0.0211, 0.0164, 0.0131 after the floor of 4: a, of 0.25, has
    # 0.0069, 0.0053, 0.0041 and 0.0033, b, of 0.09, 0.0025
    "vip, dr_grpo": Case(
        lambda: Vip(
            n=6, min_n=4, estimator="dr_grpo", embed={"tfidf": {"analyzer": "char"}}, bandwidth=0.01, epsilon=0.1
        ),
        lambda sizes: 6 * len(sizes),
        [Worked(dict.fromkeys("ab", ""), [{"a": 8, "b": 4}], earlier=[{"b": "0000"}])],
        exact=True,
        first=True,
    ),
    # Half of the ten tokens of a's success. b was solved half of the time, c is solved now, of d nothing can be said
    "prefixed": Case(
        lambda: Prefixed(n=2, prefixes=1, low=0.2, move=0.1),
        lambda sizes: 2 * len(sizes),
        [
            Worked(
                {"a": "0000", "b": "0000", "c": "0001", "d": "eeee"},
                [{"a0@5": 2}],
                earlier=[{"a": "1000", "b": "0101", "c": "1000", "d": "1000"}],
                surprisals={"a0": 10 * [0.0]},
            )
        ],
    ),
    # Three cuts at 0.6 of ten tokens, which is 6, and of three, which is 1.8
    "prefixed, drawn": Case(
        lambda: Prefixed(n=3, low=0.6, high=0.6, given=True, stream="branch"),
        lambda sizes: 3 * 3 * len(sizes),
        [
            Worked(
                {"a": "000", "b": "00e"},
                [{"a2@6": 9, "b0@1": 9}],
                earlier=[{"a": "0010"}, {"b": "1000"}, {"c": "1"}],
                surprisals={"a2": 10 * [0.0]},
                stream="branch",
            )
        ],
    ),
    # a's last success. b was solved half of the time, c is solved now, of d nothing can be said, f's is too old
    "replay": Case(
        lambda: Replay(oldest=1),
        lambda sizes: len(sizes),
        [
            Worked(
                {"a": "0000", "b": "0000", "c": "0001", "d": "eeee", "f": "0000"},
                [{"a": 1}],
                earlier=[{"f": "1000"}, {"a": "1000", "b": "0101", "c": "1000", "d": "1000"}],
            )
        ],
    ),
    "replay, of a stream": Case(
        lambda: Replay(stream="branch"),
        lambda sizes: len(sizes),
        [Worked({"a": "00"}, [{"a": 1}], earlier=[{"a": "010"}, {"a": "000"}], stream="branch")],
    ),
    # 52 are left, 26 a round. First: a has h(4) - h(5) = 3.182 (0.577 / 2) - 2.776 (0.577 / 2.236) = 0.202, b nothing,
    # and both the bonus 0.1 sqrt(log(27) / 4) = 0.091: shares 0.763 and 0.237. Then 12 of 24: 0.00485 + 0.03706 for a,
    # and 0.05741 for b: 10.97 and 15.03.
    "prioritise": Case(
        lambda: Prioritise(total=60),
        lambda sizes: 60 - sum(sizes) if sizes else 0,
        [Worked({"a": "1100|" + 10 * "10", "b": "1111|" + 6 * "1"}, [{"a": 20, "b": 6}, {"a": 11, "b": 15}])],
        exact=True,
    ),
    # 84 are left, 28 a round, for two of equal n and no spread among plain rollouts: halves. Whom examples have helped
    # needs none any more, and its seeded success counts in no interval.
    "prioritise, seeding": Case(
        lambda: Prioritise(total=90, rounds=3, cumulative=True, bonus=1.0, pool_seeded=False, seed=Seed(capacity=20)),
        lambda sizes: 90 - sum(sizes) if sizes else 0,
        [
            Worked(
                {"a": "000|1", "b": "000"},
                [{"a seeded": 14, "b seeded": 14}, {"a": 14, "b seeded": 14}, {"a": 14, "b seeded": 14}],
                earlier=[{"c": "1"}],
            )
        ],
        exact=True,
    ),
    # Three are left: two, then one. a, whose interval shrinks by 0.5345 (0.836 - 0.7687) = 0.036, has 0.036 + 0.2
    # sqrt(log(3) / 8) = 0.110, b 0.2 sqrt(log(3) / 2) = 0.148. Then a has 0.028 + 0.2 sqrt(log(2) / 9) = 0.084, b 0.096
    "prioritise, an odd number": Case(
        lambda: Prioritise(total=13, bonus=0.2),
        lambda sizes: max(0, 13 - sum(sizes)) if sizes else 0,
        [Worked({"a": "11110000|0", "b": "11|1"}, [{"a": 1, "b": 1}, {"b": 1}])],
        exact=True,
    ),
    # At 80 % it shrinks by 0.5345 (0.5003 - 0.4656) = 0.0185 (at 95 % by 0.036). With all 11 of the step in the bonus,
    # b is ahead by 0.05 sqrt(log(12)) (0.7071 - 0.3536) = 0.0279; with the one of the round it would be by 0.0147
    "prioritise, cumulative": Case(
        lambda: Prioritise(total=11, rounds=1, bonus=0.05, confidence=0.8, cumulative=True),
        lambda sizes: max(0, 11 - sum(sizes)) if sizes else 0,
        [Worked({"a": "11110000", "b": "11"}, [{"b": 1}])],
        exact=True,
    ),
    "prioritise, unsolved": Case(
        lambda: Prioritise(total=60, skip_solved=True),
        lambda sizes: 60 - sum(sizes),
        [Worked({"a": "1111", "b": "0000"}, [{"b": 26}, {"b": 26}])],
    ),
    # n^2 / h with h = 2 successes, 1 for none: 64 for a, capped at 16; 64 / 6 = 10.7 for b. Of seven that can be
    # scored, 49 and 49 / 6 = 8.2; the eighth was paid for, so the cap leaves 8 to a, and b wants 9 - 7
    "rebalance": Case(
        lambda: Rebalance(n_max=16),
        lambda sizes: sum(16 - n for n in sizes),
        [
            Worked({"a": "00000000", "b": "11100000", "c": "11110000"}, [{"a": 8, "b": 3}]),
            Worked({"a": "0000000e", "b": "1110000e"}, [{"a": 8, "b": 2}]),
        ],
    ),
    # sqrt(n^2 (2n - h) / h) = sqrt(64 15 / 1) = 30.98 for a, sqrt(64 12 / 4) = 13.9 for b
    "rebalance, std": Case(
        lambda: Rebalance(std=True, n_max=40),
        lambda sizes: sum(40 - n for n in sizes),
        [Worked({"a": "00000000", "b": "11000000"}, [{"a": 23, "b": 6}])],
    ),
    # sqrt(n^4 / (h (2n - h))) = sqrt(2401 / 48) = 7.07 for b; the cap is 12 - 0.3 5 = 10.5, which is 11
    "rebalance, falling": Case(
        lambda: Rebalance(schedule="et", std=True, n_max=12, n_max_end=7),
        lambda sizes: sum(12 - n for n in sizes),
        [Worked({"a": "0000000", "b": "1110000"}, [{"a": 4, "b": 1}], progress=0.3)],
    ),
    # the cap is 8 + 0.75 6 = 12.5, which is 13
    "rebalance, rising": Case(
        lambda: Rebalance(n_max=8, n_max_end=14),
        lambda sizes: sum(14 - n for n in sizes),
        [Worked({"a": "00000000", "b": "11100000"}, [{"a": 5, "b": 3}], progress=0.75)],
    ),
    # 1 of 3 is mixed: 2 (3 + 2) / (1 + 1) = 5 problems to be expected, but one per missing group; then 2 of 5 are, and
    # 1 (5 + 2) / (2 + 1) = 3, but one
    "refill": Case(
        lambda: Refill(attempts=2, oversample=1),
        lambda sizes: 2 * len(sizes) * max(sizes, default=0),
        [
            Worked(
                {"a": "10", "b": "11", "c": "00", "d": "|10", "e": "|11", "f": "|00"},
                [{"d": 2, "e": 2}, {"f": 2}],
                drops={"b": "refill: solved", "c": "refill: unsolved", "e": "refill: solved", "f": "refill: unsolved"},
            )
        ],
    ),
    # 4 of 6 mixed, two missing to 6: 2 (6 + 2) / (4 + 1) = 3.2, so four
    "refill to a target": Case(
        lambda: Refill(target=6, attempts=1),
        lambda sizes: max(sizes, default=0) * 3 * 6,
        [
            Worked(
                {
                    "a": "10",
                    "b": "11",
                    "c": "01",
                    "d": "10",
                    "e": "00",
                    "f": "01",
                    "g": "|10",
                    "h": "|01",
                    "i": "|e0",
                    "j": "|00",
                },
                [{"g": 2, "h": 2, "i": 2, "j": 2}],
                drops=dict.fromkeys("eij", "refill: unsolved") | {"b": "refill: solved"},
            )
        ],
    ),
    # 0 of 2 are mixed: 2 (2 + 2) / (0 + 1) = 8 to be expected, but three per missing group
    "refill, few wanted": Case(
        lambda: Refill(target=2, n=3, attempts=1),
        lambda sizes: 3 * 2 * 3,
        [
            Worked(
                {"a": "00", "b": "11", "c": "|100", "d": "|011", "e": "|ttt", "f": "|eee", "g": "|1ee", "h": "|0te"},
                [dict.fromkeys("cdefgh", 3)],
                drops=dict.fromkeys("ah", "refill: unsolved")
                | dict.fromkeys("bg", "refill: solved")
                | {"e": "refill: truncated", "f": "refill: unscorable"},
            )
        ],
    ),
    "refill, only drop": Case(
        lambda: Refill(attempts=0),
        lambda sizes: 0,
        [Worked({"a": "10", "b": "1e", "c": "0"}, drops={"b": "refill: solved", "c": "refill: unsolved"})],
        exact=True,
    ),
    "refill, all that is mixed": Case(
        lambda: Refill(target=1, attempts=0, surplus="keep"),
        lambda sizes: 0,
        [Worked({"a": "10", "b": "01", "c": "0"}, drops={"c": "refill: unsolved"})],
        exact=True,
    ),
    # a: solved twice in a row, 0.5^2; b: first unsolved, then solved; c: then mixed; d: one rollout agrees with no
    # other; e: 0.5^8, but not below the floor
    "skip": Case(
        lambda: Skip(),
        lambda sizes: 0,
        [
            Worked(
                dict.fromkeys("abcde", ""),
                passes={"a": 0.25, "b": 0.5, "c": 1.0, "d": 1.0, "e": 0.1},
                earlier=[
                    {"a": "11", "b": "00", "c": "11", "d": "1", "e": "00"},
                    {"a": "11", "b": "11", "c": "10", "e": "00"},
                    *6 * [{"e": "00"}],
                ],
            )
        ],
        exact=True,
    ),
    "skip, seldom": Case(
        lambda: Skip(keep=0.7, floor=0.3),
        lambda sizes: 0,
        [
            Worked(
                dict.fromkeys("ab", ""),
                passes={"a": 0.49, "b": 0.3},
                earlier=[*2 * [{"a": "11", "b": "00"}], *3 * [{"b": "00"}]],
            )
        ],
        exact=True,
    ),
    # the ends of a response of three segments are no cuts; an unscorable one has not failed
    "branch": Case(
        lambda: Branch(segment=STEP, pivots=2, branches=3),
        lambda sizes: 2 * 3 * sum(sizes),
        [Worked({"a": "10te"}, [{"a1@1": 3, "a1@2": 3, "a2@1": 3, "a2@2": 3}], stream="branch")],
    ),
    # (3/4)^1000 to (2/4)^1000: the last cut, whatever the lot
    "branch, deep": Case(
        lambda: Branch(segment=EVERY, select={"utility": {"gamma": 1000}}, branches=2),
        lambda sizes: 2 * sum(sizes),
        [Worked({"a": "01"}, [{"a0@3": 2}], surprisals={"a0": 4 * [0.0]}, stream="branch")],
    ),
    # four pivots of three branches are 12, so one whole pivot is excluded
    "branch, capped": Case(
        lambda: Branch(which="all", segment=EVERY, branches=3, cap=10),
        lambda sizes: 9,
        [Worked({"a": "1001"}, [{"a": 9}], stream="branch")],
    ),
    # before the tokens of 4 and 3 nats; the first token is no cut. Then before those of 2 and 1
    "branch at surprises": Case(
        lambda: Branch(which="all", segment=EVERY, select="surprisal", pivots=2, branches=2, rounds=2, stream="main"),
        lambda sizes: 2 * 2 * 2 * sum(sizes),
        [
            Worked(
                {"a": "1"},
                [{"a0@2": 2, "a0@4": 2}, {"a0@3": 2, "a0@1": 2}],
                surprisals={"a0": [9, 1, 4, 2, 3]},
                entropies={"a0": [9, 8, 1, 7, 2]},
            )
        ],
    ),
    "branch at entropy": Case(
        lambda: Branch(segment=EVERY, select="entropy", branches=2),
        lambda sizes: 2 * sum(sizes),
        [
            Worked(
                {"a": "01"},
                [{"a0@3": 2}],
                surprisals={"a0": [9, 1, 4, 2, 3]},
                entropies={"a0": [9, 1, 5, 7, 2]},
                stream="branch",
            )
        ],
    ),
    # looked back to: 0.1, 0.5, 0.3, and the last four segments, which are too near the end, by nothing; four fifths
    # of the eight have less than 0.1 + 0.6 (0.3 - 0.1) = 0.22
    "branch by attention": Case(
        lambda: Branch(segment=STEP, select={"attention": {"distance": 1}}, pivots=2, branches=2),
        lambda sizes: 4 * sum(sizes),
        [
            Worked(
                {"a": "10"},
                [{"a1@2": 2, "a1@3": 2}],
                surprisals={"a0": 8 * [0.0], "a1": 8 * [0.0]},
                attention=[0.9, 0.1, 0.5, 0.3],
                stream="branch",
            )
        ],
    ),
    # of 4, ceil(4 e^-0.75) = 2: the failure and one of the others; of 5, ceil(5 e^-0.2) = 5
    "branch by accuracy": Case(
        lambda: Branch(which="by_accuracy", segment=STEP, select="attention", pivots=2, branches=2),
        lambda sizes: 4 * sum(sizes),
        [Worked({"a": "1110", "b": "00001"}, [{"a": 2 * 4, "b": 5 * 4}], stream="branch")],
    ),
    # no cut in a single token, so two new trees; then a pivot in each of the four
    "branch anywhere": Case(
        lambda: Branch(which="all", segment=STEP, select="uniform", branches=1, rounds=2),
        lambda sizes: 3 * sum(sizes),  # half of the first round may be new trees
        [Worked({"a": "10"}, [{"a": 2}, {"a": 4}], surprisals={"a0": [0.0], "a1": [0.0]}, stream="branch")],
    ),
    # 2, 4, 8 rollouts, and the ninth anywhere
    "branch at boundaries": Case(
        lambda: Branch(
            which="all", segment=EVERY, select={"boundary": {"depth": 2, "width": 9}}, pivots=9, branches=1, rounds=3
        ),
        lambda sizes: sum(9 - n for n in sizes),
        [
            Worked(
                {"a": "10"},
                [{"a0@1": 1, "a1@1": 1}, {f"a{member}@2": 1 for member in range(4)}, {"a": 1}],
                stream="branch",
            )
        ],
        exact=True,
    ),
    "branch at the prompt": Case(
        lambda: Branch(select="root", branches=2),
        lambda sizes: 2 * sum(sizes),
        [Worked({"a": "10", "b": "11"}, [{"a": 2}], stream="branch")],
    ),
    # the root begins with 10 nats; behind its cuts there are 25, 40 and 40, so it divides at each; its branches have 0
    "entropy_branch": Case(
        lambda: EntropyBranch(segment=EVERY, tokens=2, total=9),
        lambda sizes: sum(9 - n for n in sizes),
        [Worked({"a": "0"}, [{"a0@1": 1}, {"a0@2": 1}, {"a0@3": 1}, {"a": 5}], entropies={"a0": [10, 10, 40, 40]})],
        exact=True,
    ),
    # The response begins with 1.1 over two tokens. 0.4 + 0.6 (1.4 - 1.1) = 0.58 is below 0.62, with 1.6 it is 0.7;
    # compared with its first token alone it would be 0.64, with all of it 0.48 and 0.6
    "entropy_branch, threshold": Case(
        lambda: EntropyBranch(
            segment=STEP, tokens=2, alpha=0.4, beta=0.6, threshold=0.62, branches=2, total=8, stream="branch"
        ),
        lambda sizes: sum(8 - n for n in sizes),
        [Worked({"a": "0"}, [{"a0@2": 2}, {"a": 5}], entropies={"a0": [1.0, 1.2, 1.6]}, stream="branch")],
        exact=True,
    ),
    "greedy": Case(
        lambda: Greedy(max_tokens=8), len, [Worked({"a": "10", "b": "0"}, [{"a greedy": 1, "b greedy": 1}])], exact=True
    ),
}
