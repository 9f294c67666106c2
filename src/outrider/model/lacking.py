"""Finds weights that are missing in a model's files, which transformers initialises at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lacking_weights(info: Mapping[str, Any]) -> str:
    """Describe the weights that transformers initialised at random, based on transformers' loading info. If there are
    no such weights, the result is empty.
    """
    lacking = [f"no {key}" for key in sorted(info["missing_keys"])]
    lacking += [
        f"{key} of shape {list(there)} instead of {list(needed)}"
        for key, there, needed in sorted(info["mismatched_keys"])
    ]
    more = f" and {len(lacking) - 3} more like this" if len(lacking) > 3 else ""
    return f"{', '.join(lacking[:3])}{more}"
