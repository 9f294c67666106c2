"""The same losses where policies are far apart: there the bounds that numerics need begin to bite."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from compare import Comparison
from compare.losses import LOSSES, Losses, Scored, kl_difference

REACH = 30.0


class Bound(NamedTuple):
    """Why two losses differ beyond a log-ratio: within it they are to be equal."""

    within: float
    why: str


OURS = Bound(19.0, "only Outrider bounds log-ratios, to ±20, without a gradient beyond the bound")
BOUNDS = {
    "verl `gspo`, `seq-mean-token-mean`": Bound(
        9.0, "verl bounds the mean log-ratio of a response to at most 10; Outrider bounds each token's log-ratio to ±20"
    ),
    "verl `geo_mean`": OURS,
    "TRL `grpo`": OURS,
    "TRL `bnpo`": OURS,
    "TRL `dapo`, one micro-batch": OURS,
    "TRL `dr_grpo`": OURS,
    'TRL `grpo`, `importance_sampling_level="sequence"`': OURS,
    "TRL `grpo`, `beta=0.1`, `use_bias_correction_kl=False`": OURS,
}


def far(losses: Losses, within: float) -> Callable[[], tuple[float, float]]:
    def compare() -> tuple[float, float]:
        batches = [(seed, Scored.of(seed, **losses.drawn)) for seed in range(3)]
        return (
            max(losses.difference(data.moved(seed, REACH)) for seed, data in batches),
            max(losses.difference(data.moved(seed, within)) for seed, data in batches),
        )

    return compare


def far_kl(name: str, within: float, most: float) -> Callable[[], tuple[float, float]]:
    def compare() -> tuple[float, float]:
        data = Scored.of(0)
        return kl_difference(name, data.moved(0, REACH)), kl_difference(name, data.moved(0, within), most)

    return compare


UNBOUNDED = "only Outrider bounds log-ratios, to ±20, without a gradient beyond the bound"
K3 = (
    "verl bounds the estimate to 10, without a gradient beyond the bound: a token that is more than 14 times as likely "
    "under the reference is not pulled back; Outrider bounds the log-ratio to ±20"
)
FAR = [
    *(
        Comparison(
            line.theirs, line.ours, far(line.compare, bound.within if bound else REACH), bound.why if bound else ""
        )
        for line in LOSSES
        if isinstance(line.compare, Losses) and "shift" not in line.compare.drawn
        for bound in [BOUNDS.get(line.theirs)]
    ),
    Comparison("verl `kl_penalty`: `kl`", "`k1`", far_kl("k1", 19.0, float("inf")), UNBOUNDED),
    Comparison("verl `kl_penalty`: `mse`", "`k2`", far_kl("k2", 19.0, float("inf")), UNBOUNDED),
    Comparison("verl `kl_penalty`: `low_var_kl`", "`k3`", far_kl("k3", REACH, 10.0), K3),
]
