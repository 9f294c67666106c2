"""The isolation that a user requires for untrusted programs."""

from typing import Literal

Isolation = Literal["required", "none"]
