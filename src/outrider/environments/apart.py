"""Environments in separate processes. If an environment hangs, dies or sends too much text, only its rollout fails."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Pipe, wait
from signal import SIGKILL

from outrider.environments.environment import Reply
from outrider.environments.environment_process import run_environment
from outrider.environments.environments import EnvironmentLimits, Failed, Key, Make
from outrider.errors import UserError
from outrider.record import Problem
from outrider.verify.processes import NoMoreProcessesError, TemplateDiedError, TemplateProcess, starting


class _EnvironmentProcess:
    """The process of one environment, with the number of the last request and the deadline for its answer."""

    def __init__(self, template: TemplateProcess) -> None:
        self.template, self.number, self.deadline = template, 0, math.inf
        with starting():
            self.channel, theirs = Pipe()
        with theirs:
            self.pid = template.fork(theirs)

    def ask(self, question: object, seconds: float) -> None:
        self.number += 1
        self.deadline = time.monotonic() + seconds
        with contextlib.suppress(ConnectionError):  # the process has died; `answers` notices the closed channel
            self.channel.send((self.number, question))

    def told_to_close(self) -> bool:
        """Ask the environment to close; return False if its process has died."""
        with contextlib.suppress(OSError):
            self.channel.send(None)
            return True
        return False

    def end(self) -> None:
        """Kill the process and all its child processes."""
        self.channel.close()
        if self.template.dead:
            return  # when the template dies, this process dies as well, and its pid may have been reused
        for kill in (os.killpg, os.kill):  # also os.kill: a new process may not have created its process group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, SIGKILL)
        with contextlib.suppress(TemplateDiedError):
            self.template.reap(self.pid)


class ProcessEnvironments:
    """Runs every environment in a separate process, forked from a process that has imported the environment.

    Args:
        make: picklable function that creates an environment. The function must not be defined in ``__main__``.
        memory_gb: maximum growth of an environment's memory in GiB; only Linux enforces this limit.

    Raises:
        UserError: ``make`` is defined in ``__main__`` or raises UserError when unpickled, or the system refuses to
            start another process.
    """

    def __init__(self, make: Make, limits: EnvironmentLimits, memory_gb: float = 2.0) -> None:
        if getattr(make, "__module__", None) == "__main__":
            raise UserError(
                f"the environment {make!r} is defined in the main script, which its processes do not import: move it "
                "to a module"
            )
        self._payload = pickle.dumps((run_environment, (make, limits)))
        self._limits, self._memory_gb = limits, memory_gb
        self._template: TemplateProcess | None = None
        self._environments: dict[Key, _EnvironmentProcess] = {}
        self._closing: list[_EnvironmentProcess] = []  # closing environments, killed at their deadlines
        self._failed: dict[Key, Failed] = {}

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        try:
            environment = self._environments[key] = self._forked()
            environment.ask((problem, seed), self._limits.seconds)
        except TemplateDiedError:
            self._failed[key] = Failed("the process that starts the environments died")
            self._end_template()

    def act(self, key: Key, text: str) -> None:
        self._environments[key].ask(text, self._limits.seconds)

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        failed, self._failed = self._failed, {}
        waiting = {
            key: environment for key, environment in self._environments.items() if environment.deadline < math.inf
        }
        found: list[tuple[Key, Reply | Failed]] = list(failed.items())
        while waiting and not found:
            environments = [*waiting.values(), *self._closing]
            soonest = min(environment.deadline for environment in environments)
            ready = wait([environment.channel for environment in environments], max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            for key, environment in waiting.items():
                if environment.channel in ready:
                    answer = self._received(environment)
                elif now >= environment.deadline:
                    answer = Failed(f"no answer in {self._limits.seconds:g} s", hung=True)
                else:
                    continue
                if answer is not None:
                    environment.deadline = math.inf
                    found.append((key, answer))
            self._end_closed()
        self.close(key for key, answer in found if isinstance(answer, Failed))
        return iter(found)

    def close(self, keys: Iterable[Key]) -> None:
        """Close environments.

        Busy environments are killed. Idle environments get time to release their resources. If no other environment is
        open, the method waits until all idle environments have closed or their time is up.
        """
        for key in list(keys):
            if (environment := self._environments.pop(key, None)) is None:
                continue
            if environment.deadline == math.inf and environment.told_to_close():
                environment.deadline = time.monotonic() + self._limits.seconds
                self._closing.append(environment)
            else:
                environment.end()
        self._end_closed(wait_for_all=not self._environments)

    def end(self) -> None:
        self.close(list(self._environments))
        self._failed.clear()
        self._end_template()

    def _end_closed(self, wait_for_all: bool = False) -> None:
        """Kill the processes of environments that have closed or have exceeded the time allowed for closing."""
        while self._closing:
            soonest = min(environment.deadline for environment in self._closing) if wait_for_all else 0.0
            closed = wait([environment.channel for environment in self._closing], max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            over = [
                environment
                for environment in self._closing
                if environment.channel in closed or now >= environment.deadline
            ]
            self._closing = [environment for environment in self._closing if environment not in over]
            for environment in over:
                environment.end()
            if not wait_for_all:
                break

    def _forked(self) -> _EnvironmentProcess:
        try:
            return _EnvironmentProcess(self._started())
        except NoMoreProcessesError:
            if not self._closing:
                raise
            self._end_closed(wait_for_all=True)
            return _EnvironmentProcess(self._started())

    def _received(self, environment: _EnvironmentProcess) -> Reply | Failed | None:
        """Read an environment's reply; return None for a message from another process or a reply to an earlier
        request."""
        try:
            pid, number, answer = environment.channel.recv()
        except Exception:  # noqa: BLE001 - the channel is closed, or another process wrote invalid bytes
            return Failed("its process died")
        if pid != environment.pid or number != environment.number or not isinstance(answer, Reply | Failed):
            return None
        return answer

    def _started(self) -> TemplateProcess:
        if self._template is not None and self._template.dead:
            self._end_template()
        self._template = self._template or TemplateProcess(self._payload, self._memory_gb)
        return self._template

    def _end_template(self) -> None:
        template, self._template = self._template, None
        if template is not None:
            template.kill()
