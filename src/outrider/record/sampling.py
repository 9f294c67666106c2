"""Sampling options, and the meaning of a sampled token's log-probability and context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]


class Mode(NamedTuple):
    """The distribution that a log-probability belongs to.

    Two log-probabilities may be compared (a ratio, a KL) only if their modes are equal. ``RAW`` is the model's own
    softmax; ``temperature`` divides the logits; ``top_p`` and ``top_k`` (0: off) renormalise over the kept tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


RAW = Mode()


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Options for sampling tokens.

    Attributes:
        temperature: softmax temperature; 0 means greedy.
        top_p, top_k: truncation of the sampling distribution; 1.0 and 0 are off.
        max_tokens: maximum response tokens, end-of-sequence token included; a branch's prefix counts, so that
            all paths of a group share one limit.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 128

    @property
    def logprob_mode(self) -> Mode:
        """The mode of the reported log-probabilities: the temperature is applied, truncation is not.

        Without truncation this is the sampling distribution. With truncation, tokens come from a renormalised
        distribution, whose log-probabilities the learner could not reproduce. Greedy decoding reports the raw
        distribution.
        """
        return Mode(self.temperature) if self.temperature > 0 else RAW


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt before a response: the plain prompt, or one seeded with worked examples or a hint.

    Attributes:
        kind: ``"plain"`` or ``"seeded"``; ``"replayed"`` for the plain prompt of a rollout from an earlier step.
        exemplars: problem ids of the examples, in order; for a replayed rollout, its original id; empty for plain.
        trained: prompt of the rollout in training: ``"as_generated"``, the prompt it was sampled from; ``"original"``,
            the problem's plain prompt; ``"excluded"``, not trained on (the rollout still counts in baselines).
    """

    kind: str = "plain"
    exemplars: tuple[str, ...] = ()
    trained: str = "as_generated"


PLAIN = Context()
