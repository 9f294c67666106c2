"""The options of experiment trackers: the run's names in the trackers, and the data that is logged in addition to
metrics."""

from __future__ import annotations

from pydantic import Field

from outrider.options import Options


class TrackingOptions(Options):
    """The names of a run in its trackers, and the size and frequency of logged rollout tables."""

    project: str | None = Field(
        None,
        min_length=1,
        description=(
            "project to which the run is logged; null: the project named in $WANDB_PROJECT (wandb only) if set, "
            "otherwise outrider"
        ),
    )
    entity: str | None = Field(
        None, min_length=1, description="wandb user or team that owns the project; null: wandb's default"
    )
    tags: list[str] = Field([], description="list of tags to attach to the run in wandb")
    name: str | None = Field(
        None, min_length=1, description="name of the run in the experiment trackers; null: the name of the run folder"
    )
    rollouts: int = Field(
        16,
        ge=0,
        description="maximum number of rollouts in each rollout table that is logged to the trackers; 0: log no tables",
    )
    rollouts_every: int = Field(
        10,
        ge=1,
        description=(
            "number of training steps between two logged rollout tables; a table is always logged after the first "
            "training step"
        ),
    )
