"""Credit: from the verdicts of one group to one advantage per trained token. NumPy only, pure functions."""

from outrider.credit.chain import (
    Baseline,
    BatchBaseline,
    Link,
    RewardShaper,
    Shaper,
    advantages,
    advantages_of,
    split,
)
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members, members_by_stream
from outrider.credit.novelty import Novelty
from outrider.credit.siblings_mean import SiblingsMean
from outrider.credit.tree_grpo import TreeGrpo
from outrider.credit.tree_values import TreeValues

REWARD_SHAPERS: dict[str, type[RewardShaper]] = {}
BASELINES: dict[str, type[Baseline]] = {
    "group_mean": GroupMean,
    "siblings_mean": SiblingsMean,
    "tree_grpo": TreeGrpo,
    "tree_values": TreeValues,
}
SHAPERS: dict[str, type[Shaper]] = {"novelty": Novelty}

__all__ = [
    "BASELINES",
    "REWARD_SHAPERS",
    "SHAPERS",
    "Baseline",
    "BatchBaseline",
    "GroupMean",
    "Link",
    "Members",
    "RewardShaper",
    "Shaper",
    "advantages",
    "advantages_of",
    "members_by_stream",
    "split",
]
