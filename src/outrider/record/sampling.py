"""How a response was sampled: the sampling options, the distribution under which its log-probabilities are computed,
and what the prompt contained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]


class Mode(NamedTuple):
    """The distribution to which a log-probability refers.

    Only log-probabilities with equal modes may be compared (in a ratio or a KL divergence). ``RAW`` is the model's
    softmax at temperature 1. ``temperature`` divides the logits. ``top_p`` and ``top_k`` restrict the distribution to
    the most likely tokens, and renormalise it; ``top_p`` 1 and ``top_k`` 0 mean no limit.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


RAW = Mode()


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Options for sampling tokens.

    Attributes:
        temperature: softmax temperature; 0 means greedy decoding.
        top_p: probability mass of the tokens that may be sampled; 1.0 turns this limit off.
        top_k: number of most likely tokens that may be sampled; 0 turns this limit off.
        max_tokens: maximum number of response tokens, including the end-of-sequence token. If a response continues a
            prefix of another response, the prefix counts too, so all responses of a group have the same limit.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 128

    @property
    def logprob_mode(self) -> Mode:
        """The distribution to which reported log-probabilities refer, which has the sampling temperature but is not
        truncated.

        If ``top_p`` and ``top_k`` are off, this distribution is the sampling distribution. Otherwise, tokens are
        sampled from a truncated distribution, whose log-probabilities the learner could not reproduce. Greedy decoding
        reports log-probabilities of the raw distribution.
        """
        return Mode(self.temperature) if self.temperature > 0 else RAW


@dataclass(frozen=True, slots=True)
class Context:
    """The kind of prompt before a response: the plain prompt, or a seeded prompt with worked examples or a hint.

    Attributes:
        kind: ``"plain"`` or ``"seeded"``; ``"replayed"`` for the plain prompt of a rollout from an earlier step.
        exemplars: problem ids of the examples, in order; empty for a plain prompt. For a replayed rollout, this field
            contains the rollout's original id instead.
        trained: which prompt precedes the response in training. ``"as_generated"``: the prompt used for sampling;
            ``"original"``: the problem's plain prompt; ``"excluded"``: the rollout is not trained on, but still counts
            in baselines.
    """

    kind: str = "plain"
    exemplars: tuple[str, ...] = ()
    trained: str = "as_generated"


PLAIN = Context()
