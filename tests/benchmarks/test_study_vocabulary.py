"""Entries of the vocabulary that lost entropy, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_code import study_code

_code = study_code("_vocabulary")
entropy_drops, where_they_occur = _code.entropy_drops, _code.where_they_occur


@settings(max_examples=25)
@given(st.lists(st.integers(0, 4), max_size=20), st.lists(st.integers(0, 4), max_size=20), st.integers(1, 3))
def test_rankings_are_those_of_loops(before, after, at_least):
    generator = np.random.default_rng(len(before) + 31 * len(after))
    h, g = generator.random(len(before)), generator.random(len(after))
    kept = {t for t in range(5) if min(before.count(t), after.count(t)) >= at_least}
    drops = entropy_drops(before, h, after, g, at_least)
    assert {t.token for t in drops.tokens} == kept
    assert drops.excluded == len(set(before) | set(after)) - len(kept)
    for t in drops.tokens:
        assert t.before == pytest.approx(np.mean([v for v, i in zip(h, before, strict=True) if i == t.token]))
        assert t.after == pytest.approx(np.mean([v for v, i in zip(g, after, strict=True) if i == t.token]))
        assert (t.n_before, t.n_after) == (before.count(t.token), after.count(t.token))
    assert [t.change for t in drops.tokens] == sorted(t.change for t in drops.tokens)


def test_unknown_entropies_are_no_occurrences():
    drops = entropy_drops([1, 1, 2], [1.0, np.nan, np.nan], [1, 2], [0.5, 0.5], at_least=1)
    assert [(t.token, t.n_before) for t in drops.tokens] == [(1, 1)]
    with pytest.raises(ValueError, match="belong together"):
        entropy_drops([1], [], [1], [1.0])


def test_where_tokens_occur_ignores_unscorable_responses():
    found = where_they_occur([1, 2, 3, 3], [1, 2, 2, 3], [0.0, 0.0, 1.0, np.nan])
    assert found == {"incorrect only": 1, "correct only": 0, "both": 1, "neither": 1}
