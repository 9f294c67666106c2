"""The code that an environment's process runs. :mod:`outrider.environments.apart` starts the process."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from typing import Any

from outrider.environments.environment import Environment
from outrider.environments.environments import EnvironmentLimits, Failed, Make, asked
from outrider.verify.worker import limit_memory


def run_environment(made: tuple[Make, EnvironmentLimits], channel: Connection, memory_gb: float) -> None:
    """Reply to each message on the channel: first a problem with a seed, then the texts of turns. The message None ends
    the process.

    An answer consists of this process's id, the number of the request, and a reply or a failure. After a failure, the
    process ends.
    """
    make, limits = made
    # tracebacks of user code would disturb the progress line, and the answer already contains the error. stderr is
    # redirected only here: the parent process imports the environment, and must be able to print import errors
    os.dup2(1, 2)
    own = os.getpid()
    os.register_at_fork(after_in_child=channel.close)  # processes that the environment forks must not answer
    limit_memory(memory_gb)
    environment: Environment | None = None
    while (question := channel.recv()) is not None:
        number, given = question
        if environment is None:
            answer, environment = _begun(make, given, limits)
        else:
            answer = asked(lambda: environment.step(given), limits)  # noqa: B023 - called at once
        if os.getpid() != own:
            return
        channel.send((own, number, answer))
        if isinstance(answer, Failed):
            return
    if environment is not None:
        with contextlib.suppress(Exception):
            environment.close()


def _begun(make: Make, given: Any, limits: EnvironmentLimits) -> tuple[Any, Environment | None]:
    environment: list[Environment] = []

    def begin() -> Any:
        environment.append(make())
        return environment[0].begin(*given)

    return asked(begin, limits), environment[0] if environment else None
