"""Diversity of answers against counting subsets, and of texts against comparing every pair of responses."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure.diversity import distinct_at_k, text_diversity, words

ANSWERS = st.lists(st.sampled_from(["", "1", "2", "3"]), max_size=7)
RESPONSES = st.lists(st.lists(st.integers(0, 3), max_size=7), min_size=1, max_size=5)


def grams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def by_pairs(responses, order):
    """Overlap and novelty of one problem from their definitions."""
    overlap, novelty = [], []
    for i, response in enumerate(responses):
        others = [r for j, r in enumerate(responses) if j != i]
        precisions = []
        for n in range(1, order + 1):
            mine = grams(response, n)
            if mine and others:
                shared = sum(min(c, max(grams(o, n)[g] for o in others)) for g, c in mine.items())
                precisions.append(shared / mine.total())
        overlap.append(math.prod(precisions) ** (1 / len(precisions)) if precisions else math.nan)
        mine = grams(response, order)
        new = sum(c for g, c in mine.items() if all(g not in grams(o, order) for o in others))
        novelty.append(new / mine.total() if mine and others else math.nan)
    return overlap, novelty


@given(st.lists(RESPONSES, min_size=1, max_size=3), st.integers(1, 3), st.randoms())
@settings(max_examples=50, deadline=None)
def test_equals_comparing_every_pair_whatever_the_order_of_rows(problems, order, random):
    rows = [(label, response) for label, responses in enumerate(problems) for response in responses]
    random.shuffle(rows)
    found = text_diversity([response for _, response in rows], [label for label, _ in rows], order)
    for label in range(len(problems)):
        mine = [i for i, row in enumerate(rows) if row[0] == label]
        responses = [rows[i][1] for i in mine]
        overlap, novelty = by_pairs(responses, order)
        np.testing.assert_allclose(found.overlap_R[mine], overlap, atol=1e-12)
        np.testing.assert_allclose(found.novelty_R[mine], novelty, atol=1e-12)
        assert found.responses_P[label] == len(responses)
        assert found.duplicates_P[label] == len(responses) - len(set(map(tuple, responses)))
        for mean, values in ((found.overlap_P, overlap), (found.novelty_P, novelty)):
            known = [v for v in values if not math.isnan(v)]
            np.testing.assert_allclose(mean[label], np.mean(known) if known else math.nan, atol=1e-12)


@given(RESPONSES)
@settings(max_examples=20, deadline=None)
def test_ids_and_words_give_the_same(responses):
    ids = text_diversity([np.array(r, np.int32) for r in responses], order=2)
    texts = text_diversity([[f"w{t}" for t in r] for r in responses], order=2)
    np.testing.assert_array_equal(ids.overlap_R, texts.overlap_R)
    np.testing.assert_array_equal(ids.novelty_R, texts.novelty_R)
    np.testing.assert_array_equal(ids.duplicates_P, texts.duplicates_P)


def test_copies_overlap_wholly_and_strangers_not_at_all():
    copies = text_diversity([[1, 2, 3, 4, 5]] * 3)
    assert copies.overlap_P.tolist() == [1.0]
    assert copies.novelty_P.tolist() == [0.0]
    assert copies.duplicates_P.tolist() == [2]
    strangers = text_diversity([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert strangers.overlap_R.tolist() == [0.0, 0.0]
    assert strangers.novelty_R.tolist() == [1.0, 1.0]


def test_a_word_said_more_often_than_elsewhere_is_shared_as_often_as_elsewhere():
    """c = 3, 1, 2 of one word: the first may claim 2 of its 3 (third response), the third 2 of 2 (first response)."""
    found = text_diversity([["a"] * 3, ["a"], ["a"] * 2], order=1)
    assert found.overlap_R.tolist() == pytest.approx([2 / 3, 1.0, 1.0])


def test_problems_do_not_mix():
    found = text_diversity([[1, 2], [1, 2], [3, 4]], ["p", "q", "q"], order=2)
    assert found.problems.tolist() == ["p", "q"]
    assert np.isnan(found.overlap_P[0])  # one response: there is nothing to overlap with
    assert found.overlap_P[1] == 0.0


def test_responses_that_are_too_short_have_no_number_and_spoil_no_mean():
    found = text_diversity([[], [7], [7, 8, 9], [7, 8, 9]], order=3)
    assert np.isnan(found.overlap_R[0])
    assert found.overlap_R.tolist()[1:] == [1.0, 1.0, 1.0]  # [7] is verified by single tokens alone
    assert np.isnan(found.novelty_R[:2]).all()
    assert found.novelty_P.tolist() == [0.0]
    assert text_diversity([]).problems.size == 0


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="order >= 1"):
        text_diversity([[1]], order=0)
    with pytest.raises(ValueError, match="one label for each of 2 responses"):
        text_diversity([[1], [2]], [0])


@given(ANSWERS)
@settings(max_examples=40, deadline=None)
def test_distinct_at_k_is_the_mean_over_all_subsets(answers):
    given_ones = [a for a in answers if a]
    for k in range(1, len(given_ones) + 1):
        subsets = [len(set(s)) for s in combinations(given_ones, k)]
        assert distinct_at_k(answers, k) == pytest.approx(np.mean(subsets))
    assert math.isnan(distinct_at_k(answers, len(given_ones) + 1))


def test_words_keep_numbers_whole_and_take_signs_and_ideographs_apart():
    assert words("4+1=5, x_2!") == ["4", "+", "1", "=", "5", ",", "x_2", "!"]
    assert words("  \n") == []
    assert words("naïve Ответ答え") == ["naïve", "Ответ", "答", "え"]
