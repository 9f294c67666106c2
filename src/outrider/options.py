"""The base class of all recipe components. It defines typed options and rejects unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from outrider.errors import UserError

Auto = Literal["auto"]
"""The value ``auto`` of an option, for which Outrider chooses a value that fits the available memory
(:mod:`outrider.estimate.auto`)."""
AUTO: Auto = "auto"


class Options(BaseModel):
    """The options of one component of a recipe, such as a policy loss. The type and range of each option are checked.

    Each field of the class is an option. Private attributes contain the component's state. An unknown key is an error.
    A string such as ``"3"`` is also an error for a numeric option, since YAML distinguishes strings from numbers.
    """

    model_config = ConfigDict(
        extra="forbid",
        validate_default=True,
        strict=False,
        protected_namespaces=(),
        allow_inf_nan=False,
        defer_build=True,  # builds validators on first use, so that imports take a quarter less time
    )

    old_keys: ClassVar[Mapping[str, str]] = {}
    """Option names in older versions, mapped to their present names. Run folders may contain old names
    (:mod:`outrider.config.older`). In any other place, an old name is an error. A dotted name, such as ``table.judge``,
    is a key in the option ``table``."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_keys(cls, data: Any) -> Any:
        """Raise an error if Python code uses an option's old name. For a recipe, the loader has already raised such an
        error, with the file and the key."""
        for key, now in cls.old_keys.items():
            *outer, last = key.split(".")
            inside = data
            for part in outer:
                inside = inside.get(part) if isinstance(inside, dict) else None
            if isinstance(inside, dict) and last in inside:
                raise UserError(f"{cls.__name__}: {key} is now {'.'.join([*outer, now])}")
        return data


def refuse_empty_range(low: float, high: float) -> None:
    """Raise ValueError if the range from ``low`` to ``high`` is empty."""
    if low > high:
        raise ValueError(f"no value lies in [{low}, {high}]: low is above high")
