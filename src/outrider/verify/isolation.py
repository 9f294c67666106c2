"""What a user allows where programs that nobody has read are run."""

from typing import Literal

Isolation = Literal["required", "none"]
