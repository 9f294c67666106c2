"""Sends a fixed sequence of turns to an environment, to compare the replies of two episodes with the same turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.environments.environment import Reply
from outrider.environments.environments import Environments, Failed, Key
from outrider.record import Problem


def play(
    environments: Environments, key: Key, problem: Problem, turns: Sequence[str], seed: int = 0
) -> list[Reply | Failed]:
    """Return a new environment's first reply and then its reply to each turn, until the episode ends or fails."""
    environments.begin(key, problem, seed)
    said: list[Reply | Failed] = []
    for turn in [*turns, None]:
        [(_, answer)] = environments.answers()
        said.append(answer)
        if turn is None or isinstance(answer, Failed) or answer.done:
            break
        environments.act(key, turn)
    environments.close([key])
    return said


def timeless(said: Reply | Failed) -> Reply | Failed:
    """Return a reply without the verdict's ``seconds``, which may differ between two episodes."""
    if isinstance(said, Failed) or said.verdict is None:
        return said
    return said._replace(verdict=replace(said.verdict, seconds=0.0))
