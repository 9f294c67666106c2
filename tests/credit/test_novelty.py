"""XRPO's novelty sharpening: prompts of two kinds, and what it must never do. By hand it is in ``credit_cases.py``."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.credit import GroupMean, Members, advantages
from outrider.credit.novelty import Novelty


def members(rewards, scores, tokens=None, seeded=None) -> Members:
    """Members whose every token has the log-probability ``scores``."""
    rewards = np.array(rewards, np.float64)
    tokens = np.full(len(rewards), 4) if tokens is None else np.array(tokens)
    seeded = np.zeros(len(rewards), bool) if seeded is None else np.array(seeded)
    logprobs = [np.full(n, s) for n, s in zip(tokens, scores, strict=True)]
    return Members(rewards, rewards == 1, tokens, logprobs_GT=logprobs, seeded_G=seeded)


def shaped(group: Members, base: list[float], **options: object) -> list[float]:
    given = [np.full(int(n), a) for n, a in zip(group.tokens_G, base, strict=True)]
    return [float(a[0]) if len(a) else 0.0 for a in Novelty(**options).shape(given, group, 1)]


def test_prompts_with_examples_are_compared_apart() -> None:
    """The seeded pair is likelier as a whole; within each pair the first is the rarer one, by 0.5 from its mean."""
    group = members([1, 1, 1, 1], [-3.0, -2.0, -1.0, 0.0], seeded=[False, False, True, True])
    together, apart = (shaped(group, [1.0] * 4, cap=9, per_conditioning=p) for p in (False, True))
    bonus = 2.5 * (1 - np.exp(-0.5))
    assert apart == pytest.approx([1 + bonus, 1, 1 + bonus, 1])
    assert together == pytest.approx([1 + 2.5 * (1 - np.exp(-1.5)), 1 + bonus, 1, 1])


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, np.nan]), st.floats(-5, 0), st.integers(0, 3)), max_size=7))
def test_only_valid_successes_gain_and_at_most_the_share(drawn) -> None:
    group = members([r for r, _, _ in drawn], [s for _, s, _ in drawn], [n for _, _, n in drawn])
    before = advantages([GroupMean()], group)
    after = advantages([GroupMean(), Novelty()], group)
    for a, b, success, valid in zip(before, after, group.success_G, group.valid_G, strict=True):
        if not (success and valid):
            assert b.tolist() == a.tolist()
        assert (b >= a).all()
        assert (b <= np.maximum(1.5 * a, a) + 1e-12).all()
