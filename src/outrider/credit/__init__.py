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
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.credit.maxrl import MaxRL
from outrider.credit.members import Members, members_by_stream
from outrider.credit.novelty import Novelty
from outrider.credit.passk import PassK
from outrider.credit.reinforce_pp import ReinforcePP
from outrider.credit.siblings_mean import SiblingsMean
from outrider.credit.tree_grpo import TreeGrpo
from outrider.credit.tree_values import TreeValues

REWARD_SHAPERS: dict[str, type[RewardShaper]] = {}
BASELINES: dict[str, type[Baseline]] = {
    "group_mean": GroupMean,
    "leave_one_out": LeaveOneOut,
    "maxrl": MaxRL,
    "passk": PassK,
    "reinforce_pp": ReinforcePP,
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
