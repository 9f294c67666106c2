"""Functions such as :func:`check_stage`, which test your own components against laws (properties of all components).

Outrider's own test suite checks the shipped components against the same laws.
"""

from outrider.testing.checks import (
    check_baseline,
    check_environment,
    check_loss,
    check_shaper,
    check_stage,
    check_verifier,
)
from outrider.testing.law import LawError

__all__ = [
    "LawError",
    "check_baseline",
    "check_environment",
    "check_loss",
    "check_shaper",
    "check_stage",
    "check_verifier",
]
