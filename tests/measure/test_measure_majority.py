"""majority@n against electing by every order of the votes."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import majority

VOTES = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.booleans()), max_size=5)


def elected_first(order):
    """One way to break ties: the answer whose first vote comes first, represented by that vote."""
    cast = [vote for vote in order if vote[0]]
    if not cast:
        return False
    answers = [answer for answer, _ in cast]
    most = max(answers.count(answer) for answer in answers)
    return next(success for answer, success in cast if answers.count(answer) == most)


@given(VOTES)
@settings(max_examples=200)
def test_is_the_mean_over_all_orders_of_the_votes(votes):
    expected = np.mean([elected_first(order) for order in permutations(votes)])
    assert majority([a for a, _ in votes], [s for _, s in votes]) == pytest.approx(expected, abs=1e-12)


@given(VOTES)
def test_blank_votes_and_repeated_ballots_change_nothing(votes):
    answers, success = [a for a, _ in votes], [s for _, s in votes]
    value = majority(answers, success)
    assert majority([*answers, "", "", "", ""], [*success, False, False, False, False]) == value
    assert majority(answers * 3, success * 3) == pytest.approx(value)


@pytest.mark.parametrize("ways", [2, 3, 4])
def test_a_tie_counts_one_over_its_answers(ways):
    answers = [str(i) for i in range(ways)]
    assert majority(answers * 2, [a == "0" for a in answers] * 2) == pytest.approx(1 / ways)


def test_the_many_unparseable_do_not_elect():
    assert majority(["7", "", "", ""], [True, False, False, False]) == 1.0


def test_a_frequent_wrong_answer_beats_a_rare_right_one():
    assert majority(["7", "3", "3"], [True, False, False]) == 0.0


def test_no_votes_elect_nothing():
    assert majority(["", ""], [False, False]) == 0.0
    assert majority([], []) == 0.0


def test_one_text_verified_both_ways_counts_its_share():
    """22 reached by a right and by two wrong derivations: whoever reports 22 is right one time in three."""
    assert majority(["22", "22", "22", "5"], [True, False, False, False]) == pytest.approx(1 / 3)


def test_sequences_must_match():
    with pytest.raises(ValueError, match="zip"):
        majority(["a", "a"], [True])
