"""Code that several commands share: it parses overrides, prints a resolved configuration, and finishes dry runs."""

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
    """Parse a path. An empty argument is an error, since ``Path("")`` would be the working directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; name a folder, as in runs/a")
    return Path(text)


class OldOption(argparse.Action):
    """An option of an older Outrider version. Using such an option is an error, and the message names the present
    option, ``dest``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> NoReturn:
        parser.error(f"{option} is now --{self.dest.replace('_', '-')}")


def add_overrides(parser: argparse.ArgumentParser, example: str) -> None:
    """Add ``key=value`` overrides and the option ``--dry-run``, which prints the resolved configuration."""
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help=f"options to change, by dotted key, e.g. {example}"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the whole resolved configuration and stop")


def add_setting(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--setting``, which selects the model, the task and the budget."""
    parser.add_argument(
        "--setting",
        metavar="SETTING",
        help="model, task and budget: a shipped setting (see `outrider settings`) or a YAML file (default: countdown)",
    )


def print_yaml(data: dict[str, Any]) -> int:
    """Print data as YAML, for ``--dry-run``, and return 0."""
    from outrider.config import dump_yaml

    sys.stdout.write(dump_yaml(data))
    return 0


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the repeatable option ``--column NAME=FIELD``, which maps one of Outrider's column names to a field of
    another framework's rollouts."""
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=FIELD",
        help=(
            "column, and the field or expression of the rollouts that gives its values, e.g. problem=prompt or "
            "success='reward >= 1'; repeatable"
        ),
    )


def columns(arguments: argparse.Namespace) -> dict[str, str]:
    """Parse ``--column``, and return the field or expression for each column name.

    Raises:
        UserError: a value is not ``NAME=FIELD``.
    """
    results = {}
    for text in arguments.column:
        name, equals, field = text.partition("=")
        if not (name and equals and field):
            raise UserError(f"--column {text}: name a column and a field, such as --column problem=prompt")
        results[name.strip()] = field.strip()
    return results


def interruptible(work: Callable[[], int]) -> int:
    """Run work that can be resumed. On an interrupt, print that the same command continues the work."""
    try:
        return work()
    except KeyboardInterrupt:
        sys.stderr.write(f"outrider: interrupted; {SAME_COMMAND}\n")
        return 130
    except Terminated as stop:
        raise Terminated(f"{stop}; {SAME_COMMAND}") from stop


def finish_dry_run(checked: Preflight, lacks: str | None = None) -> int:
    """Print the warnings of a dry run as YAML comments, and return 0.

    Args:
        lacks: reason why the run does not fit into memory; None if it fits.

    Raises:
        UserError: the real run would end with an error; the message is the same.
    """
    sys.stdout.writelines(f"# warning: {notice}\n" for notice in checked.notices)
    sys.stdout.flush()  # before an error message on stderr
    if lacks:
        raise UserError(f"{lacks}; --force trains anyway")
    checked.refuse()
    return 0
