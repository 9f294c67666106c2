"""Imports pandas, if it is installed."""

from __future__ import annotations

from typing import Any

from outrider.errors import UserError


def pandas() -> Any:
    """Return the module pandas.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise UserError("frames need pandas: pip install 'outrider[notebook]'") from None
    return pandas
