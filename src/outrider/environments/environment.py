"""The interface of an environment, which replies to the policy's turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from outrider.record import Problem, Verdict


class Reply(NamedTuple):
    """An environment's reply to a turn.

    Attributes:
        observation: text that is appended to the rollout before the policy's next turn.
        done: whether this was the last turn; the observation is then discarded.
        verdict: verdict on the whole rollout, given with the last turn; None before. Its score must be consistent with
            its outcome.
        error: whether the turn had an invalid request, such as a malformed call or an unknown tool; such turns are
            counted.
        cut: whether the environment truncated the observation; truncations are counted. The caller also truncates
            observations above the limit.
    """

    observation: str = ""
    done: bool = False
    verdict: Verdict | None = None
    error: bool = False
    cut: bool = False


FLOOD_BYTES = 1 << 20


def flooded(texts: Sequence[str], most_bytes: int) -> str:
    """The reason why an observation is so long that the environment counts as failed; empty if it is not.

    An observation above ``most_bytes`` is truncated, and the rollout continues. An observation above 1 MiB (and
    ``most_bytes``) is a failure.

    >>> flooded(["a" * 1000], 10), flooded(["a", "b" * 2**20], 10)
    ('', 'an observation of 1,048,577 bytes, more than 1,048,576')
    """
    most = max(FLOOD_BYTES, most_bytes)
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return f"an observation of {size:,} bytes, more than {most:,}" if size > most else ""


def beginning(text: str, most_bytes: int) -> str:
    """Truncate a text to at most ``most_bytes`` bytes of UTF-8, without partial characters.

    >>> beginning("añb", 2), beginning("añb", 3)
    ('a', 'añ')
    """
    return text.encode("utf-8", "replace")[: max(most_bytes, 0)].decode("utf-8", "ignore")


class Environment(ABC):
    """The environment of one rollout. Its replies depend only on the problem, the seed and the turns so far.

    A branch continues another rollout after one of its turns: a new environment gets the same turns, and must give the
    same replies.
    """

    @abstractmethod
    def begin(self, problem: Problem, seed: int) -> str:
        """Start with a problem, and return an observation before the first turn (usually empty).

        All rollouts of a problem in a step have the same seed.
        """

    @abstractmethod
    def step(self, text: str) -> Reply:
        """Reply to the text of a turn."""

    def close(self) -> None:  # noqa: B027 - most environments have nothing to release
        """Release resources; may be called after any turn."""
