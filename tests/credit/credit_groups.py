"""Small groups of credit, to work by hand. Those drawn from seeds are in ``outrider.testing.credit_groups``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outrider.credit import Members
from outrider.credit.explain import GroupShape, worked_group
from outrider.testing.credit_groups import frozen


def worked(shape: GroupShape, rewards: Sequence[float], **columns: Any) -> Members:
    """A group of ``explain.worked_group`` with these rewards. A member's first token has all of its log-probability."""
    members = worked_group(shape).members
    logprobs_GT = [np.where(np.arange(len(lp)) == 0, lp[0] * len(lp), 0.0) for lp in members.logprobs_GT]
    return frozen(replace(members, rewards_G=np.array(rewards, np.float64), logprobs_GT=logprobs_GT, **columns))


ROOTS = worked(
    "roots",
    [4, 4, 1, 1, 7, 1, np.nan],
    starts_G=np.array([0, 0, 3, 0, 0, 0, 0]),
    families_G=np.array([0, 0, 1, 0, 0, 0, 0]),
    seeded_G=np.array([False, True, False, False, True, False, False]),
)
# the first, the third and the last member are greedy
GREEDY = worked("greedy", [4, 4, 1, 1, 7, 1, np.nan, 1], greedy_G=np.isin(np.arange(8), [0, 2, 7]))
# the mean is 3. The fourth continues the first after 3 of its 6 tokens; the last two, of 4 tokens each, continue the
# second after 2 of its 6; the third, of 5 tokens, is alone
TREE = worked("tree", [4, 1, 7, 1, 4, 1])
# three continue one rollout, two another
SIBLINGS = worked("siblings", [4, 1, 1, 7, 1])
# of one token each, one right and one wrong: less their mean, 1.5 and -1.5
PAIR = frozen(
    Members(
        np.array([4.0, 1.0]),
        np.array([True, False]),
        np.array([1, 1]),
        logprobs_GT=[np.array([-0.9]), np.array([-0.3])],
        entropies_GT=[np.array([1.4]), np.array([1.4])],
    )
)
