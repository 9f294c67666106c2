"""Which recipe the map recommends in a setting: step 5 of the rule (``map.py``)."""

from __future__ import annotations

from _map_read import Results, Setting, final_change, largest


def recommended(setting: Setting) -> str:
    """The recipe of the last confirmation, if it is confirmed there; "" for none."""
    last = setting.confirmations[-1] if setting.confirmations else None
    return candidate(last) if last and confirmed(last) else ""


def confirmed(found: Results) -> bool:
    """Whether a confirmation shows its recipe significantly higher than GRPO in pass@1 or in the largest pass@k, and
    significantly lower in neither, on the final test set. False where a change is unknown."""
    changes = [final_change(candidate(found), found, quantity) for quantity in ("pass@1", largest(found))]
    return any(each.low > 0 for each in changes) and all(each.high >= 0 for each in changes)


def candidate(found: Results) -> str:
    """The recipe that a confirmation compares with GRPO."""
    [name] = {*found["recipes"]} - {"grpo"}
    return str(name)
