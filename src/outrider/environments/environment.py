"""The contract of an environment: what a policy's turns do, and what it sees of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from outrider.record import Problem, Verdict


class Reply(NamedTuple):
    """What an environment makes of a turn.

    Attributes:
        observation: what the policy reads before its next turn.
        done: whether there is no next turn; the observation is then excluded.
        verdict: of the whole rollout, with the last turn; None: there is none yet. Its score fits its outcome.
        error: whether the turn asked for something that cannot be had: a malformed call, an unknown name. Counted.
        cut: whether the observation is the beginning of a longer one. Counted; one that is longer than any may be is
            truncated by the caller.
    """

    observation: str = ""
    done: bool = False
    verdict: Verdict | None = None
    error: bool = False
    cut: bool = False


FLOOD_BYTES = 1 << 20


def flooded(texts: Sequence[str], most_bytes: int) -> str:
    """Why the texts of an observation are too long to be cut: the environment floods, and has failed; else empty.

    An observation beyond ``most_bytes`` is cut, and the rollout goes on. One beyond a MiB (and beyond ``most_bytes``)
    is no answer to a turn.

    >>> flooded(["a" * 1000], 10), flooded(["a", "b" * 2**20], 10)
    ('', 'an observation of 1,048,577 bytes, more than 1,048,576')
    """
    most = max(FLOOD_BYTES, most_bytes)
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return f"an observation of {size:,} bytes, more than {most:,}" if size > most else ""


def beginning(text: str, most_bytes: int) -> str:
    """As much of a text as so many bytes of UTF-8 hold; a character that the cut goes through is excluded.

    >>> beginning("añb", 2), beginning("añb", 3)
    ('a', 'añ')
    """
    return text.encode("utf-8", "replace")[: max(most_bytes, 0)].decode("utf-8", "ignore")


class Environment(ABC):
    """One environment of one rollout. What it says depends on the problem, the seed and the turns so far alone.

    A branch goes on from a turn of another rollout: there the environment is made anew, given the same turns, and has
    to say the same again.
    """

    @abstractmethod
    def begin(self, problem: Problem, seed: int) -> str:
        """Begin with a problem; returns what the policy reads before its first turn beside the prompt, mostly nothing.

        All rollouts of a problem in a step have one seed."""

    @abstractmethod
    def step(self, text: str) -> Reply:
        """What the text of a turn does."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of what it holds; called after any turn."""
