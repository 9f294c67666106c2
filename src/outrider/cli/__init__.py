"""The command line, ``outrider COMMAND``. Each command is a module. A command's slow imports run only when the command
is used."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence

from outrider.cli import (
    analyse,
    bench,
    check,
    compare,
    completion,
    components,
    evaluate,
    export,
    recipes,
    report,
    score,
    serve,
    settings,
    sft,
    show,
    train,
    validate,
    verl_config,
    version,
    view,
)
from outrider.cli.broken_output import NO_ROOM, UNREAD, let_go_of_full, let_go_of_unread, open_closed
from outrider.errors import UserError
from outrider.interrupts import TERMINATED, Terminated, terminable

COMMANDS = (
    *(train, bench, evaluate, score, report, view, compare, show, export, analyse, sft),
    *(recipes, settings, components, check, validate, serve, verl_config, completion, version),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    If the user made a mistake, one sentence is printed on stderr, and the status is 2. An interrupt (status 130) or
    SIGTERM (status 143) also prints one sentence. If the process that reads the output has closed the pipe, the status
    is 141, and no message is printed. Any other exception is a bug and keeps its traceback.
    """
    open_closed()
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()  # flush here, where errors are still handled
    except (BrokenPipeError, SystemExit) as error:  # argparse and rich raise SystemExit, rich on a closed pipe
        if let_go_of_unread() or (isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)):
            return UNREAD
        raise
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None and let_go_of_full():
            return _print_mistake(f"standard output cannot be written: {error.strerror}")
        if error.errno == errno.ENAMETOOLONG:
            return _print_mistake(f"{str(error.filename)[:60]}…: the name of a file has at most 255 bytes")
        raise


def _print_mistake(mistake: object) -> int:
    """Print a user's mistake as one sentence, and return the exit status."""
    sys.stderr.write(f"outrider: {mistake}\n")
    return 2


def _not_utf8(words: Sequence[str]) -> str:
    """Return the first word that is not valid UTF-8, in Python's notation for bytes; "" if all words are valid.

    Such words are rejected, since records and messages can only contain UTF-8.
    """
    bad = (word for word in words if any("\udc80" <= character <= "\udcff" for character in word))
    return next((repr(word.encode("utf-8", "surrogateescape"))[1:] for word in bad), "")


def _run(argv: Sequence[str] | None) -> int:
    if word := _not_utf8(sys.argv[1:] if argv is None else argv):
        return _print_mistake(f"{word} is not UTF-8; rename the file or folder")
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    # argparse rejects overrides after an option, but users often write `train grpo --dry-run seed=3`
    if rest and (not hasattr(arguments, "overrides") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.overrides += rest
    try:
        with terminable():
            status: int = arguments.run(arguments)
            return status
    except UserError as error:
        return _print_mistake(error)
    except KeyboardInterrupt:
        sys.stderr.write("outrider: interrupted; `outrider train … --resume` goes on from the last checkpoint\n")
        return 130
    except Terminated as stop:
        sys.stderr.write(f"outrider: {stop}\n" if str(stop) else "")
        return TERMINATED


def build_parser() -> argparse.ArgumentParser:
    """Build the parser for the whole command line, without importing the code that the commands run."""
    parser = argparse.ArgumentParser(
        prog="outrider",
        description="Exploration in reinforcement learning with verifiable rewards.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    parser.set_defaults(parser=parser)  # the completion script is generated from the parser
    return parser
