"""The levels of isolation that a user can require for untrusted programs."""

from typing import Literal

Isolation = Literal["required", "none"]
