"""The options of ``outrider score``."""

from __future__ import annotations

from pydantic import Field

from outrider.config.recipe import AnyTask
from outrider.options import Options


class Score(Options):
    """A task whose verifier checks saved generations, and the number of problems to score."""

    task: AnyTask = Field(description="task that provides the gold answers and verifies the saved responses")
    problems: int | None = Field(
        None,
        ge=1,
        description=(
            "number of held-out problems whose responses are scored; null: all held-out problems of a data set, or 300 "
            "problems if the task generates its problems"
        ),
    )
