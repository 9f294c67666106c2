"""The interface of an environment, which replies to the turns of a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from outrider.record import Problem, Verdict


class Reply(NamedTuple):
    """An environment's reply to a turn.

    Attributes:
        observation: text that is appended to the rollout before the policy's next turn; discarded after the last turn.
        done: whether the rollout ends with this turn.
        verdict: verdict on the whole rollout, given after the last turn; None after earlier turns.
        error: whether the turn contained an invalid request, such as a malformed call or an unknown tool. A metric
            counts these turns.
        cut: whether the environment truncated the observation. The metric ``observations_cut`` counts truncated
            observations; observations longer than ``EnvironmentLimits.most_bytes`` count as well.
    """

    observation: str = ""
    done: bool = False
    verdict: Verdict | None = None
    error: bool = False
    cut: bool = False


FLOOD_BYTES = 1 << 20


def flooded(texts: Sequence[str], most_bytes: int) -> str:
    """Return an error message if an observation is so long that the environment counts as failed; otherwise return an
    empty string.

    An observation longer than ``most_bytes`` is truncated, and the rollout continues. If the observation is longer than
    both ``most_bytes`` and 1 MiB, the environment counts as failed.

    >>> flooded(["a" * 1000], 10), flooded(["a", "b" * 2**20], 10)
    ('', 'an observation of 1,048,577 bytes, more than 1,048,576')
    """
    most = max(FLOOD_BYTES, most_bytes)
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return f"an observation of {size:,} bytes, more than {most:,}" if size > most else ""


def beginning(text: str, most_bytes: int) -> str:
    """Truncate a text to at most ``most_bytes`` bytes of UTF-8 without splitting a character.

    >>> beginning("añb", 2), beginning("añb", 3)
    ('a', 'añ')
    """
    return text.encode("utf-8", "replace")[: max(most_bytes, 0)].decode("utf-8", "ignore")


class Environment(ABC):
    """The environment of one rollout. Its replies depend only on the problem, the seed and the policy's turns so far.

    A branch is a rollout that begins with some turns of another rollout. The branch gets a new environment, which first
    receives these turns and must give the same replies as the original environment.
    """

    @abstractmethod
    def begin(self, problem: Problem, seed: int) -> str:
        """Start the environment with a problem, and return an observation for the policy's first turn (usually empty).

        All rollouts of a problem in a training step have the same seed.
        """

    @abstractmethod
    def step(self, text: str) -> Reply:
        """Reply to the text of a turn."""

    def close(self) -> None:  # noqa: B027 - most environments have nothing to release
        """Release resources. The method may be called after any turn."""
