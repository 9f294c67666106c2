"""Filters and sort order for a page of rollouts. Both are part of the URL, so that users can share a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pyarrow as pa

from outrider.errors import UserError, nearest
from outrider.importers.plain import PLAIN

EXACT = {
    "split": "split",
    "problem": "problem_id",
    "group": "group_id",
    "level": "level",
    "test_set": "test_set",
    "model": "model",
    "verdict": "outcome",
    "stage": "stage",
    "stream": "stream",
    "context": "context",
    "stop": "stop",
}
"""Filters that accept a single value, with their columns. The value "none" selects rollouts without a value, for
example without a verdict."""
RANGES = {
    "step": "step",
    "tokens": "tokens",
    "reward": "reward",
    "advantage": "advantage",
    "entropy": "entropy",
    "logprob": "logprob",
    "turns": "turns",
    "seconds": "seconds",
}
"""Filters that accept a number or a range ``low..high``, with their columns. Either end may be missing."""
FRACTIONS = {name for name in RANGES.values() if PLAIN.field(name).type == pa.float64()}
SORTS = (*RANGES, "level", "verdict", "stage", "stop", "member", "problem")
PAGE = 50
USED = {"yes": "unused = ''", "no": "unused <> ''"}
_COLUMN = EXACT | RANGES | {"member": "member"}


class Condition(NamedTuple):
    """An SQL condition on the table ``seen``, and the values of its parameters."""

    sql: str
    values: list[Any]


@dataclass(frozen=True)
class RolloutFilter:
    """A selection of rollouts. ``filters`` maps names such as ``step`` to the wanted values, ``text`` must occur in the
    response, and ``sort`` and ``page`` choose which matches are shown.

    >>> chosen = RolloutFilter.of({"verdict": "correct", "step": "10..20", "sort": "-entropy"})
    >>> chosen.condition()
    Condition(sql='outcome = ? AND step >= ? AND step <= ?', values=['correct', 10.0, 20.0])
    >>> chosen.address(page=2)
    'verdict=correct&step=10..20&sort=-entropy&page=2'
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    used: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> RolloutFilter:
        """Parse the query of a URL.

        Raises:
            UserError: a name is unknown, or a value is invalid.
        """
        known = [*EXACT, *RANGES, "text", "used", "sort", "page"]
        for name in asked:
            if name not in known:
                raise UserError(f"there is no filter {name!r}; {nearest(name, known)}")
        # an empty form field is no filter; "none" selects rollouts without a value
        filters = {name: asked[name] for name in (*EXACT, *RANGES) if asked.get(name)}
        for name in RANGES:
            if name in filters:
                _ends(name, filters[name])
        used, sort = asked.get("used", ""), asked.get("sort", "")
        if used not in ("", *USED):
            raise UserError(f"used is {used!r}, but should be yes or no")
        if sort.removeprefix("-") not in ("", *SORTS):
            raise UserError(f"sort is {sort!r}; {nearest(sort.removeprefix('-'), SORTS)}")
        return cls(filters, asked.get("text", ""), used, sort, page_of(asked))

    def condition(self) -> Condition:
        """Return the SQL condition of all filters except the text search."""
        parts: list[str] = []
        values: list[Any] = []
        for name, value in self.filters.items():
            column = _COLUMN[name]
            if name in RANGES:
                for sign, end in zip((">=", "<="), _ends(name, value), strict=True):
                    if end is not None:
                        parts.append(f"{column} {sign} ?")
                        values.append(end)
                if column in FRACTIONS:  # DuckDB sorts NaN, such as an unscorable reward, as the largest number
                    parts.append(f"NOT isnan({column})")
            elif value == "none":
                parts.append(f"coalesce({column}, '') = ''")
            else:
                parts.append(f"{column} = ?")
                values.append(value)
        if self.used:
            parts.append(USED[self.used])
        return Condition(" AND ".join(parts) or "true", values)

    def order(self) -> str:
        """Return the SQL that follows ``ORDER BY``. Ties are sorted by split (training first), step, group and
        member."""
        key, down = self.sort.removeprefix("-"), self.sort.startswith("-")
        column = _COLUMN.get(key, "")
        value = f"nullif({column}, 'nan'::DOUBLE)" if column in FRACTIONS else column
        first = f"{value} {'DESC' if down else 'ASC'} NULLS LAST, " if key else ""
        return f"{first}split <> 'train', step, split, group_id, member, rowid"

    def address(self, **changes: object) -> str:
        """Return the URL query of this selection with some parts changed; None removes a part."""
        asked: dict[str, object] = {**self.filters, "text": self.text, "used": self.used, "sort": self.sort}
        asked |= {"page": self.page if self.page > 1 else ""} | changes
        return urlencode({name: value for name, value in asked.items() if value not in ("", None)})

    def sorted_by(self, name: str) -> str:
        """Return the URL query that sorts by ``name`` in descending order, or in ascending order if the selection is
        already sorted by ``name`` in descending order."""
        return self.address(sort=f"-{name}" if self.sort != f"-{name}" else name, page=None)


def page_of(asked: Mapping[str, str]) -> int:
    """Return the page number in the query of a URL; 1 by default.

    Raises:
        UserError: the page is not a positive integer.
    """
    page = asked.get("page") or "1"
    if not (page.isascii() and page.isdecimal() and len(page) < 10 and int(page)):
        raise UserError(f"page is {page!r}, but should be a number from 1")
    return int(page)


def _ends(name: str, value: str) -> tuple[float | None, float | None]:
    """Return the lower and upper bound of a range, with None for an open end. A single number is used as both bounds.

    >>> _ends("step", "3"), _ends("step", "3.."), _ends("step", "..0.5")
    ((3.0, 3.0), (3.0, None), (None, 0.5))
    """
    low, dots, high = value.partition("..")
    try:
        first = float(low) if low else None
        last = (float(high) if high else None) if dots else first
    except ValueError:
        raise UserError(f"{name} is {value!r}, but should be a number or a range such as 10..20") from None
    return first, last
