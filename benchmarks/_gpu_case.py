"""One measurement of ``gpu.py`` in a process of its own, so that each has the whole GPU and its own largest memory.

``python benchmarks/_gpu_case.py KIND SIZE FOLDER [ARGUMENTS]``; the last line that it prints is the result, in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _gpu_head import head
from _gpu_measure import versions
from _gpu_model import SIZES, Size, new_model, write_model
from _gpu_parts import learning, operations, plain_learning, plain_sampling, sampling
from _gpu_step import one_step

from outrider.model.device import placement


def model(size: Size, folder: Path) -> dict[str, Any]:
    """Write the folder that the others read."""
    write_model(size, folder)
    return {"parameters": sum(p.numel() for p in new_model(size).parameters()), **size._asdict()}


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "model": model,
    "sampling": sampling,
    "plain_sampling": plain_sampling,
    "learning": learning,
    "operations": operations,
    "plain_learning": plain_learning,
    "head": head,
    "step": one_step,
}


def main() -> None:
    kind, size, folder, *rest = sys.argv[1:]
    result = KINDS[kind](SIZES[size], Path(folder), **(json.loads(rest[0]) if rest else {}))
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    print(json.dumps({**result, "engine": str(placement(dtype)), "versions": versions()}))


if __name__ == "__main__":
    main()
