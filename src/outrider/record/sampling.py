"""How tokens are drawn, and what a drawn token's log-probability and context mean."""

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
    """How tokens are drawn.

    Attributes:
        temperature: 0 means greedy.
        top_p, top_k: truncation of the sampling distribution; 1.0 and 0 are off.
        max_tokens: the most response tokens, end-of-sequence token included; a branch's prefix counts, so that
            all paths of a group share one limit.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 128

    @property
    def logprob_mode(self) -> Mode:
        """The mode of the reported log-probabilities: the temperature is applied, truncation is not.

        Without truncation this is the distribution that was sampled from. With it, the learner can reproduce the
        number, which it could not for a renormalised one. Greedy decoding reports the raw distribution.
        """
        return Mode(self.temperature) if self.temperature > 0 else RAW


@dataclass(frozen=True, slots=True)
class Context:
    """What stands before the response: the plain prompt, or one seeded with worked examples or a hint.

    Attributes:
        kind: ``"plain"`` or ``"seeded"``; ``"replayed"`` for the plain prompt of a rollout that an earlier step drew.
        exemplars: problem ids of the examples, in order; of a replayed rollout, the id that it had; empty for plain.
        trained: what the rollout is trained with: ``"as_generated"``, after the context it was sampled from;
            ``"original"``, after the problem's plain prompt; ``"excluded"``, not at all (it still counts in baselines).
    """

    kind: str = "plain"
    exemplars: tuple[str, ...] = ()
    trained: str = "as_generated"


PLAIN = Context()
