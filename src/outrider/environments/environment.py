"""The contract of an environment, which replies to the policy's turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from outrider.record import Problem, Verdict


class Reply(NamedTuple):
    """The reply of an environment to a turn.

    Attributes:
        observation: text that is appended before the policy's next turn.
        done: whether this was the last turn; the observation is then discarded.
        verdict: verdict on the whole rollout, with the last turn; None before. Its score is consistent with its
            outcome.
        error: whether the turn had an invalid request: a malformed call, an unknown name. Counted.
        cut: whether the environment truncated the observation. Counted; the caller truncates observations above the
            limit.
    """

    observation: str = ""
    done: bool = False
    verdict: Verdict | None = None
    error: bool = False
    cut: bool = False


FLOOD_BYTES = 1 << 20


def flooded(texts: Sequence[str], most_bytes: int) -> str:
    """The reason if the texts of an observation are too long even to be truncated, so that the environment has failed;
    else empty.

    An observation above ``most_bytes`` is truncated, and the rollout continues. Above 1 MiB (and ``most_bytes``) it
    counts as a failure.

    >>> flooded(["a" * 1000], 10), flooded(["a", "b" * 2**20], 10)
    ('', 'an observation of 1,048,577 bytes, more than 1,048,576')
    """
    most = max(FLOOD_BYTES, most_bytes)
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return f"an observation of {size:,} bytes, more than {most:,}" if size > most else ""


def beginning(text: str, most_bytes: int) -> str:
    """A text truncated to ``most_bytes`` bytes of UTF-8, without partial characters.

    >>> beginning("añb", 2), beginning("añb", 3)
    ('a', 'añ')
    """
    return text.encode("utf-8", "replace")[: max(most_bytes, 0)].decode("utf-8", "ignore")


class Environment(ABC):
    """The environment of one rollout. Its replies depend only on the problem, the seed and the turns so far.

    A branch continues from a turn of another rollout: a new environment gets the same turns, and has to give the same
    replies.
    """

    @abstractmethod
    def begin(self, problem: Problem, seed: int) -> str:
        """Start with a problem; returns an observation before the first turn, usually empty. All rollouts of a problem
        in a step have the same seed."""

    @abstractmethod
    def step(self, text: str) -> Reply:
        """Reply to the text of a turn."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release resources; may be called after any turn."""
