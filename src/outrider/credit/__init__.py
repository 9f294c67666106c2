"""Credit (advantage estimation): turns a group's rewards into one advantage per trained token. Uses only NumPy."""

from outrider.credit.annealed_passk import AnnealedPassK
from outrider.credit.boundary_gate import BoundaryGate
from outrider.credit.brevity import Brevity
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
from outrider.credit.covariance import Covariance
from outrider.credit.difficulty import Difficulty
from outrider.credit.entropy_advantage import EntropyAdvantage
from outrider.credit.focal import Focal
from outrider.credit.greedy import GreedyBaseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.imitation import Imitation
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.credit.maxrl import MaxRL
from outrider.credit.members import Members, members_by_stream
from outrider.credit.no_baseline import NoBaseline
from outrider.credit.novelty import Novelty
from outrider.credit.overlong import Overlong
from outrider.credit.passk import PassK
from outrider.credit.perplexity import Perplexity
from outrider.credit.polarity import Polarity
from outrider.credit.position import Position
from outrider.credit.quantile import Quantile
from outrider.credit.reinforce_pp import ReinforcePP
from outrider.credit.shrinkage import Shrinkage
from outrider.credit.siblings_mean import SiblingsMean
from outrider.credit.smoothing import Smoothing
from outrider.credit.stated_goal import StatedGoal
from outrider.credit.tree_grpo import TreeGrpo
from outrider.credit.tree_values import TreeValues
from outrider.credit.uniform_correct import UniformCorrect
from outrider.credit.until_box import UntilBox

REWARD_SHAPERS: dict[str, type[RewardShaper]] = {"brevity": Brevity, "overlong": Overlong}
BASELINES: dict[str, type[Baseline]] = {
    "annealed_passk": AnnealedPassK,
    "greedy": GreedyBaseline,
    "group_mean": GroupMean,
    "imitation": Imitation,
    "leave_one_out": LeaveOneOut,
    "maxrl": MaxRL,
    "no_baseline": NoBaseline,
    "passk": PassK,
    "quantile": Quantile,
    "reinforce_pp": ReinforcePP,
    "shrinkage": Shrinkage,
    "siblings_mean": SiblingsMean,
    "stated_goal": StatedGoal,
    "tree_grpo": TreeGrpo,
    "tree_values": TreeValues,
}
SHAPERS: dict[str, type[Shaper]] = {
    "boundary_gate": BoundaryGate,
    "covariance": Covariance,
    "difficulty": Difficulty,
    "entropy_advantage": EntropyAdvantage,
    "focal": Focal,
    "novelty": Novelty,
    "perplexity": Perplexity,
    "polarity": Polarity,
    "position": Position,
    "smoothing": Smoothing,
    "uniform_correct": UniformCorrect,
    "until_box": UntilBox,
}

__all__ = [
    "BASELINES",
    "REWARD_SHAPERS",
    "SHAPERS",
    "AnnealedPassK",
    "Baseline",
    "BatchBaseline",
    "BoundaryGate",
    "Brevity",
    "Covariance",
    "Difficulty",
    "EntropyAdvantage",
    "Focal",
    "GreedyBaseline",
    "GroupMean",
    "Imitation",
    "LeaveOneOut",
    "Link",
    "MaxRL",
    "Members",
    "NoBaseline",
    "Novelty",
    "Overlong",
    "PassK",
    "Perplexity",
    "Polarity",
    "Position",
    "Quantile",
    "ReinforcePP",
    "RewardShaper",
    "Shaper",
    "Shrinkage",
    "SiblingsMean",
    "Smoothing",
    "StatedGoal",
    "TreeGrpo",
    "TreeValues",
    "UniformCorrect",
    "UntilBox",
    "advantages",
    "advantages_of",
    "members_by_stream",
    "split",
]
