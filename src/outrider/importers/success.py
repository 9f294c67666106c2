"""Decides whether an imported rollout is a success, based on a field of the rollout's record or on the user's rule."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from outrider.errors import UserError
from outrider.importers.text import short
from outrider.record.verdict import Outcome

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_RULE = re.compile(r"(.+?)\s*(>=|<=|==|!=|>|<)\s*(.+)")
_WORDS: dict[str, Outcome] = {
    **{outcome.value: outcome for outcome in Outcome},
    **dict.fromkeys(("true", "1", "1.0"), Outcome.CORRECT),
    **dict.fromkeys(("false", "0", "0.0"), Outcome.INCORRECT),
}
_LETTERS = {"C": Outcome.CORRECT, "I": Outcome.INCORRECT, "N": Outcome.UNPARSEABLE}  # Inspect's scores


def outcome_of(value: Any) -> str | None:
    """Return the outcome for a value such as ``True`` or ``"Timeout"``; None if the value names no outcome.

    True and 1 mean correct, False and 0 mean incorrect, even if they are written as text. Names of outcomes, in upper
    or lower case, and Inspect's letters C (correct), I (incorrect) and N (no answer) are also recognised.

    >>> outcome_of(True), outcome_of(0.0), outcome_of("True"), outcome_of("Timeout"), outcome_of("C")
    ('correct', 'incorrect', 'correct', 'timeout', 'correct')
    >>> outcome_of(0.5), outcome_of(None), outcome_of("well done")
    (None, None, None)
    """
    if isinstance(value, (bool, int, float)):
        if value in (0, 1):
            return (Outcome.CORRECT if value else Outcome.INCORRECT).value
        return None
    if not isinstance(value, str):
        return None
    known = _LETTERS.get(value) or _WORDS.get(value.strip().lower())
    return known.value if known else None


def missing(value: Any) -> bool:
    """Whether a value is None, NaN or an empty or blank string.

    >>> missing(None), missing(math.nan), missing(" "), missing(0)
    (True, True, True, False)
    """
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


class SuccessRule(NamedTuple):
    """A rule for success: a comparison, such as ``reward >= 1``, or only the name of a field, such as ``is_correct``.

    If there is only a field, ``symbol`` is empty, and :func:`outcome_of` converts the field's value to an outcome.
    """

    field: str
    symbol: str = ""
    limit: float | str = ""

    @staticmethod
    def parse(text: str) -> SuccessRule:
        """Parse a rule as a user writes it: ``is_correct``, ``reward >= 1`` or ``verdict == pass``.

        Raises:
            UserError: the rule uses ``<``, ``<=``, ``>`` or ``>=``, but its right side is not a number.

        >>> SuccessRule.parse("reward >= 1")
        SuccessRule(field='reward', symbol='>=', limit=1.0)
        >>> SuccessRule.parse("exact_match,strict-match").field
        'exact_match,strict-match'
        """
        match = _RULE.fullmatch(text.strip())
        if not match:
            return SuccessRule(text.strip())
        field, symbol, right = match[1], match[2], match[3].strip("'\"")
        limit = _number(right)
        if limit is not None:
            return SuccessRule(field, symbol, limit)
        if symbol not in ("==", "!="):
            raise UserError(f"success: {text!r} compares with {right!r}, which is not a number.")
        return SuccessRule(field, symbol, right)

    def outcome(self, value: Any, where: str) -> str | None:
        """Return the outcome for a value of the rule's field. If the value is missing, return None, so that the rollout
        counts as never verified.

        Raises:
            UserError: the rule cannot tell whether the value is a success or a failure.
        """
        if missing(value):
            return None
        if not self.symbol:
            known = outcome_of(value)
            if known is None and value != "P":  # Inspect's partial credit is neither success nor failure
                raise UserError(
                    f"{where}: {self.field} is {short(value)}, which means neither success nor failure; give a rule, "
                    f"such as success: '{self.field} >= 1'."
                )
            return known
        left: Any = _number(value) if isinstance(self.limit, float) else str(value)
        if left is None:
            raise UserError(f"{where}: {self.field} is {short(value)}, which cannot be compared with {self.limit:g}.")
        return (Outcome.CORRECT if _COMPARE[self.symbol](left, self.limit) else Outcome.INCORRECT).value


def _number(value: Any) -> float | None:
    """Return a value as a number, finite or infinite; None for any other value, including NaN."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, (bool, int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number
