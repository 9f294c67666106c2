"""All verifiers, keyed by their names in recipes."""

from outrider.verify.single import SINGLE
from outrider.verify.verifier import Verifier
from outrider.verify.weighted_sum import WeightedSum

VERIFIERS: dict[str, type[Verifier]] = {**SINGLE, "weighted_sum": WeightedSum}
