"""What a user allows for programs that no person has read."""

from typing import Literal

Isolation = Literal["required", "none"]
