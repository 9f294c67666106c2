"""The options of sampling. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from outrider.options import AUTO, Auto, Options
from outrider.record import SamplingParams

FUSED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
ROWS, SHARE = 256, 0.5


class SampleOptions(Options):
    """How responses are drawn, and by which engine path."""

    temperature: float = Field(1.0, ge=0, description="sampling temperature; 0: greedy")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; 1: off")
    top_k: int = Field(0, ge=0, description="top-k sampling; 0: off")
    max_tokens: int = Field(128, ge=1, description="maximum response tokens, end token included")
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="stop strings beside the end tokens; they stay in the response"
    )
    rows: Auto | Annotated[int, Field(ge=1)] = Field(
        AUTO,
        description="responses decoded together per rank; auto: by available memory in training, otherwise 256",
    )
    path: Literal["auto", "fused", "packed", "plain"] = Field(
        "auto", description="implementation of the forward pass; auto: the fastest one that agrees with the model"
    )

    @property
    def most_rows(self) -> int:
        """``rows`` as a number, also for ``auto``."""
        return ROWS if self.rows == AUTO else self.rows

    def params(self) -> SamplingParams:
        return SamplingParams(self.temperature, self.top_p, self.top_k, self.max_tokens)


class SamplerEngine(Options):
    """What draws the rollouts of a run."""


class LocalSampling(SamplerEngine):
    """The policy itself, in the processes of the run."""


class Vllm(SamplerEngine):
    """vLLM: in the run's own processes, one engine in each, or as servers that ``outrider serve`` has started.

    Servers are used side by side, with the same weights. The weights of every step go through a folder that servers
    and processes can read: of this machine, or of a file system that all machines share.
    """

    servers: list[Annotated[str, Field(pattern="^https?://[^/]+/?$")]] = Field(
        default_factory=list,
        description="addresses such as http://127.0.0.1:8000; empty: vLLM in the run's own processes",
    )
    folder: str | None = Field(None, description="folder for weight syncs; null: this machine's temporary folder")
    memory: Auto | Annotated[float, Field(gt=0, le=1)] = Field(
        AUTO,
        description="share of a GPU's memory for in-process vLLM, weights included; auto: what it needs",
    )
    in_flight: int = Field(64, ge=1, description="maximum concurrent requests per server and process of the run")
    seconds: float = Field(
        600.0, gt=0, description="timeout of a request to a server, after which the server counts as lost"
    )

    @property
    def share(self) -> float:
        """``memory`` as a number, also for ``auto``."""
        return SHARE if self.memory == AUTO else self.memory

    @model_validator(mode="after")
    def _of_one_kind(self) -> Vllm:
        places = [address.rstrip("/") for address in self.servers]
        if twice := next((place for place in places if places.count(place) > 1), ""):
            raise ValueError(f"servers names {twice} twice, and a server takes its share of the requests once")
        foreign = ("memory",) if self.servers else ("in_flight", "seconds")
        # a run's own recipe states every default, also that of an older version, so only other values were meant
        older: dict[str, float] = {"memory": SHARE}
        defaults = {name: (type(self).model_fields[name].default, older.get(name)) for name in foreign}
        meant = [name for name in foreign if getattr(self, name) not in defaults[name]]
        if meant and self.servers:
            raise ValueError(f"{meant[0]} is for vLLM in the run's own processes, and servers names others")
        if meant:
            raise ValueError(f"{meant[0]} is for servers, and servers names none")
        return self


class TinkerSampling(SamplerEngine):
    """The service that trains the policy (``engine.learner: tinker``)."""


SAMPLER_ENGINES: dict[str, type[SamplerEngine]] = {"local": LocalSampling, "vllm": Vllm, "tinker": TinkerSampling}


_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
MOST_RANK = _RANKS[-1]

EXACT = {"TRITON_F32_DEFAULT": "ieee"}
"""For vLLM: in float32 its attention is Triton's, whose products on a GPU are else of 10 bits (TF32). On an H100
a small model's log-probabilities were 1e-3 off without it, more than a weight sync may be, and within 1e-5 with it."""


def vllm_rank(rank: int) -> int | None:
    """The least rank of adapters that vLLM can be told to hold, of those that hold one of ``rank``; None: none does.

    >>> [vllm_rank(rank) for rank in (1, 9, 16, 300, 513)]
    [8, 16, 16, 320, None]
    """
    return next((held for held in _RANKS if held >= rank), None)
