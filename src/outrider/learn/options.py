"""The options of the optimizer. The module does not import torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from outrider.model.options import ServiceOptions
from outrider.options import AUTO, Auto, Options

MICRO_TOKENS = 16_384


class LearnOptions(Options):
    """Options of AdamW, of the learning-rate schedule, and of the division of a training step into optimizer updates
    and micro-batches.

    The warm-up is linear: the learning rate grows from ``lr / n`` in the first training step to ``lr`` in the ``n``-th
    step (as in verl). The warm-up length may be given in optimizer updates instead of training steps. A training step
    has ``minibatches * epochs`` updates.

    >>> LearnOptions(warmup="20 steps").warm(steps=4, updates=70), LearnOptions(warmup="320 updates").warm(4, 79)
    (0.25, 0.25)
    """

    lr: float = Field(1e-6, gt=0, description="peak learning rate of AdamW, reached after the warm-up")
    warmup: str = Field(
        "0 steps",
        description=(
            "length of the linear warm-up of the learning rate, in training steps ('20 steps') or in optimizer updates "
            "('320 updates')"
        ),
    )
    schedule: Literal["constant", "cosine", "linear"] = Field(
        "constant",
        description=(
            "learning-rate schedule: no decay (constant), or decay to 0 at the end of training along a cosine (cosine) "
            "or a straight line (linear)"
        ),
    )
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999),
        description="AdamW betas: decay rates of the first moment (beta1) and of the second moment (beta2)",
    )
    weight_decay: float = Field(
        0.0,
        ge=0,
        description=(
            "AdamW weight decay; each optimizer update subtracts weight_decay * learning rate * weight from each weight"
        ),
    )
    decay: Literal["matrices", "all"] = Field(
        "matrices",
        description=(
            "parameters that get weight decay: weight matrices only (matrices), or all parameters, including biases "
            "and norms (all)"
        ),
    )
    clip_norm: float | None = Field(
        1.0, gt=0, description="gradient norm above which gradients are scaled down to this norm; null: no clipping"
    )
    minibatches: int = Field(
        1,
        ge=1,
        description=(
            "number of mini-batches per training step, with one optimizer update per mini-batch; rollouts of the same "
            "problem stay in one mini-batch"
        ),
    )
    epochs: int = Field(
        1, ge=1, description="number of times that the optimizer goes through the rollouts of each training step"
    )
    micro_tokens: Auto | Annotated[int, Field(ge=1)] = Field(
        AUTO,
        description=(
            "maximum number of tokens per micro-batch (one forward and backward pass); auto: as many as fit in memory, "
            "up to 16384"
        ),
    )
    deterministic: bool = Field(
        False, description="whether to compute gradients on a GPU in a bit-for-bit reproducible way, which is slower"
    )
    compile: bool = Field(
        False,
        description=(
            "whether to compile the LM head with torch.compile; training on a GPU is then faster, but compilation "
            "takes a few seconds"
        ),
    )
    gradient_checkpointing: Auto | bool = Field(
        AUTO,
        description=(
            "whether to recompute activations in the backward pass, which needs less memory but more time; auto: only "
            "if the activations do not fit in memory"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _older_name(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "warmup_steps" in data:
            n = data["warmup_steps"]
            raise ValueError(
                f"warmup_steps counted optimizer updates: write warmup: {n} updates, or {n} steps for training steps"
            )
        return data

    @field_validator("warmup", mode="before")
    @classmethod
    def _says_its_unit(cls, warmup: Any) -> Any:
        if not (isinstance(warmup, str) and re.fullmatch(r"\d+ (steps|updates)", warmup)):
            raise ValueError(f"{warmup!r} has no unit: write '20 steps' of training, or '320 updates' of the optimizer")
        return warmup

    @property
    def tokens_of_a_pass(self) -> int:
        """The value of ``micro_tokens``; if this option is ``auto``, the default ``MICRO_TOKENS``."""
        return MICRO_TOKENS if self.micro_tokens == AUTO else self.micro_tokens

    @property
    def recomputes(self) -> bool:
        """Whether activations are recomputed; False for ``gradient_checkpointing: auto``."""
        return self.gradient_checkpointing is True

    def warm(self, steps: int, updates: int) -> float:
        """Return the warm-up factor of the learning rate after ``steps`` training steps and ``updates`` updates."""
        n, unit = self.warmup.split()
        done = steps if unit == "steps" else updates
        return min(1.0, (done + 1) / int(n)) if int(n) else 1.0

    def rate(self, progress: float, steps: int, updates: int) -> float:
        """Return the learning rate: the warm-up factor times the schedule at ``progress`` in [0, 1]. Both end points
        are exact.

        >>> options = LearnOptions(lr=0.5, schedule="cosine")
        >>> options.rate(0.0, 0, 0), options.rate(1.0, 9, 9)
        (0.5, 0.0)
        """
        rest = min(max(progress, 0.0), 1.0)
        shape = {"constant": 1.0, "linear": 1.0 - rest, "cosine": 0.5 * (1.0 + math.cos(math.pi * rest))}
        return self.lr * self.warm(steps, updates) * shape[self.schedule]


class SftOptions(Options):
    """Options of supervised fine-tuning. Every step uses new problems; training ends after ``steps`` steps."""

    steps: int = Field(6339, ge=1)
    problems: int = Field(24, ge=1, description="number of problems per training step")
    prompts: bool = Field(
        False,
        description="whether to train on the prompt's tokens as well as on the solution's tokens, as in pretraining",
    )
    seed: int = Field(
        0,
        ge=0,
        description=(
            "random seed for the initial weights of a new model; the order of problems depends on the seed in the "
            "task's options instead"
        ),
    )
    learn: LearnOptions = Field(
        default_factory=lambda: LearnOptions(
            lr=2e-3, warmup="50 updates", schedule="cosine", betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0
        )
    )


class LearnerEngine(Options):
    """The engine that trains the policy of a run."""


class LocalLearning(LearnerEngine):
    """PyTorch, with the weights replicated in every process of the run."""


class Fsdp2(LearnerEngine):
    """PyTorch's FSDP2: parameters, gradients and optimizer state are sharded over the processes of the run, one process
    per GPU.

    No process has the whole policy, so rollouts come from a sampler with separate weights.
    """

    offload: bool = Field(
        False,
        description=(
            "whether to keep parameters, gradients and optimizer state in CPU memory, which needs less GPU memory but "
            "more time"
        ),
    )


class Prices(Options):
    """Prices per million tokens, in any currency."""

    prefill: float = Field(ge=0, description="price per million prompt tokens (prefill)")
    sample: float = Field(ge=0, description="price per million generated tokens")
    train: float = Field(ge=0, description="price per million tokens in training (forward and backward pass)")


class Tinker(LearnerEngine, ServiceOptions):
    """A service with the Tinker protocol, hosted or self-hosted, which holds the policy and trains an adapter.

    The API key comes from the environment variable ``TINKER_API_KEY``, and is never written to disk.
    """

    prices: Prices | None = Field(
        None,
        description=(
            "prices of the service per million tokens, from which `--dry-run` estimates the cost; null: no cost "
            "estimate"
        ),
    )


LEARNER_ENGINES: dict[str, type[LearnerEngine]] = {"local": LocalLearning, "fsdp2": Fsdp2, "tinker": Tinker}
