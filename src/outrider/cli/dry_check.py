"""The end of a dry run: what the files on this machine say of the run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from outrider.errors import UserError

if TYPE_CHECKING:
    from outrider.preflight.check import Preflight


def finish_dry_run(checked: Preflight, lacks: str | None = None) -> int:
    """Print what is worth saying as comments behind the YAML, and return 0.

    Args:
        lacks: why the run does not fit the memory.

    Raises:
        UserError: the run would end with it.
    """
    sys.stdout.writelines(f"# warning: {notice}\n" for notice in checked.notices)
    sys.stdout.flush()  # before a sentence on stderr
    if lacks:
        raise UserError(f"{lacks}; --force trains all the same")
    checked.refuse()
    return 0
