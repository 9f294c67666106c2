"""``outrider export``: write rollouts for other tools, as Inspect logs, trackio traces or plain Parquet."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_columns, columns, folder


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "export", help="write rollouts for Inspect, trackio or Parquet", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "run_folder",
        type=folder,
        metavar="RUN",
        help="run folder, or a file or folder of another framework's rollouts (docs/import.md)",
    )
    parser.add_argument(
        "--to",
        choices=("inspect", "trackio", "parquet"),
        required=True,
        help=(
            "format: one Inspect .eval log per split and step (inspect), traces in a trackio project (trackio), or one "
            "table (parquet)"
        ),
    )
    parser.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="output folder (default: RUN/export/TARGET; for trackio: $TRACKIO_DIR)",
    )
    parser.add_argument(
        "--split",
        action="append",
        default=[],
        choices=("train", "evaluate", "greedy"),
        help="split whose rollouts are exported, such as train; repeatable (default: all splits)",
    )
    parser.add_argument(
        "--step",
        action="append",
        default=[],
        type=int,
        metavar="N",
        help="training step whose rollouts are exported; repeatable (default: all steps)",
    )
    parser.add_argument("--project", metavar="NAME", help="name of the trackio project (default: outrider)")
    add_columns(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export the selected rollouts."""
    from outrider.exporters.export_command import export_command
    from outrider.exporters.source import ExportChoice
    from outrider.model.places import local_tokenizer

    wanted = ExportChoice(arguments.split, arguments.step)
    return export_command(
        arguments.run_folder,
        arguments.to,
        local_tokenizer,
        arguments.out,
        wanted,
        columns(arguments),
        arguments.project,
    )
