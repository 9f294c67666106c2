"""The process of one world, which can be killed: its side of :mod:`outrider.environments.apart`."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from typing import Any

from outrider.environments.environment import Environment
from outrider.environments.worlds import Failed, Make, WorldLimits, asked
from outrider.verify.worker import limit_memory


def run_world(made: tuple[Make, WorldLimits], channel: Connection, memory_gb: float) -> None:
    """Receive a problem with a seed, then texts of turns, and answer each; None ends it.

    An answer is this process's id, the number of the question, and a reply or a failure, behind which it ends.
    """
    make, limits = made
    # a traceback of other people's code belongs on nobody's progress line; why it fails is said by its answer. What the
    # process says that imports the environment is shown: it tells why none can be made
    os.dup2(1, 2)
    own = os.getpid()
    os.register_at_fork(after_in_child=channel.close)  # what the environment forks must not answer for it
    limit_memory(memory_gb)
    world: Environment | None = None
    while (question := channel.recv()) is not None:
        number, given = question
        if world is None:
            answer, world = _begun(make, given, limits)
        else:
            answer = asked(lambda: world.step(given), limits)  # noqa: B023 - called at once
        if os.getpid() != own:
            return
        channel.send((own, number, answer))
        if isinstance(answer, Failed):
            return
    if world is not None:
        with contextlib.suppress(Exception):
            world.close()


def _begun(make: Make, given: Any, limits: WorldLimits) -> tuple[Any, Environment | None]:
    world: list[Environment] = []

    def begin() -> Any:
        world.append(make())
        return world[0].begin(*given)

    return asked(begin, limits), world[0] if world else None
