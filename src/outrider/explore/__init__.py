"""Exploration: decides which rollouts to sample, how many, from which prefix and in which context. The package works on
NumPy arrays."""

from outrider.explore.bounds import Bounds
from outrider.explore.branch import Branch
from outrider.explore.choose import Choose
from outrider.explore.commit import Commit
from outrider.explore.cures import Cures
from outrider.explore.entropy_branch import EntropyBranch
from outrider.explore.greedy import Greedy
from outrider.explore.hint import Hint
from outrider.explore.invest import Invest
from outrider.explore.keep import Keep
from outrider.explore.knapsack import Knapsack
from outrider.explore.prefixed import Prefixed
from outrider.explore.prioritise import Prioritise
from outrider.explore.rebalance import Rebalance
from outrider.explore.refill import Refill
from outrider.explore.replay import Replay
from outrider.explore.seed import Seed
from outrider.explore.sift import Sift
from outrider.explore.skip import Skip
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.uniform import Uniform
from outrider.explore.view import Engine, View
from outrider.explore.vip import Vip

STAGES: dict[str, type[Stage]] = {
    "uniform": Uniform,
    "branch": Branch,
    "choose": Choose,
    "commit": Commit,
    "cures": Cures,
    "entropy_branch": EntropyBranch,
    "greedy": Greedy,
    "hint": Hint,
    "invest": Invest,
    "keep": Keep,
    "knapsack": Knapsack,
    "prefixed": Prefixed,
    "prioritise": Prioritise,
    "rebalance": Rebalance,
    "refill": Refill,
    "replay": Replay,
    "sift": Sift,
    "skip": Skip,
    "vip": Vip,
}

__all__ = [
    "STAGES",
    "Bounds",
    "Branch",
    "Choose",
    "Commit",
    "Cures",
    "Engine",
    "EntropyBranch",
    "Greedy",
    "Hint",
    "Invest",
    "Keep",
    "Knapsack",
    "Prefixed",
    "Prioritise",
    "Rebalance",
    "Refill",
    "Replay",
    "Seed",
    "Sift",
    "Skip",
    "Stage",
    "Surroundings",
    "Uniform",
    "View",
    "Vip",
]
