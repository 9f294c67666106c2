"""The reference of the command line: what ``--help`` prints."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from outrider.cli import build_parser


def page() -> str:
    """Every command with its help."""
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # argparse asks for the terminal's, and a page has none
    try:
        shown = [f"## `{one.prog}`\n\n```text\n{one.format_help()}```\n" for one in below(build_parser())]
    finally:
        os.environ.pop("COLUMNS") if width is None else os.environ.update(COLUMNS=width)
    return "# Commands\n\nWhat `--help` prints of each.\n\n" + "\n".join(shown)


def below(root: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands."""
    yield root
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from below(one)
