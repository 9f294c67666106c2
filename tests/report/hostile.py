"""Text that a model may have written to hurt whoever reads the report of it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

HOSTILE = (
    "</script bad='><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>\"'><svg onload=hurt=3>"
    "{{ 7 * 7 }} <!-- <script> %{y} &lt;b&gt; javascript:hurt=4 \u2028\u2029\x00\x1b[31m\ud800\u202e <a href='https://e.vil/'>a</a>"
)
SHOWN = HOSTILE.replace("\x00", "\u2400").replace("\x1b", "\u241b").replace("\ud800", "?")
KEPT = {"kind", "severity", "outcome", "id", "parent", "rollout", "percent"}  # fields whose values the page chooses by
UNITS = ("percent", "points")


def hostile(value):
    """The same report with something hostile at the end of every text that is not empty."""
    if isinstance(value, str):
        return value if value in UNITS else value and value + HOSTILE
    if hasattr(value, "_fields"):
        changed = {name: hostile(getattr(value, name)) for name in value._fields if name not in KEPT}
        return value._replace(**changed)
    if isinstance(value, (list, tuple)):
        return type(value)(map(hostile, value))
    if isinstance(value, dict):
        return {hostile(key): hostile(item) for key, item in value.items()}
    if is_dataclass(value):
        return replace(value, **{f.name: hostile(getattr(value, f.name)) for f in fields(value) if f.name not in KEPT})
    return value
