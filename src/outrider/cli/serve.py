"""``outrider serve``: start a vLLM server for ``engine.sampler=vllm``."""

from __future__ import annotations

import argparse
import shlex

from outrider.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("serve", help="start a vLLM server", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="model to serve: base:<name> (shipped), a folder, a GGUF file, or a Hugging Face Hub name",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        metavar="N",
        help="port on which the server listens, at 127.0.0.1 unless --vllm sets another host (default: 8000)",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="bfloat16",
        help="dtype of the weights and of matrix multiplications (default: bfloat16)",
    )
    parser.add_argument(
        "--lora",
        type=int,
        metavar="RANK",
        help="maximum rank of LoRA adapters that the server accepts, for runs with policy.lora (default: no adapters)",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="path of a Python interpreter that has vLLM (default: the interpreter that runs outrider)",
    )
    parser.add_argument(
        "--vllm",
        type=shlex.split,
        default=[],
        metavar="ARGUMENTS",
        help="further vLLM arguments as one string, e.g. --vllm='--seed 1'",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replace this process with the server."""
    from outrider.sample.serve_command import serve_command

    return serve_command(
        arguments.model, arguments.port, arguments.dtype, arguments.lora, arguments.python, arguments.vllm
    )
