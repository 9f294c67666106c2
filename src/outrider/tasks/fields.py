"""Access to the fields of a table row, including nested fields."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from outrider.errors import nearest
from outrider.tasks.messages import is_chat


class Fields(dict[str, Any]):
    """The fields of a row by name. A dotted name that is not itself a field selects a nested value. Objects are
    accessed by field name, and lists by index.

    NaN is read as null, because data frames use NaN for missing values, and the text "nan" could be mistaken for an
    answer.

    >>> row = Fields({"reward_model": {"ground_truth": "72"}, "prompt": [{"content": "8 * 9?"}], "a.b": 1})
    >>> row["reward_model.ground_truth"], row["prompt.0.content"], row["a.b"]
    ('72', '8 * 9?', 1)
    >>> "prompt.1" in row, row.get("reward_model.style")
    (False, None)
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__((name, None if _is_nan(value) else value) for name, value in fields.items())

    def __missing__(self, name: str) -> Any:
        first, dot, rest = name.partition(".")
        if not dot or not dict.__contains__(self, first):
            raise KeyError(name)
        place = dict.__getitem__(self, first)
        for step in rest.split("."):
            if isinstance(place, Mapping) and step in place:
                place = place[step]
            elif isinstance(place, list) and step.isdecimal() and int(step) < len(place):
                place = place[int(step)]
            else:
                raise KeyError(name)
        return None if _is_nan(place) else place

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field called ``name``, or ``default`` if the field does not exist."""
        try:
            return self[name]
        except KeyError:
            return default

    def hint(self, name: str) -> str:
        """Return a hint for an error message about an unknown field name. The hint suggests the most similar name of a
        field or nested field.

        >>> Fields({"extra_info": {"question": "?"}}).hint("question")
        "did you mean 'extra_info.question'?"
        """
        inside = [inner for field, value in self.items() for inner in (field, *_inside(field, value))]
        close = [inner for inner in inside if inner.endswith(f".{name}")] or get_close_matches(name, inside, n=1)
        return f"did you mean {close[0]!r}?" if close else nearest(name, self)

    def empty(self, name: str) -> bool:
        """Return whether the field is missing, null, NaN, blank text or an empty list.

        >>> row = Fields({"a": " ", "b": 0, "c": float("nan"), "d": []})
        >>> [name for name in "abcde" if row.empty(name)]
        ['a', 'c', 'd', 'e']
        """
        value = self.get(name)
        if isinstance(value, str):
            return not value.strip()
        return value is None or value == []


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _inside(name: str, value: Any) -> Iterator[str]:
    """Yield the dotted names of nested fields. A list has nested fields only if it is a list of messages."""
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        members = value.items()
    elif is_chat(value):
        members = enumerate(value)
    for key, part in members:
        yield f"{name}.{key}"
        yield from _inside(f"{name}.{key}", part)
