"""The base class of all components of a recipe: typed options that refuse unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from outrider.errors import UserError

Auto = Literal["auto"]
"""Value ``auto`` of an option: Outrider chooses the option to fit the available memory
(:mod:`outrider.estimate.auto`)."""
AUTO: Auto = "auto"


class Options(BaseModel):
    """Typed, range-checked options of one component (a stage, a shaper, an objective part).

    Each field of the class is an option; private attributes hold the state. An unknown key raises an error. A number
    given as a string also raises an error, since YAML has types.
    """

    model_config = ConfigDict(
        extra="forbid",
        validate_default=True,
        strict=False,
        protected_namespaces=(),
        allow_inf_nan=False,
        defer_build=True,  # validators are built on first use, which reduces the import time by a quarter
    )

    old_keys: ClassVar[Mapping[str, str]] = {}
    """Option names of older versions, mapped to their present names. Run folders may contain old names
    (:mod:`outrider.config.older`); anywhere else an old name is an error. A dotted name, such as ``table.judge``, is a
    key inside the option ``table``."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_keys(cls, data: Any) -> Any:
        """Raise an error for an option's old name in Python. For a recipe, the loader raises this error earlier, with
        the file and the key."""
        for key, now in cls.old_keys.items():
            *outer, last = key.split(".")
            inside = data
            for part in outer:
                inside = inside.get(part) if isinstance(inside, dict) else None
            if isinstance(inside, dict) and last in inside:
                raise UserError(f"{cls.__name__}: {key} is now {'.'.join([*outer, now])}")
        return data


def refuse_empty_range(low: float, high: float) -> None:
    """Raise ValueError if no value lies between ``low`` and ``high``."""
    if low > high:
        raise ValueError(f"no value lies in [{low}, {high}]: low is above high")
