"""Worlds in processes of their own, which can be killed: one that hangs, dies or floods costs its own rollout."""

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
from outrider.environments.world_process import run_world
from outrider.environments.worlds import Failed, Key, Make, WorldLimits
from outrider.errors import UserError
from outrider.record import Problem
from outrider.verify.processes import NoMoreProcessesError, TemplateDiedError, TemplateProcess, starting


class _World:
    """One process, the number of the question that it was asked last, and until when it may answer."""

    def __init__(self, template: TemplateProcess) -> None:
        self.template, self.number, self.deadline = template, 0, math.inf
        with starting():
            self.channel, theirs = Pipe()
        with theirs:
            self.pid = template.fork(theirs)

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
        UserError: ``make`` is defined in ``__main__``, or raises one where it is unpickled; or the system starts no
            further process, which would fail the rollouts of every step from then on.
    """

    def __init__(self, make: Make, limits: WorldLimits, memory_gb: float = 2.0) -> None:
        if getattr(make, "__module__", None) == "__main__":
            raise UserError(f"move the environment {make!r} to a module: its processes do not import the main script")
        self._payload = pickle.dumps((run_world, (make, limits)))
        self._limits, self._memory_gb = limits, memory_gb
        self._template: TemplateProcess | None = None
        self._worlds: dict[Key, _World] = {}
        self._closing: list[_World] = []  # until their deadlines
        self._failed: dict[Key, Failed] = {}

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        try:
            world = self._worlds[key] = self._forked()
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
            worlds = [*waiting.values(), *self._closing]
            soonest = min(world.deadline for world in worlds)
            ready = wait([world.channel for world in worlds], max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            for key, world in waiting.items():
                if world.channel in ready:
                    answer = self._received(world)
                elif now >= world.deadline:
                    answer = Failed(f"no answer in {self._limits.seconds:g} s", hung=True)
                else:
                    continue
                if answer is not None:
                    world.deadline = math.inf
                    found.append((key, answer))
            self._end_closed()
        self.close(key for key, answer in found if isinstance(answer, Failed))
        return iter(found)

    def close(self, keys: Iterable[Key]) -> None:
        """Those that are in the middle of something are killed. Others may close what they hold, which is waited for
        once no world is left."""
        for key in list(keys):
            if (world := self._worlds.pop(key, None)) is None:
                continue
            if world.deadline == math.inf and world.told_to_close():
                world.deadline = time.monotonic() + self._limits.seconds
                self._closing.append(world)
            else:
                world.end()
        self._end_closed(wait_for_all=not self._worlds)

    def end(self) -> None:
        self.close(list(self._worlds))
        self._failed.clear()
        self._end_template()

    def _end_closed(self, wait_for_all: bool = False) -> None:
        """End the worlds that have closed what they hold, or had the time to."""
        while self._closing:
            soonest = min(world.deadline for world in self._closing) if wait_for_all else 0.0
            closed = wait([world.channel for world in self._closing], max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            over = [world for world in self._closing if world.channel in closed or now >= world.deadline]
            self._closing = [world for world in self._closing if world not in over]
            for world in over:
                world.end()
            if not wait_for_all:
                break

    def _forked(self) -> _World:
        try:
            return _World(self._started())
        except NoMoreProcessesError:
            if not self._closing:
                raise
            self._end_closed(wait_for_all=True)
            return _World(self._started())

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
