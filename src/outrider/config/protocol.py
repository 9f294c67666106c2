"""Evaluation protocols of papers, which a recipe can select by name."""

from __future__ import annotations

from importlib import resources
from typing import Any

from outrider.config.yaml_data import read_yaml
from outrider.errors import UserError, nearest

_FILE = "protocols.yaml"


def protocol(name: str | None) -> dict[str, Any]:
    """Return the sections ``evaluate`` and ``sample`` of the protocol with this name. For None, return an empty
    mapping.

    Raises:
        UserError: the protocol does not exist.

    >>> protocol("dars")["evaluate"]["n"], protocol(None)
    (128, {})
    """
    if name is None:
        return {}
    known = read_yaml((resources.files("outrider") / "config" / _FILE).read_text("utf-8"), _FILE)
    if name not in known:
        raise UserError(f"there is no protocol {name!r} ({nearest(name, known)})")
    sections: dict[str, Any] = known[name]
    return sections
