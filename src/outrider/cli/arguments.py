"""What several commands share: overrides, and printing a resolved configuration."""

from __future__ import annotations

import argparse
import sys
from typing import Any, TypeAlias

from outrider.config import dump_yaml

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_overrides(parser: argparse.ArgumentParser, example: str) -> None:
    """Trailing ``key=value`` words, and ``--dry-run`` to see what they make."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=f"dotted overrides, e.g. {example}")
    parser.add_argument("--dry-run", action="store_true", help="print the whole resolved configuration and stop")


def print_yaml(data: dict[str, Any]) -> int:
    """The whole of ``--dry-run``."""
    sys.stdout.write(dump_yaml(data))
    return 0
