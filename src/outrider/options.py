"""The base of everything that a recipe can name: typed options that refuse what they do not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """Typed, range-checked options of one piece (a stage, a shaper, an objective part).

    Fields are the options; state lives in ``PrivateAttr``. Unknown keys are errors. Numbers given as strings are
    refused: a YAML file knows its types.
    """

    model_config = ConfigDict(
        extra="forbid",
        validate_default=True,
        strict=False,
        protected_namespaces=(),
        allow_inf_nan=False,
        defer_build=True,  # a validator is made when it is first needed: a quarter of what importing the layers takes
    )


def refuse_empty_range(low: float, high: float) -> None:
    """Raise ValueError where no value lies between the two."""
    if low > high:
        raise ValueError(f"no value lies in [{low}, {high}]: low is above high")
