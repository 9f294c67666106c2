"""Filters and sort order for the list of problems. Both are part of the URL, so that users can share a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from outrider.errors import UserError, nearest
from outrider.view.rollout_filter import Condition, page_of

KINDS = {
    "lost": "solved earlier, but not in the last step with verdicts",
    "newly solved": "not solved in the first step with verdicts, solved in the last",
    "never solved": "verified, but never solved",
    "still solved": "solved in the first and in the last step with verdicts",
    "not verified": "no rollout has a verdict",
}
"""Kinds of problems by the change of their pass rate, with explanations. Each problem has exactly one kind."""
USES = {
    "trained on": "rollouts in training only",
    "held out": "rollouts in evaluations only",
    "trained on and evaluated": "rollouts in both",
}
"""Uses of problems (such as training or held out), with explanations. Each problem has exactly one use."""
ORDERS = {
    "largest drop": "coalesce(best_rate - last_rate, 0) DESC",
    "largest gain": "coalesce(change, 0) DESC",
    "most rollouts": "rollouts DESC",
    "most tokens": "tokens DESC NULLS LAST",
    "latest first success": "first_success DESC NULLS LAST",
}
"""Sort orders of the list, with their SQL. The first order is the default."""
FILTERS = ("use", "kind", "level")
_KNOWN: Mapping[str, Mapping[str, str]] = {"kind": KINDS, "use": USES}


@dataclass(frozen=True)
class ProblemFilter:
    """A selection of problems: the value of each active filter, the sort order, and the page.

    >>> chosen = ProblemFilter.of({"kind": "lost", "level": "3", "use": "held out"})
    >>> chosen.condition()
    Condition(sql='"use" = ? AND "kind" = ? AND "level" = ?', values=['held out', 'lost', '3'])
    >>> chosen.condition(without="kind").values
    ['held out', '3']
    >>> chosen.address(level=None)
    'use=held+out&kind=lost'
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    order: str = next(iter(ORDERS))
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> ProblemFilter:
        """Parse the query of a URL. A filter with an empty value is ignored.

        Raises:
            UserError: a name is unknown, or a value is invalid.
        """
        known = [*FILTERS, "order", "page"]
        for name in asked:
            if name not in known:
                raise UserError(f"unknown filter {name!r} of problems; {nearest(name, known)}")
        filters = {name: asked[name] for name in FILTERS if asked.get(name)}
        for name, values in _KNOWN.items():
            if name in filters and filters[name] not in values:
                raise UserError(f"{name} is {filters[name]!r}; {nearest(filters[name], values)}")
        order = asked.get("order") or cls.order
        if order not in ORDERS:
            raise UserError(f"order is {order!r}; {nearest(order, ORDERS)}")
        return cls(filters, order, page_of(asked))

    def condition(self, without: str = "") -> Condition:
        """Return the SQL condition for all filters except the one named by ``without``. This condition is used to count
        the problems for each value of that filter."""
        kept = {name: value for name, value in self.filters.items() if name != without}
        return Condition(" AND ".join(f'"{name}" = ?' for name in kept) or "true", list(kept.values()))

    def address(self, **changes: object) -> str:
        """Return the URL query of this selection with some parts changed; None removes a part."""
        asked: dict[str, Any] = {**self.filters}
        asked |= {"order": self.order, "page": self.page if self.page > 1 else ""} | changes
        if asked["order"] == ProblemFilter.order:
            del asked["order"]
        return urlencode({name: value for name, value in asked.items() if value not in ("", None)})
