"""The options of ``outrider score``."""

from __future__ import annotations

from pydantic import Field

from outrider.config.recipe import AnyTask
from outrider.options import Options


class Score(Options):
    """The task whose verifier checks saved generations."""

    task: AnyTask = Field(description="task that provides the gold answers and verifies the responses")
    problems: int | None = Field(
        None, ge=1, description="number of held-out problems to score; null: all problems of a finite set"
    )
