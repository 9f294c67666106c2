"""Cumulative advantage as measured: against loops over groups, the closed forms, and DARS's own table."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.credit import GroupMean, Members
from outrider.explore.rebalance import rollouts_wanted
from outrider.measure.difficulty import cumulative_advantage

NAN = math.nan


def batch(groups):
    """Columns of groups given as lists of successes, with the advantages that training gives them."""
    columns = []
    for number, outcomes in enumerate(groups):
        success = np.array(outcomes, np.bool_)
        members = Members(success.astype(np.float64), success, np.ones(len(outcomes), np.int64))
        columns += [(number, s, a) for s, a in zip(outcomes, GroupMean(std=False).advantages(members), strict=True)]
    return tuple(np.array(column) for column in zip(*columns, strict=True))


@pytest.mark.parametrize("n", [2, 6, 8])
def test_groups_of_one_size_have_the_closed_form_in_a_bin_each(n):
    groups = [[1] * c + [0] * (n - c) for c in range(n + 1) for _ in range(2)]
    found = cumulative_advantage(*batch(groups), bins=n)
    accuracy = np.arange(n + 1) / n
    filled = np.r_[0:n, n + 1]  # the bin below 1 is empty: accuracy 1 has its own
    assert found.groups_B[filled].tolist() == [2] * (n + 1)
    assert found.groups_B[n] == 0
    assert found.high_B[filled] == pytest.approx(accuracy)
    assert found.weight_B[filled] == pytest.approx(2 * n * accuracy * (1 - accuracy), abs=1e-12)
    assert found.error_B[filled] == pytest.approx(0, abs=1e-12)
    assert found.size_B[filled].tolist() == [n] * (n + 1)


@pytest.mark.parametrize(("schedule", "relative"), [("et", 1), ("hw", 2)])
def test_a_schedule_has_its_shape_over_the_accuracy_of_the_first_pass(schedule, relative):
    """A second pass that succeeds as often as the first did lifts the sum to DARS's target, or to its cap."""
    groups, counted = [], []
    for c in range(1, 8):
        size = min(rollouts_wanted(8, c, schedule), 32)
        later = round(c * Fraction(size - 8, 8))
        groups.append([1] * c + [0] * (8 - c) + [1] * later + [0] * (size - 8 - later))
        counted += [True] * 8 + [False] * (size - 8)
    found = cumulative_advantage(*batch(groups), counted_R=counted)
    assert found.groups_B.tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    targets = [4 * (1 if relative == 1 else 2 * (1 - c / 8)) for c in range(1, 4)]
    assert found.weight_B[2:4] == pytest.approx(targets[1:], abs=0.75)  # c = 1 of hw ends at the cap
    assert found.weight_B[4:8] == pytest.approx([16 * c / 8 * (1 - c / 8) for c in range(4, 8)])  # nothing was added
    assert found.size_B[1] == (19 if schedule == "et" else 32)
    everyone = cumulative_advantage(*batch(groups))
    assert everyone.groups_B.sum() == 7


ROLLOUT = st.tuples(
    st.integers(0, 3), st.sampled_from([0.0, 1.0, NAN]), st.sampled_from([-1.5, 0.0, 0.5, NAN]), st.booleans()
)


@given(st.lists(ROLLOUT, min_size=1, max_size=24), st.sampled_from([2, 4, 10]))
@settings(max_examples=40, deadline=None)
def test_equals_a_loop_over_groups(rollouts, bins):
    group, success, advantage, counted = (np.array(column) for column in zip(*rollouts, strict=True))
    found = cumulative_advantage([f"g{g}" for g in group], success, advantage, counted, bins)
    cells, unknown = {}, 0
    for g in set(group.tolist()):
        mine = [r for r in rollouts if r[0] == g]
        told = [s for _, s, _, c in mine if c and not math.isnan(s)]
        if not told:
            unknown += 1
            continue
        accuracy = Fraction(int(sum(told)), len(told))
        edges = [Fraction(b, bins) for b in range(bins + 1)]
        b = bins + 1 if accuracy == 1 else next(i for i, edge in enumerate(edges) if accuracy <= edge)
        weight = sum(abs(a) for _, _, a, _ in mine if not math.isnan(a))
        cells.setdefault(b, []).append((len(mine), weight))
    assert found.unknown == unknown
    assert found.unassigned == sum(math.isnan(a) for _, _, a, _ in rollouts)
    total = sum(weight for cell in cells.values() for _, weight in cell)
    for b in range(bins + 2):
        cell = cells.get(b, [])
        assert found.groups_B[b] == len(cell)
        if cell:
            sizes, weights = zip(*cell, strict=True)
            assert found.size_B[b] == pytest.approx(np.mean(sizes))
            assert found.weight_B[b] == pytest.approx(np.mean(weights))
            error = np.std(weights, ddof=1) / len(weights) ** 0.5 if len(weights) > 1 else NAN
            assert found.error_B[b] == pytest.approx(error, nan_ok=True)
            assert found.share_B[b] == pytest.approx(sum(weights) / total if total else NAN, nan_ok=True)
        else:
            assert math.isnan(found.weight_B[b])


def test_edges_of_thirds_fall_below_the_end_that_they_equal():
    """3 of 30 is 0.1 to the last bit in no float: the bin is decided by integers."""
    found = cumulative_advantage(*batch([[1] * 3 + [0] * 27, [1] * 21 + [0] * 9]), bins=10)
    assert found.groups_B.tolist() == [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_what_is_no_batch_is_refused():
    with pytest.raises(ValueError, match="bins must be even"):
        cumulative_advantage([0], [1], [0.0], bins=5)
    with pytest.raises(ValueError, match="must have equal lengths"):
        cumulative_advantage([0], [1, 0], [0.0])
    with pytest.raises(ValueError, match="0, 1 or NaN"):
        cumulative_advantage([0], [0.5], [0.0])


def test_groups_of_one_problem_make_no_error_smaller():
    """Four problems, each six times with the same outcomes: the error is that of four groups."""
    once = [0, 0, 1, 1, 2, 2, 3, 3], [1, 0] * 4, [0.5, -0.5, 1.0, -1.0, 0.1, -0.2, 0.7, 0.4]
    groups = np.concatenate([np.array(once[0]) + 4 * i for i in range(6)])
    found = cumulative_advantage(once[0], once[1], once[2], bins=2)
    again = cumulative_advantage(groups, once[1] * 6, once[2] * 6, bins=2, problem_R=once[0] * 6)
    at = found.groups_B.argmax()
    assert again.groups_B[at] == 24
    assert (again.weight_B[at], again.error_B[at]) == pytest.approx((found.weight_B[at], found.error_B[at]))
    alone = cumulative_advantage(groups, once[1] * 6, once[2] * 6, bins=2)
    assert alone.error_B[at] < found.error_B[at] / 2
    one = cumulative_advantage(groups, once[1] * 6, once[2] * 6, bins=2, problem_R=[0] * 48)
    assert np.isnan(one.error_B[at])
