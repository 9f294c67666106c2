"""``outrider.sft``, a Python function for supervised fine-tuning on the solutions that a task provides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.api.task_argument import task_of
from outrider.config import load_sft
from outrider.config.sft import folder_of_sft


def sft(
    task: Any,
    *,
    base: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> Path:
    """Fine-tune a model on the solutions that a task provides, and return the model folder.

    The command ``outrider sft`` calls the same code. After an interruption, the same call continues the fine-tuning.

    Args:
        task: a task object, or what a recipe would contain under ``task``, such as ``"countdown"``; the task must
            provide solutions.
        base: the model to fine-tune; None: a new small model. If you specify ``base``, you must also set ``learn.lr``
            in ``config``.
        config: option values by dotted key, such as ``{"steps": 2000, "learn.lr": 2e-3}``.
        out: the model folder; default ``runs/sft-<task>-<seed>``.

    Raises:
        UserError: an argument is invalid, the task has no solutions, or the folder ``out`` exists already.
    """
    import torch

    from outrider.commands.sft_command import sft_command

    given = {} if base is None else {"base": str(base)}
    options = load_sft(task_of(task), {**given, **(config or {})})
    folder = folder_of_sft(options) if out is None else Path(out)
    threads = torch.get_num_threads()
    try:
        sft_command(options, folder)
    finally:
        torch.set_num_threads(threads)  # fine-tuning uses one thread
    return folder
