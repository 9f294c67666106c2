"""The command ``outrider serve``, which replaces this process with a vLLM server for the sampler ``vllm``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.errors import UserError
from outrider.model.places import local_config, model_folder
from outrider.sample.options import EXACT, MOST_RANK, vllm_rank

_MODULE = "vllm.entrypoints.openai.api_server"  # the command `vllm` fails for builds under other names


def serve_command(model: str, port: int, dtype: str, lora: int | None, python: str | None, more: Sequence[str]) -> int:
    """Replace this process with the server. ``more`` contains vLLM arguments that override those from Outrider.

    Args:
        lora: maximum adapter rank. None disables adapters.
        python: Python interpreter that has vLLM. None means the current interpreter.

    Raises:
        UserError: the interpreter has no vLLM, or vLLM does not support adapters of rank ``lora``.
    """
    interpreter = python or sys.executable
    found = subprocess.run([interpreter, "-c", f"import {_MODULE.partition('.')[0]}"], capture_output=True, check=False)
    if found.returncode:
        raise UserError(
            f"{interpreter} has no vLLM: install it there (docs/engines.md), or name an interpreter that has it, as "
            "in --python /path/to/venv/bin/python"
        )
    arguments = [interpreter, "-m", _MODULE, *server_arguments(model, port, dtype, lora), *more]
    sys.stdout.write(f"$ {' '.join(arguments)}\n")
    sys.stdout.flush()
    os.execve(interpreter, arguments, {**server_environment(lora), **os.environ})


def server_arguments(model: str, port: int, dtype: str, lora: int | None = None) -> list[str]:
    """Return the command-line arguments that a vLLM server needs so that the sampler can use it.

    >>> server_arguments("base:countdown", 8000, "float32")[2:8]
    ['--served-model-name', 'base:countdown', '--host', '127.0.0.1', '--port', '8000']
    """
    folder = model_folder(model)
    # the development mode runs any code that a client sends, so other machines must have no access
    arguments = ["--model", folder, "--served-model-name", model, "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--dtype", dtype]
    # log-probabilities of the sampling distribution (with temperature), which the learner's ratio divides by
    arguments += ["--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details"]
    if lora is not None:
        arguments += ["--enable-lora", "--max-lora-rank", str(_held_rank(lora))]
    context = (local_config(model) or {}).get("max_position_embeddings")
    return arguments + (["--max-model-len", str(context)] if Path(folder).is_dir() and context else [])


def _held_rank(rank: int) -> int:
    held = vllm_rank(rank) if rank > 0 else None
    if held is None:
        raise UserError(f"--lora: vLLM holds adapters of rank 1 to {MOST_RANK}, and not of {rank}")
    return held


def server_environment(lora: int | None = None) -> Mapping[str, str]:
    """Return environment variables for the server. Values that are already set in the environment take precedence."""
    return {
        "VLLM_SERVER_DEV_MODE": "1",  # enables /collective_rpc, which reloads weights
        "VLLM_NO_USAGE_STATS": "1",
        **EXACT,
        # an adapter is loaded at every weight sync
        **({} if lora is None else {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}),
    }
