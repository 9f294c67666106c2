"""The table of docs/models.md from measured rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import peft
import torch
import transformers

from families.measure import Measured

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
_BLOCK = re.compile(r"(?<=<!-- families -->\n).*(?=<!-- /families -->)", re.DOTALL)


def write(rows: Sequence[Measured]) -> None:
    """Put the table of all families between the marks of the page."""
    PAGE.write_text(_BLOCK.sub(lambda _: _table(rows), PAGE.read_text("utf-8")), encoding="utf-8")


def written() -> dict[str, list[str]]:
    """The cells of the page's table by family."""
    block = _BLOCK.search(PAGE.read_text("utf-8"))
    lines = [line[2:-2].split(" | ") for line in (block[0] if block else "").splitlines() if line.startswith("| ")]
    return {cells[0]: cells for cells in lines[1:]}


def cells(row: Measured) -> list[str]:
    """A row of the table; a figure is the power of ten that it is below, so that other machines write the same."""
    figures = _power(row.difference), _power(row.low)
    found = [row.family, f"`{row.model}`", row.path, figures[0], row.lora, figures[1], row.remark]
    return [cell.replace("|", "/") for cell in found]


def _table(rows: Sequence[Measured]) -> str:
    paths = Counter(row.path for row in rows)
    counts = (
        f"{paths['fused']} use the fused path, {paths['packed']} the packed path and {paths['plain']} the plain path"
    )
    torch_version = torch.__version__.split("+")[0]
    versions = f"transformers {transformers.__version__}, PyTorch {torch_version}, peft {peft.__version__}"
    tested = f"{len(rows)} model types were tested with {versions}. Of these types, {counts}."
    lines = [f"{tested} The other {paths['refused']} are not supported (*refused*).", ""]
    lines.append("| family | class | path | difference | adapter | bfloat16 | remarks |")
    lines.append("|---|---|---|---:|---|---:|---|")
    return "\n".join([*lines, *(f"| {' | '.join(cells(row))} |" for row in rows), ""])


def _power(figure: float | None) -> str:
    return "" if figure is None else f"< 1e{math.floor(math.log10(max(figure, 1e-12))) + 1}"
