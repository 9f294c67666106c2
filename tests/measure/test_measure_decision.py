"""How many problems decide: counts by hand, removal by brute force, power by simulation, Holm by its closure."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from outrider.measure import Tally, bootstrap_mean
from outrider.measure.decision import (
    decide,
    decisive_problems,
    differences,
    distinguishable,
    holm,
    paired_p,
    problems_needed,
    samples_needed,
)
from outrider.measure.tally import TallyEntry


def tally(successes: int, n: int = 8, lost: int = 0) -> Tally:
    """``n`` verified samples, and ``lost`` that the verifier failed on."""
    outcomes = ["correct"] * successes + ["incorrect"] * (n - successes) + ["timeout"] * lost
    return Tally.count("p", "", [TallyEntry(outcome, "", False, 1, 0.0, 0) for outcome in outcomes], [])


def test_problems_are_counted_by_their_pass_rates_whatever_their_samples():
    pairs = [
        (tally(0), tally(8)),
        (tally(8), tally(0)),
        (tally(4), tally(5)),
        (tally(2), tally(1, 4)),
        (tally(3), tally(3)),
    ]
    pairs += [(tally(1, 3), tally(2, 6)), (tally(0, 0, lost=8), tally(8))]
    found = decide(pairs)
    # 2 of 8 and 1 of 4 are equal, and 1 of 3 and 2 of 6, whose quotients are the same number; the last has no pass rate
    assert (found.won, found.lost, found.tied) == (2, 1, 3)
    assert (found.clearly_won, found.clearly_lost) == (1, 1)
    assert found.difference.problems == 6
    assert found.difference.value == pytest.approx((1 - 1 + 1 / 8) / 6)


def test_without_pairs_nothing_is_known():
    found = decide([(tally(0, 0), tally(3))])
    assert (found.won, found.lost, found.tied, found.clearly_won, found.clearly_lost) == (0,) * 5
    assert math.isnan(found.difference.value)
    assert (found.decisive, found.needed_problems, found.needed_samples) == (None,) * 3


def test_only_what_is_undecided_needs_more():
    decided = decide([(tally(2), tally(6))] * 9 + [(tally(3), tally(3))] * 11)
    assert decided.decisive is not None
    assert (decided.needed_problems, decided.needed_samples) == (None, None)
    undecided = decide([(tally(2), tally(6)), (tally(6), tally(3))] * 4)
    assert undecided.decisive is None
    assert undecided.needed_problems == problems_needed([0.5, -3 / 8] * 4)
    assert undecided.needed_problems > 8


# the few that carry the difference

CHANGES = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.125, 0.25, 0.5, 1.0]), min_size=2, max_size=60)


@given(CHANGES, st.sampled_from([1.0, -1.0]))
@settings(deadline=None, max_examples=60)
def test_one_problem_fewer_would_leave_the_difference_and_so_many_do_not(changes, sign):
    changes = [sign * (change + 0.2) for change in changes]
    count = decisive_problems(changes, resamples=400)
    there = bootstrap_mean(changes, 400)
    assert (count is None) == (not there.excludes_zero)
    if count is not None:
        assert 1 <= count <= len(changes)
        order = sorted(changes, reverse=there.value > 0)
        # of all problems the interval is that above: another order of the same values has other resamples
        ends = [bootstrap_mean(order[without:], 400) if without else there for without in (count - 1, count)]
        assert ends[0].excludes_zero
        assert ends[0].value * there.value > 0
        assert not (ends[1].excludes_zero and ends[1].value * there.value > 0)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_first_number_by_counting_up(seed):
    rng = np.random.default_rng(seed)
    changes = rng.choice([-0.5, -0.25, 0.0, 0.25, 0.5], 80, p=[0.05, 0.1, 0.5, 0.2, 0.15])
    order = np.sort(changes)[::-1]
    first = next(m for m in range(80) if not bootstrap_mean(order[m:], 500).low > 0)
    assert first > 0
    assert decisive_problems(changes, resamples=500) == first


# problems that differ by themselves


def test_among_many_problems_without_a_difference_none_is_named_in_nearly_all_cases():
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(100):
        counts = rng.binomial(16, np.repeat(rng.uniform(0, 1, 40), 2)).reshape(40, 2)
        named += bool(distinguishable([(tally(int(b), 16), tally(int(a), 16)) for b, a in counts]).any())
    assert named <= 8  # 5 expected at most; exact tests of counts are below that


def test_a_clear_problem_among_unclear_ones_is_found_by_its_exact_p_value():
    pairs = [(tally(0, 16), tally(16, 16)), *[(tally(7, 16), tally(9, 16))] * 20]
    assert distinguishable(pairs).tolist() == [True] + [False] * 20
    assert not distinguishable([(tally(0, 4), tally(4, 4)), (tally(2, 4), tally(2, 4))])[0]  # 2 * 2 / 70 > 0.05
    assert distinguishable([(tally(0, 4), tally(4, 4))])[0]  # 2 / 70 < 0.05


# power


def test_so_many_problems_detect_the_difference_with_the_power_that_is_promised():
    rng = np.random.default_rng(1)
    changes = rng.choice([-0.5, 0.0, 0.5, 0.75], 400, p=[0.2, 0.5, 0.2, 0.1])
    needed = problems_needed(changes)
    drawn = rng.choice(changes, (4000, needed))
    t = drawn.mean(axis=1) / drawn.std(axis=1, ddof=1) * math.sqrt(needed)
    assert np.mean(t > 1.96) == pytest.approx(0.8, abs=0.03)


def test_so_many_samples_detect_the_difference_with_the_power_that_is_promised():
    """The pass rates of the problems are given, and samples of them drawn again and again."""
    rng = np.random.default_rng(2)
    before, after = np.tile(rng.uniform(0.2, 0.7, 150), (2, 1))
    after = after + 0.02
    needed = [
        samples_needed([(tally(int(b), 4), tally(int(a), 4)) for b, a in zip(*drawn, strict=True)])
        for drawn in zip(rng.binomial(4, before, (300, 150)), rng.binomial(4, after, (300, 150)), strict=True)
        if drawn[1].mean() - drawn[0].mean() == pytest.approx(4 * 0.02, abs=0.01)  # the difference was seen as it is
    ]
    n = int(np.median([one for one in needed if one is not None]))
    changes = (rng.binomial(n, after, (3000, 150)) - rng.binomial(n, before, (3000, 150))) / n
    t = changes.mean(axis=1) / changes.std(axis=1, ddof=1) * math.sqrt(150)
    assert np.mean(t > 1.96) == pytest.approx(0.8, abs=0.06)


def test_no_number_of_samples_is_enough_where_problems_differ_too_much_by_themselves():
    """All pass rates are 0 or 1: sampling adds no variance, so more samples take none away."""
    pairs = [(tally(0), tally(8))] * 5 + [(tally(8), tally(0))] * 4
    assert samples_needed(pairs) is None
    assert problems_needed(differences(pairs, 1)) == math.ceil(2.801585**2 * np.var([1] * 5 + [-1] * 4, ddof=1) * 81)
    assert samples_needed([(tally(0, 1), tally(1, 1))] * 9) is None  # one sample tells the two variances not apart
    assert problems_needed([0.5, -0.5]) is None
    assert problems_needed([0.5]) is None


# tests


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=7))
def test_holm_is_the_closure_of_bonferroni(p_values):
    """A hypothesis is rejected where every set that holds it is, by its smallest p-value times its size."""
    known = [i for i, p in enumerate(p_values) if not math.isnan(p)]
    sets = [s for size in range(1, len(known) + 1) for s in combinations(known, size)]
    for i, adjusted in enumerate(holm(p_values)):
        if i not in known:
            assert math.isnan(adjusted)
        else:
            expected = max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in sets if i in s)
            assert adjusted == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.125, 0.5, math.nan]), max_size=30))
def test_the_paired_p_value_is_students_and_never_below_that_of_flipped_signs(changes):
    found = paired_p(changes)
    known = [change for change in changes if not math.isnan(change)]
    if len(known) < 2:
        assert math.isnan(found)
    elif not any(known):
        assert found == 1
    elif len(set(known)) == 1:
        assert found == 2.0 ** (1 - len(known))
    else:
        flips = 2.0 ** (1 - sum(map(bool, known)))
        assert found == pytest.approx(max(flips, float(ttest_1samp(known, 0).pvalue)), rel=1e-9)
