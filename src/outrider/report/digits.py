"""Formats numbers for readers, with three significant digits and the same number of decimals within a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from outrider.measure import Interval
from outrider.report.content import CellValue, RolloutsOf, Unit

DIGITS = 3  # number of significant digits; the data rarely support a third digit, and never a fourth
_WIDEST = 1000.0  # maximum ratio of largest to smallest number in a column with shared decimals
_UNDEFINED = "n/a"


def number(value: CellValue) -> str:
    """Format a single cell. Whole numbers are shown in full, other numbers with three significant digits, and text
    unchanged.

    NaN (undefined) becomes "n/a"; None (missing) becomes an empty string.

    >>> [number(x) for x in (26880, 1412337.0, 0.11328125, 98.76, 0.0000123, -2.5, float("nan"), None, "grpo")]
    ['26,880', '1,412,337', '0.113', '98.8', '1.23e-5', '-2.5', 'n/a', '', 'grpo']
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, RolloutsOf):
        return value.rollout or value.problem
    if isinstance(value, Interval):
        return number(value.value)
    if not math.isfinite(value):
        return _UNDEFINED if math.isnan(value) else "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e15:
        mantissa, exponent = f"{value:.{DIGITS - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    text = f"{value:,.{_decimals(abs(value))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class FormattedCell(NamedTuple):
    """A formatted cell: its number or text, and its interval in brackets ("" if it has no interval)."""

    text: str
    interval: str


def cells(values: Sequence[CellValue], unit: Unit | None = None) -> list[FormattedCell]:
    """Format a column and its intervals in the column's unit. The unit "points" is not written after the number.

    >>> list(map(tuple, cells([Interval(0.125, 0.1, 0.15, 9), 0.5, None], "percent")))
    [('12.5 %', '[10.0, 15.0]'), ('50.0 %', ''), ('', '')]
    >>> cells([Interval(0.125, 0.1, 0.15, 9)], "points")
    [FormattedCell(text='+12.5', interval='[+10.0, +15.0]')]
    >>> cells([Interval(1.25, 1.0, 1.5, 9), 2.0])
    [FormattedCell(text='1.25', interval='[1.00, 1.50]'), FormattedCell(text='2.00', interval='')]
    """
    numbers = [value.value if isinstance(value, Interval) else value for value in values]
    if unit is None:
        shown = column([*numbers, *(end for value in values for end in _ends(value))])
        ends = iter(shown[len(values) :])
        return [
            FormattedCell(text, f"[{next(ends)}, {next(ends)}]" if _ends(value) else "")
            for text, value in zip(shown[: len(values)], values, strict=True)
        ]
    sign, after = ("", " %") if unit == "percent" else ("+", "")
    brackets = [[_hundredfold(end, sign, "") for end in _ends(value)] for value in values]
    return [
        FormattedCell(_hundredfold(value, sign, after), f"[{', '.join(ends)}]" if ends else "")
        for value, ends in zip(numbers, brackets, strict=True)
    ]


def _ends(value: CellValue) -> list[float]:
    known = isinstance(value, Interval) and math.isfinite(value.low) and math.isfinite(value.high)
    return [value.low, value.high] if known and isinstance(value, Interval) else []


def percent(value: CellValue) -> str:
    """Format a share in percent with one decimal, or with more decimals if a nonzero share would be shown as 0.

    Text is unchanged.

    >>> [percent(x) for x in (0.125, 1, 0.0, 0.00012, float("nan"), None, "all")]
    ['12.5 %', '100.0 %', '0.0 %', '0.01 %', 'n/a', '', 'all']
    """
    return _hundredfold(value, "", " %")


def points(value: CellValue) -> str:
    """Format a difference of shares in percentage points, with its sign.

    >>> [points(x) for x in (0.125, -0.031, 0.0)]
    ['+12.5 points', '-3.1 points', '0.0 points']
    """
    return _hundredfold(value, "+", " points")


def _hundredfold(value: CellValue, sign: str, unit: str) -> str:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return number(value)
    scaled = 100 * value
    if not round(scaled, 1):
        return f"{scaled:{sign if scaled else ''}.1g}{unit}" if abs(scaled) >= 1e-4 else f"0.0{unit}"
    return f"{scaled:{sign},.1f}{unit}"


def column(values: Sequence[CellValue]) -> list[str]:
    """Format the cells of a column.

    Numbers of similar size get the same number of decimals. There are enough decimals to show three digits of the
    largest number and two digits of the median. If no number exceeds 1, as for shares, there are at least three
    decimals. If the numbers differ by more than a factor of 1000, as numbers of different metrics may do, each cell is
    formatted separately. The same holds if the column contains text.

    >>> column([0.5, 0.0625, None, 1.0])
    ['0.500', '0.062', '', '1.000']
    >>> column([12, 1500.0, "n/a"])
    ['12', '1,500', 'n/a']
    >>> column([0.25, 40000.5])
    ['0.25', '40,000']
    >>> column([1.5, 0.002, 1.75])  # would be 0.00
    ['1.50', '0.002', '1.75']
    """
    numbers = [x for x in values if isinstance(x, (int, float)) and math.isfinite(x)]
    sizes = sorted(abs(x) for x in numbers if x)
    alike = sizes and sizes[-1] <= _WIDEST * sizes[0] and sizes[0] >= 1e-4
    if not alike or is_text(values) or all(x == int(x) for x in numbers):
        return [number(x) for x in values]
    decimals = max(_decimals(sizes[-1]), _decimals(sizes[len(sizes) // 2]) - 1, DIGITS if sizes[-1] <= 1 else 0)
    return [_fixed(x, decimals) for x in values]


def is_text(values: Sequence[CellValue]) -> bool:
    """Whether a column contains text, so that the page aligns the column to the left.

    >>> is_text(["a", None]), is_text([1, None, 0.5]), is_text([None])
    (True, False, False)
    """
    return any(isinstance(x, (str, RolloutsOf)) for x in values)


def _fixed(value: CellValue, decimals: int) -> str:
    """Format a number with ``decimals`` decimals. If a nonzero number would be shown as zero, or if the value is not a
    finite number, use :func:`number`."""
    if not isinstance(value, (int, float)) or not math.isfinite(value) or (value and not round(value, decimals)):
        return number(value)
    return f"{value:,.{decimals}f}"


def _decimals(size: float) -> int:
    """Return how many decimals are needed to show the significant digits of a positive number."""
    return max(0, DIGITS - 1 - math.floor(math.log10(size)))
