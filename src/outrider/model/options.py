"""The options of the policy, except the name of the model. Does not import torch."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import Field, model_validator

from outrider.options import Options


class PolicyOptions(Options):
    """Options for a model's prompt format and dtype.

    With ``chat``, a problem's prompt is the user message of the tokenizer's chat template, and the response is the
    assistant message. Without ``chat``, the prompt is the problem's text, unchanged.

    With ``dtype: bfloat16``, matmuls (autocast) and the sampler's copy of the weights use bfloat16. Trained weights
    stay float32, since bfloat16 has only 8 significant bits. An AdamW update moves a weight by about the learning rate.
    In bfloat16, an update smaller than a 256th of the weight would be rounded away. With a learning rate of 1e-6,
    nearly every update is that small.
    """

    chat: bool = Field(
        False,
        description=(
            "whether to format prompts with the tokenizer's chat template; false: use the problem's text unchanged"
        ),
    )
    system: str | None = Field(
        None, description="system message at the start of every prompt; null: the chat template's default"
    )
    chat_template_kwargs: dict[str, bool | int | float | str] = Field(
        default_factory=dict,
        description="keyword arguments passed to the tokenizer's chat template, such as {enable_thinking: false}",
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="dtype of matrix multiplications in training and sampling; trained weights always stay float32",
    )
    check: bool = Field(
        True,
        description=(
            "whether to check, after loading, that Outrider's forward pass gives the same log-probabilities as the "
            "model's own forward pass; see docs/models.md"
        ),
    )

    @model_validator(mode="after")
    def _system_needs_chat(self) -> PolicyOptions:
        if self.system is not None and not self.chat:
            raise ValueError("system is a message of the chat template, which chat=true applies")
        if self.chat_template_kwargs and not self.chat:
            raise ValueError("chat_template_kwargs are arguments of the chat template, which chat=true applies")
        return self


class LoraOptions(Options):
    r"""Train an adapter instead of the weights: :math:`W + \frac{\alpha}{r} B A` with :math:`B = 0` at the start.

    The adapter has no dropout, so learner and sampler use the same policy. With ``dtype: bfloat16``, the frozen weights
    are bfloat16, and the adapter is float32.

    Source: LoRA, arXiv 2106.09685.
    """

    rank: int = Field(
        16,
        ge=1,
        description=(
            "rank of each LoRA adapter (the inner dimension of its two matrices); a larger rank means more trainable "
            "parameters"
        ),
    )
    alpha: float = Field(
        32.0,
        gt=0,
        description=(
            "LoRA scale; the product of an adapter's two matrices is multiplied by alpha / rank, and then added to the "
            "weights"
        ),
    )
    targets: Literal["all-linear"] | list[str] = Field(
        "all-linear",
        description=(
            "names of the linear layers that get an adapter, such as [q_proj, v_proj]; all-linear: every linear layer "
            "except the LM head"
        ),
    )


class NewModel(Options):
    """The size of a new model with random weights."""

    layers: int = Field(3, ge=1)
    width: int = Field(128, ge=64, multiple_of=64, description="size of the model's hidden states")
    context: int = Field(
        256, ge=8, description="context length: maximum number of tokens of prompt and response together"
    )
    vocabulary: int = Field(
        1000, ge=300, le=2000, description="maximum number of tokens in the vocabulary, if the tokenizer uses subwords"
    )
    init: float = Field(
        0.02,
        gt=0,
        le=1,
        description=(
            "standard deviation of the random initial weights; 1/sqrt(width) is a good value if the model should "
            "learn to copy tokens early"
        ),
    )


class TrainedPolicyOptions(PolicyOptions):
    """The options of a run's policy, including which weights are trained and which weights are exported."""

    lora: LoraOptions | None = Field(
        None, description="settings for training LoRA adapters instead of the model's weights; null: train all weights"
    )
    export: Literal["merged", "adapter"] = Field(
        "merged",
        description=(
            "content of the saved model; merged: the full model, with the adapter merged in if there is one; adapter: "
            "only the adapter, which requires lora"
        ),
    )

    @model_validator(mode="after")
    def _adapter_needs_lora(self) -> TrainedPolicyOptions:
        if self.export == "adapter" and self.lora is None:
            raise ValueError("export is adapter, but without lora there is none")
        return self


class ServiceOptions(Options):
    """The address of the Tinker service that trains and samples the policy, and the limits on requests to it."""

    url: str | None = Field(
        None,
        pattern="^https?://",
        description=(
            "URL of the training service; null: the environment variable TINKER_BASE_URL if set, otherwise the hosted "
            "service"
        ),
    )
    seconds: float = Field(
        600.0, gt=0, description="time limit in seconds for a request, after which the service counts as unavailable"
    )
    in_flight: int = Field(
        64, ge=1, description="maximum number of rollout requests sent to the service at the same time"
    )
    rows: int = Field(
        1,
        ge=1,
        description=(
            "padding unit: the number of sequences per update is padded to a multiple of this value; useful for "
            "services that compile once for each number of sequences, such as SkyRL with JAX; 1: no padding"
        ),
    )

    def address(self) -> str:
        """Return the address of the service, for log and error messages.

        >>> ServiceOptions(url="http://127.0.0.1:8000").address()
        'http://127.0.0.1:8000'
        """
        return self.url or os.environ.get("TINKER_BASE_URL") or "of Thinking Machines"
