"""Whom the map recommends in a setting, by step 5 of its rule (``map.py``)."""

from __future__ import annotations

from _map_read import Results, largest, read


def recommended(found: Results) -> str:
    """Who is ahead of GRPO at one end of pass@k and behind at neither, the farthest; nothing where there is none.

    By intervals on the untouched problems; a recipe without a value there is left out. Nothing for a bench that has
    not measured them.
    """
    if found["untouched"] is None:
        return ""
    ends = ("pass@1", largest(found))
    changes = {
        name: [read(recipe["minus_base"][end]) for end in ends]
        for name, recipe in found["untouched"]["recipes"].items()
        if name != "grpo"
    }
    ahead = {
        name: sum(each.value for each in both)
        for name, both in changes.items()
        if all(each.high >= 0 for each in both) and any(each.low > 0 for each in both)
    }
    return max(ahead, key=ahead.__getitem__, default="")
