"""The reward of ``gpu.py``, by Outrider and by TRL: half of all responses are right, which ones a hash of them says.

Random weights solve nothing, and where all members of a group fail there is nothing to learn and nothing to measure.
"""

from __future__ import annotations

import hashlib
from typing import Any


def half(completions: list[str], **rest: Any) -> list[float]:
    return [float(hashlib.blake2b(text.encode()).digest()[0] % 2) for text in completions]
