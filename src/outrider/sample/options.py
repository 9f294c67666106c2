"""Options of sampling. Importing this module does not import torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from outrider.options import AUTO, Auto, Options
from outrider.record import SamplingParams

FUSED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
ROWS, SHARE = 256, 0.5


class SampleOptions(Options):
    """Options of sampling."""

    temperature: float = Field(
        1.0,
        ge=0,
        description="softmax temperature for sampling tokens; 0: always take the most probable token (greedy)",
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description=(
            "probability mass for nucleus (top-p) sampling: only the most probable tokens that together reach this "
            "mass are sampled; 1: off"
        ),
    )
    top_k: int = Field(
        0, ge=0, description="number of most probable tokens from which each token is sampled (top-k sampling); 0: off"
    )
    max_tokens: int = Field(
        128, ge=1, description="maximum length of a response in tokens, including the end-of-sequence token"
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description=(
            "stop strings, which end a response as an end-of-sequence token does; the response includes the stop string"
        ),
    )
    rows: Auto | Annotated[int, Field(ge=1)] = Field(
        AUTO,
        description=(
            "maximum number of responses that a process decodes together in one batch; auto: during training, as "
            "many as fit in memory; otherwise, 256"
        ),
    )
    path: Literal["auto", "fused", "packed", "plain"] = Field(
        "auto",
        description=(
            "implementation of the forward pass: Outrider's decoder (fused), the model's layers with Outrider's "
            "attention (packed), or the model's own code (plain); auto: the fastest implementation with the same "
            "results as plain"
        ),
    )

    @property
    def most_rows(self) -> int:
        """``rows`` as a number, which is 256 for ``auto``."""
        return ROWS if self.rows == AUTO else self.rows

    def params(self) -> SamplingParams:
        return SamplingParams(self.temperature, self.top_p, self.top_k, self.max_tokens)


class SamplerEngine(Options):
    """The engine that samples the rollouts of a run."""


class LocalSampling(SamplerEngine):
    """Sampling with the policy's own model, inside the run's processes."""


class Vllm(SamplerEngine):
    """Sampling by vLLM, either with one engine in each of the run's processes, or with servers started by ``outrider
    serve``.

    If there are several servers, all have the same weights, and requests are distributed among them. Weights are synced
    in each step. Servers read the weights from a folder, which all servers and the run's processes must be able to
    read. The folder may be on a shared file system. vLLM inside the run's processes copies the weights from memory. If
    the policy has an adapter or is sharded, vLLM reads the folder instead.
    """

    servers: list[Annotated[str, Field(pattern="^https?://[^/]+/?$")]] = Field(
        default_factory=list,
        description="URLs of vLLM servers, such as http://127.0.0.1:8000; []: vLLM runs inside the run's own processes",
    )
    folder: str | None = Field(
        None,
        description="folder through which new weights are passed to vLLM; null: this machine's temporary folder",
    )
    memory: Auto | Annotated[float, Field(gt=0, le=1)] = Field(
        AUTO,
        description=(
            "fraction of GPU memory, including weights, that vLLM may use if it runs inside the run's processes; auto: "
            "the fraction that vLLM is estimated to need"
        ),
    )
    sleep: bool = Field(
        False,
        description=(
            "whether vLLM inside the run's processes frees its GPU memory during updates (vLLM's sleep mode); updates "
            "then have more memory, but training steps take longer"
        ),
    )
    in_flight: int = Field(
        64, ge=1, description="maximum number of concurrent requests that each process of the run sends to each server"
    )
    seconds: float = Field(
        600.0, gt=0, description="time limit in seconds for a request, after which the server counts as unavailable"
    )

    @property
    def share(self) -> float:
        """``memory`` as a number, which is 0.5 for ``auto``."""
        return SHARE if self.memory == AUTO else self.memory

    @model_validator(mode="after")
    def _of_one_kind(self) -> Vllm:
        places = [address.rstrip("/") for address in self.servers]
        if twice := next((place for place in places if places.count(place) > 1), ""):
            raise ValueError(f"servers has {twice} twice: remove the duplicate")
        foreign = ("memory", "sleep") if self.servers else ("in_flight", "seconds")
        # a run's config.yaml contains all default values, even defaults of older versions; a user set only values that
        # differ from both
        older: dict[str, float] = {"memory": SHARE}
        defaults = {name: (type(self).model_fields[name].default, older.get(name)) for name in foreign}
        meant = [name for name in foreign if getattr(self, name) not in defaults[name]]
        if meant and self.servers:
            raise ValueError(f"{meant[0]} applies to in-process vLLM, but servers is set: remove one of them")
        if meant:
            raise ValueError(
                f"{meant[0]} applies to vLLM servers, but servers is empty: remove {meant[0]}, or set servers"
            )
        return self


class TinkerSampling(SamplerEngine):
    """Sampling by the service that trains the policy (``engine.learner: tinker``)."""


SAMPLER_ENGINES: dict[str, type[SamplerEngine]] = {"local": LocalSampling, "vllm": Vllm, "tinker": TinkerSampling}


_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
MOST_RANK = _RANKS[-1]

EXACT = {"TRITON_F32_DEFAULT": "ieee"}
"""Environment variables for vLLM in float32, whose Triton attention otherwise uses TF32 matmuls (10-bit mantissa) on a
GPU. Without this variable, a small model's log-probabilities on an H100 had errors of 1e-3, above the tolerance of the
weight-sync check. With this variable, the errors were below 1e-5."""


def vllm_rank(rank: int) -> int | None:
    """Return the smallest adapter rank supported by vLLM that is at least ``rank``, or None if there is no such rank.

    >>> [vllm_rank(rank) for rank in (1, 9, 16, 300, 513)]
    [8, 16, 16, 320, None]
    """
    return next((held for held in _RANKS if held >= rank), None)
