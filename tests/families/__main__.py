"""``python -m families`` in tests/ writes docs/models.md, or shows the families that are named."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import torch
import transformers

from families.configs import FAMILIES
from families.measure import measure
from families.page import cells, write


def main() -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    rows = []
    for name in sys.argv[1:] or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, Path(folder) / "model"))
        sys.stdout.write(" | ".join(cells(rows[-1])) + "\n")
    if not sys.argv[1:]:
        write(rows)


if __name__ == "__main__":
    main()
