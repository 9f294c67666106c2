"""The options of experiment trackers: the run's names in trackers, and the data to log in addition to metrics."""

from __future__ import annotations

from pydantic import Field

from outrider.options import Options


class TrackingOptions(Options):
    """The names of a run in its trackers, and the size and frequency of logged rollout tables."""

    project: str | None = Field(
        None,
        min_length=1,
        description="project of the run in the tracker; null: $WANDB_PROJECT (wandb only) or outrider",
    )
    entity: str | None = Field(None, min_length=1, description="user or team that owns the project (wandb)")
    tags: list[str] = Field([], description="tags of the run (wandb)")
    name: str | None = Field(
        None, min_length=1, description="name of the run in the tracker; null: the name of the run folder"
    )
    rollouts: int = Field(16, ge=0, description="maximum number of rollouts per logged table; 0: no tables")
    rollouts_every: int = Field(
        10, ge=1, description="training steps between logged rollout tables; the first step always has a table"
    )
