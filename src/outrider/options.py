"""The base class of all components of a recipe: typed options that refuse unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from outrider.errors import UserError

Auto = Literal["auto"]
"""Value of an option that is to be chosen from the available memory (:mod:`outrider.estimate.auto`)."""
AUTO: Auto = "auto"


class Options(BaseModel):
    """Typed, range-checked options of one component (a stage, a shaper, an objective part).

    Fields are the options; state is in ``PrivateAttr``. Unknown keys are errors. Numbers given as strings are refused,
    since YAML has types.
    """

    model_config = ConfigDict(
        extra="forbid",
        validate_default=True,
        strict=False,
        protected_namespaces=(),
        allow_inf_nan=False,
        defer_build=True,  # builds validators on first use, which saves a quarter of the import time
    )

    old_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of older versions, and their present names. Run folders may have old keys (:mod:`outrider.config.older`);
    elsewhere an old key is an error. A dotted key, ``table.judge``, is a key inside the option ``table``."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_keys(cls, data: Any) -> Any:
        """Refuse old keys in options created in Python; the recipe loader refuses an old key earlier, with its
        place."""
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
