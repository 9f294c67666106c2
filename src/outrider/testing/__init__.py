"""Functions, such as :func:`check_stage`, with which you test your own components.

The functions check laws, which are properties that every component of a kind must have. Outrider's own tests check the
shipped components against the same laws.
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
