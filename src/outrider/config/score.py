"""The options of ``outrider score``."""

from __future__ import annotations

from pydantic import Field

from outrider.config.recipe import AnyTask
from outrider.options import Options


class Score(Options):
    """The task by which saved generations are verified."""

    task: AnyTask = Field(description="where the right answers come from, and how responses are verified")
    problems: int | None = Field(None, ge=1, description="held-out problems; null: of a set, all")
