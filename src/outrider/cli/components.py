"""``outrider components``: list the components that a recipe can name, including those of installed packages."""

from __future__ import annotations

import argparse
import sys
from itertools import groupby

from outrider.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "components", help="list the components that a recipe can name", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "kind",
        nargs="?",
        metavar="KIND",
        help="kind of component to list: stage, baseline, shaper, … (default: all kinds)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print each component's name, origin, options and import path, grouped by kind."""
    from outrider.config.component_list import list_components
    from outrider.errors import UserError, nearest

    found = list_components()
    kinds = {info.kind for info in found}
    if arguments.kind is not None and arguments.kind not in kinds:
        raise UserError(f"{arguments.kind!r} is no kind of component ({nearest(arguments.kind, kinds)})")
    for kind, infos in groupby(found, lambda info: info.kind):
        if arguments.kind in (None, kind):
            sys.stdout.write(f"{kind}\n")
            for info in infos:
                sys.stdout.write(f"  {info.name}  ({info.origin}, {info.where})\n")
                sys.stdout.write(f"    {info.summary}\n" if info.summary else "")
                sys.stdout.write(f"    options: {', '.join(info.options) or 'none'}\n")
    return 0
