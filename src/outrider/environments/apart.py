"""Worlds in processes of their own, which can be killed: one that hangs, dies or floods costs its own rollout."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, Pipe, wait
from signal import SIGKILL

from outrider.environments.environment import Reply
from outrider.environments.world_process import run_world
from outrider.environments.worlds import Failed, Key, Make, WorldLimits
from outrider.errors import UserError
from outrider.record import Problem
from outrider.verify.processes import TemplateDiedError, TemplateProcess


class _World:
    """One process, the number of the question that it was asked last, and until when it may answer."""

    def __init__(self, template: TemplateProcess) -> None:
        self.template, self.number, self.deadline = template, 0, math.inf
        self.channel, theirs = Pipe()
        self.pid = template.fork(theirs)
        theirs.close()

    def ask(self, question: object, seconds: float) -> None:
        self.number += 1
        self.deadline = time.monotonic() + seconds
        with contextlib.suppress(ConnectionError):  # it died: its answer is the end of its channel
            self.channel.send((self.number, question))

    def told_to_close(self) -> bool:
        """Whether it could be told; one that died cannot."""
        with contextlib.suppress(OSError):
            self.channel.send(None)
            return True
        return False

    def end(self) -> None:
        """Kill it with all that it has started."""
        self.channel.close()
        if self.template.dead:
            return  # what the template forks ends with it, and the number may be another process's
        for kill in (os.killpg, os.kill):  # the second where it is so young that it has no group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, SIGKILL)
        with contextlib.suppress(TemplateDiedError):
            self.template.reap(self.pid)


class WorldsApart:
    """Every world in a process of its own, forked from one that has imported the environment.

    Args:
        make: picklable, and not defined in ``__main__``.
        memory_gb: GiB by which a world may grow. Enforced on Linux.

    Raises:
        UserError: ``make`` is defined in ``__main__``, or raises one where it is unpickled.
    """

    def __init__(self, make: Make, limits: WorldLimits, memory_gb: float = 2.0) -> None:
        if getattr(make, "__module__", None) == "__main__":
            raise UserError(f"move the environment {make!r} to a module: its processes do not import the main script")
        self._payload = pickle.dumps((run_world, (make, limits)))
        self._limits, self._memory_gb = limits, memory_gb
        self._template: TemplateProcess | None = None
        self._worlds: dict[Key, _World] = {}
        self._failed: dict[Key, Failed] = {}

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        try:
            world = self._worlds[key] = _World(self._started())
            world.ask((problem, seed), self._limits.seconds)
        except TemplateDiedError:
            self._failed[key] = Failed("the process that starts the environments died")
            self._end_template()

    def act(self, key: Key, text: str) -> None:
        self._worlds[key].ask(text, self._limits.seconds)

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        failed, self._failed = self._failed, {}
        waiting = {key: world for key, world in self._worlds.items() if world.deadline < math.inf}
        found: list[tuple[Key, Reply | Failed]] = list(failed.items())
        while waiting and not found:
            soonest = min(world.deadline for world in waiting.values())
            channels = {world.channel: key for key, world in waiting.items()}
            ready: list[Connection] = wait(list(channels), max(0.0, soonest - time.monotonic()))  # type: ignore[assignment]
            now = time.monotonic()
            for channel, key in channels.items():
                if channel in ready:
                    answer = self._received(waiting[key])
                elif now >= waiting[key].deadline:
                    answer = Failed(f"no answer in {self._limits.seconds:g} s", hung=True)
                else:
                    continue
                if answer is not None:
                    waiting[key].deadline = math.inf
                    found.append((key, answer))
        self.close(key for key, answer in found if isinstance(answer, Failed))
        return iter(found)

    def close(self, keys: Iterable[Key]) -> None:
        """Those that are not in the middle of anything may close what they hold, all at once; then all are killed."""
        ending = [world for key in list(keys) if (world := self._worlds.pop(key, None)) is not None]
        closing = [world.channel for world in ending if world.deadline == math.inf and world.told_to_close()]
        deadline = time.monotonic() + self._limits.seconds
        while closing and (left := deadline - time.monotonic()) > 0:
            ended = wait(closing, left)  # the end of a channel
            closing = [channel for channel in closing if channel not in ended]
        for world in ending:
            world.end()

    def _received(self, world: _World) -> Reply | Failed | None:
        """What a world has sent; None: another process did, or not to the last question."""
        try:
            pid, number, answer = world.channel.recv()
        except Exception:  # noqa: BLE001 - its end, or bytes of another process, which may unpickle to anything
            return Failed("its process died")
        if pid != world.pid or number != world.number or not isinstance(answer, Reply | Failed):
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
