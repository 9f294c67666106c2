"""Recoverability by depth: by hand, with chains as the unit of every error."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from study_code import study_code

_code = study_code("_prefixes")
Prefixes, by_depth, relation, resampled = _code.Prefixes, _code.by_depth, _code.relation, _code.resampled


def simulated(chains, slope=-4.0, seed=0, cuts=6):
    """Chains of which each has its own luck, so that its prefixes are alike."""
    random = np.random.default_rng(seed)
    chain = np.repeat(np.arange(chains), cuts)
    depth = random.integers(1, 20, len(chain)) / 20
    luck = np.repeat(random.normal(0, 1.5, chains), cuts)
    rate = 1 / (1 + np.exp(-(slope * depth - 1 + luck)))
    return Prefixes(chain, depth, np.full(len(chain), 8), random.binomial(8, rate))


def test_every_depth_k_of_n_lies_in_the_bin_that_ends_there():
    """Adding widths up would put 0.8 beyond a bin that ends at 0.7 + 0.1 = 0.7999…"""
    for of in (10, 20, 50, 70):
        depth = np.arange(of + 1) / of
        many = Prefixes(np.arange(of + 1), depth, np.full(of + 1, 8), np.zeros(of + 1, np.int64))
        counts = [row.prefixes for row in by_depth(many)]
        assert counts == [of // 10 + 1] + [of // 10] * 9  # depth 0 is in the first
    with pytest.raises(ValueError, match="between 0 and 1"):
        by_depth(Prefixes(*(np.array([x]) for x in (0, 1.5, 8, 0))))


def test_bins_by_hand():
    cuts = Prefixes(
        np.array([0, 0, 1, 1, 2]),
        np.array([0.1, 0.3, 0.5, 0.9, 0.9]),
        np.array([8, 4, 8, 8, 0]),
        np.array([2, 0, 1, 0, 0]),
    )
    first, second = by_depth(cuts, bins=2)
    assert (first.prefixes, first.chains, first.depth, first.share) == (3, 2, pytest.approx(0.3), pytest.approx(2 / 3))
    assert first.rate == pytest.approx(3 / 20)
    assert first.error == pytest.approx(math.sqrt((1 / 3 - 2 / 3) ** 2 + (1 / 3) ** 2) / 3)  # residues per chain: ∓1/3
    for end in (first.share_low, first.share_high):  # Wilson: the share lies 1.96 of the end's standard errors away
        assert abs(2 / 3 - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / 3))
    assert (second.prefixes, second.share) == (1, 0.0)  # the prefix that nobody could verify is excluded
    empty = by_depth(cuts, bins=4)[2]
    assert (empty.prefixes, empty.chains) == (0, 0)
    assert all(map(math.isnan, empty[4:]))


def test_chains_are_the_unit_of_the_error():
    hits = np.tile([1, 0], 50)
    alone = Prefixes(np.arange(100), np.full(100, 0.5), np.full(100, 8), hits)
    assert by_depth(alone)[4].error == pytest.approx(math.sqrt(0.25 / 100))
    twice = Prefixes(*(np.concatenate([column, column]) for column in alone))  # the same chains, seen twice
    assert by_depth(twice)[4].error == pytest.approx(math.sqrt(0.25 / 100))
    mixed = alone._replace(chain_N=np.arange(100) // 2)  # one hit and one miss each: chains do not differ
    assert by_depth(mixed)[4].error == pytest.approx(0)


def test_numbers_are_of_the_verified_prefixes_and_of_bins_with_enough_of_them():
    cuts = simulated(150)
    found, hit = relation(cuts), cuts.successes_N > 0
    rows = [row for row in by_depth(cuts) if row.prefixes >= 20]
    assert len(rows) > 5
    assert found.spearman_of_prefixes == pytest.approx(spearmanr(cuts.depth_N, cuts.successes_N).statistic)
    bins = spearmanr([r.depth for r in rows], [r.share for r in rows]).statistic
    assert found.spearman_of_bins == pytest.approx(bins)
    assert found.auc == pytest.approx(roc_auc_score(hit, -cuts.depth_N))
    fit = LogisticRegression().fit(cuts.depth_N[:, None], hit)
    assert (found.w, found.b) == pytest.approx((fit.coef_[0, 0], fit.intercept_[0]))
    unverified = Prefixes(*(np.append(a, b) for a, b in zip(cuts, (999, 0.99, 0, 0), strict=True)))
    assert relation(unverified) == found


def test_prefixes_that_are_alike_leave_everything_undefined():
    alike = Prefixes(np.arange(30), np.full(30, 0.5), np.full(30, 8), np.zeros(30, np.int64))
    assert all(map(math.isnan, relation(alike)))
    assert all(map(math.isnan, relation(Prefixes(*(np.zeros(0, np.int64) for _ in range(4))))))


def test_intervals_draw_chains_and_hold_the_value():
    cuts = simulated(60)
    found = resampled(cuts, resamples=25)
    for name in ("w", "auc", "spearman_of_prefixes"):
        interval = found.numbers[name]
        assert interval.low < interval.value < interval.high
        assert interval.problems == 60
    assert found.numbers["w"].value == relation(cuts).w
    assert found.z_of_w < 0
    assert found.undefined == 0
    independent = resampled(cuts._replace(chain_N=np.arange(len(cuts.chain_N))), resamples=25)
    assert independent.z_of_w < found.z_of_w  # taken as independent, prefixes seem to say more than they do


def test_draws_without_a_recoverable_prefix_are_counted():
    depth = np.array([0.2, 0.6, 0.4, 0.8])
    found = resampled(Prefixes(np.array([0, 0, 1, 1]), depth, np.full(4, 8), np.array([3, 1, 0, 0])), resamples=20)
    assert found.undefined == 20  # too few for bins in every draw
    assert math.isnan(found.numbers["spearman_of_bins"].low)
    assert found.numbers["auc"].problems == 2
    assert not math.isnan(found.numbers["auc"].low)  # from the draws that hold both chains
