"""The options of ``outrider sft``, which trains a new small model or an existing model on a task's solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from outrider.config.load import changes_of, load_options
from outrider.config.recipe import AnyTask
from outrider.errors import UserError
from outrider.learn.options import SftOptions
from outrider.model.options import NewModel


class Sft(SftOptions):
    """A task, and the options for training on its solutions."""

    task: AnyTask
    model: NewModel = Field(
        default_factory=NewModel, description="size and initialisation of a new model, used only if base is null"
    )
    base: str | None = Field(
        None,
        description=(
            "existing model to fine-tune: base:<name> (shipped with Outrider), a folder, a GGUF file, package:<name> "
            "(GGUF file in a Python package), or a Hugging Face Hub name; null: train a new model"
        ),
    )


def folder_of_sft(sft: Sft) -> Path:
    """Return the default folder of the trained model."""
    return Path("runs") / f"sft-{sft.task.name}-{sft.seed}"


def load_sft(task: Any, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Sft:
    """Return the options for training on a task's solutions: the overrides, and defaults for all other options.

    The shipped base models were trained with these defaults. The task is a name or a name with options.

    Raises:
        UserError: the task or key does not exist, a value is out of range, or an option for new models is set together
            with ``base``.

    >>> load_sft("countdown", ["learn.lr=1e-3"]).learn.schedule
    'cosine'
    """
    defaults = SftOptions().model_dump(mode="json")  # plain data, so that an override changes only one value
    sft = load_options(Sft, {**defaults, "task": task}, overrides, "sft")
    if sft.base is not None:
        _refuse_what_is_of_new_ones(sft, {key for key, _, _ in changes_of(overrides)})
    return sft


def _refuse_what_is_of_new_ones(sft: Sft, keys: set[str]) -> None:
    if "learn.lr" not in keys:
        default = f"the default, {sft.learn.lr:g}, is for new models"
        raise UserError(f"base={sft.base} is already trained: set learn.lr=... too; {default}")
    for key in sorted(keys):
        if key.partition(".")[0] in ("model", "seed"):
            raise UserError(f"{key} applies only to new models, and base={sft.base} is trained")
