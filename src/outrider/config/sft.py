"""The options of ``outrider sft``: a task whose own solutions train a small model from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from outrider.config.load import load_options
from outrider.config.recipe import AnyTask
from outrider.learn.options import SftOptions
from outrider.model.options import NewModel


class Sft(SftOptions):
    """A task, and how long and how fast to learn from its solutions."""

    task: AnyTask
    model: NewModel = Field(default_factory=NewModel, description="what is made")


def load_sft(task: Any, overrides: Sequence[str] = ()) -> Sft:
    """The settings of the shipped base model for a task, given as a name or with options, and overrides on them.

    Raises:
        UserError: no such task or key, or a value out of range.

    >>> load_sft("countdown", ["learn.lr=1e-3"]).learn.schedule
    'cosine'
    """
    defaults = SftOptions().model_dump(mode="json")  # as data: an override of one value keeps the others
    return load_options(Sft, {**defaults, "task": task}, overrides, "sft")
