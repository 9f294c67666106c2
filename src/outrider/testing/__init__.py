"""The laws of components, for the tests of an author who writes one: :func:`check_stage` and its siblings.

The suite of the package holds the shipped components to the same laws.
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
