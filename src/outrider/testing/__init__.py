"""The laws of components, for the tests of whoever writes one: :func:`check_stage` and its siblings."""

from outrider.testing.checks import check_stage
from outrider.testing.law import LawError

__all__ = ["LawError", "check_stage"]
