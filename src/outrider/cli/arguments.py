"""What several commands share: overrides, printing a resolved configuration, and the end of a dry run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from outrider.errors import UserError
from outrider.interrupts import SAME_COMMAND, Terminated

if TYPE_CHECKING:
    from outrider.preflight.check import Preflight

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def folder(text: str) -> Path:
    """A path on the command line. ``Path("")`` would be the working directory, which an empty argument does not
    mean."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; name a folder, as in runs/a")
    return Path(text)


class OldOption(argparse.Action):
    """An option of an older version: an error that says its present name, which is ``dest``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> NoReturn:
        parser.error(f"{option} is now --{self.dest.replace('_', '-')}")


def add_overrides(parser: argparse.ArgumentParser, example: str) -> None:
    """Trailing ``key=value`` words, and ``--dry-run`` to see what they make."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=f"dotted overrides, e.g. {example}")
    parser.add_argument("--dry-run", action="store_true", help="print the whole resolved configuration and stop")


def add_setting(parser: argparse.ArgumentParser) -> None:
    """``--setting``: where a recipe is tried."""
    parser.add_argument(
        "--setting", metavar="SETTING", help="a shipped setting (see `outrider settings`) or a YAML file (countdown)"
    )


def print_yaml(data: dict[str, Any]) -> int:
    """The whole of ``--dry-run``."""
    from outrider.config import dump_yaml

    sys.stdout.write(dump_yaml(data))
    return 0


def add_columns(parser: argparse.ArgumentParser) -> None:
    """``--column NAME=FIELD``, any number of times: how to read a dump of rollouts that names things otherwise."""
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=FIELD",
        help="field of a dump that is a column here: success='reward >= 1', problem=prompt",
    )


def columns(arguments: argparse.Namespace) -> dict[str, str]:
    """Field by column, as ``--column`` was given.

    Raises:
        UserError: one of them is not ``NAME=FIELD``.
    """
    results = {}
    for text in arguments.column:
        name, equals, field = text.partition("=")
        if not (name and equals and field):
            raise UserError(f"--column {text}: name a column and a field, such as --column problem=prompt")
        results[name.strip()] = field.strip()
    return results


def interruptible(work: Callable[[], int]) -> int:
    """Work that goes on where it was when the same command is given again, which is said when it is interrupted."""
    try:
        return work()
    except KeyboardInterrupt:
        sys.stderr.write(f"outrider: interrupted; {SAME_COMMAND}\n")
        return 130
    except Terminated as stop:
        raise Terminated(f"{stop}; {SAME_COMMAND}") from stop


def finish_dry_run(checked: Preflight, lacks: str | None = None) -> int:
    """Print warnings and costs as comments after the YAML, and return 0.

    Args:
        lacks: why the run does not fit the memory.

    Raises:
        UserError: the run would end with it.
    """
    sys.stdout.writelines(f"# warning: {notice}\n" for notice in checked.notices)
    sys.stdout.flush()  # before a sentence on stderr
    if lacks:
        raise UserError(f"{lacks}; --force trains anyway")
    checked.refuse()
    return 0
