"""The objective: the loss that is computed from sampled tokens and their advantages. The package can be imported
without torch."""

from outrider.objective.aggregate import Aggregate, Constant, SequenceMean, TokenMean
from outrider.objective.cispo import Cispo
from outrider.objective.clip import Clip
from outrider.objective.clip_cov import ClipCov
from outrider.objective.correction import Correction
from outrider.objective.forking import Forking
from outrider.objective.gmpo import Gmpo
from outrider.objective.kl import K1, K2, K3, KlEstimator
from outrider.objective.kl_cov import KlCov
from outrider.objective.likelihood import Likelihood
from outrider.objective.mask import Mask
from outrider.objective.recompute import Recompute
from outrider.objective.sapo import Sapo
from outrider.objective.selection import Selection
from outrider.objective.simko import Simko
from outrider.objective.surrogate import Surrogate
from outrider.objective.truncate import Truncate
from outrider.objective.unclipped import Unclipped

SURROGATES: dict[str, type[Surrogate]] = {
    "clip": Clip,
    "unclipped": Unclipped,
    "cispo": Cispo,
    "gmpo": Gmpo,
    "sapo": Sapo,
    "likelihood": Likelihood,
    "simko": Simko,
}
SELECTIONS: dict[str, type[Selection]] = {"forking": Forking, "clip_cov": ClipCov, "kl_cov": KlCov}
CORRECTIONS: dict[str, type[Correction]] = {"recompute": Recompute, "truncate": Truncate, "mask": Mask}
AGGREGATES: dict[str, type[Aggregate]] = {
    "token_mean": TokenMean,
    "sequence_mean": SequenceMean,
    "constant": Constant,
}
KL_ESTIMATORS: dict[str, type[KlEstimator]] = {"k1": K1, "k2": K2, "k3": K3}

__all__ = [
    "AGGREGATES",
    "CORRECTIONS",
    "K1",
    "K2",
    "K3",
    "KL_ESTIMATORS",
    "SELECTIONS",
    "SURROGATES",
    "Aggregate",
    "Cispo",
    "Clip",
    "ClipCov",
    "Constant",
    "Correction",
    "Forking",
    "Gmpo",
    "KlCov",
    "KlEstimator",
    "Likelihood",
    "Mask",
    "Recompute",
    "Sapo",
    "Selection",
    "SequenceMean",
    "Simko",
    "Surrogate",
    "TokenMean",
    "Truncate",
    "Unclipped",
]
