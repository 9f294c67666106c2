"""Worlds of the package ``verifiers``: episodes of an environment of others, in one process of its own interpreter."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from signal import SIGKILL
from typing import Any

from outrider.environments.environment import Reply
from outrider.environments.tool_calls import ToolTurn, read_turn, split_thinking
from outrider.environments.verifiers_messages import FirstRequest, observation_of, sent, shows_the_same
from outrider.environments.worlds import Failed, Key, WorldLimits, asked
from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict

START_SECONDS = 180.0  # for imports, the taskset and the servers of its tools, on a busy machine
_SCRIPT = Path(__file__).with_name("verifiers_process.py")


class _Episode:
    """One rollout's: its name on the channel, its problem, and until when it may answer."""

    def __init__(self, name: str, problem: Problem) -> None:
        self.name, self.problem, self.deadline = name, problem, math.inf
        self.tools: frozenset[str] | None = None  # None: nothing was said yet
        self.error = False
        self.answer = ""


class VerifiersWorlds:
    """Episodes of one environment, side by side, as the package plays them.

    A problem's answer is the number of its task. What the environment shows at first has to be the prompt of the
    problem; what it says later is appended, and nothing that was sampled changes. An episode that is late costs its own
    rollout; where the process takes no requests either, it is ended with all its episodes, and made anew.

    Args:
        python: the interpreter that has the package.
        config: of the environment, as the package's ``EnvConfig`` takes it.
        memory_gb: GiB by which the process may grow, with all its episodes. Enforced on Linux.
        success_at: reward from which a rollout is correct.

    Raises:
        UserError: the interpreter is not there, or cannot load the environment.
    """

    def __init__(
        self, python: str, config: Mapping[str, Any], limits: WorldLimits, memory_gb: float, success_at: float
    ) -> None:
        self._python, self._config, self._limits, self._success_at = python, config, limits, success_at
        self._memory_gb = memory_gb
        self._names = map(str, itertools.count())
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._early: deque[Mapping[str, Any]] = deque()  # what came while something else was waited for
        self._episodes: dict[Key, _Episode] = {}
        self._failed: dict[Key, Failed] = {}

    def about(self) -> Mapping[str, Any]:
        """``ready``, the version of the package; ``tasks``, how many there are, None without an end; some ``keys``."""
        if self._process is None:
            self._start()
        return self._about

    def first_request(self, index: int) -> FirstRequest | Failed:
        """What task number ``index`` shows the policy."""
        self.about()
        name, until = next(self._names), time.monotonic() + self._limits.seconds
        self._send(do="begin", key=name, task=index)
        while (left := until - time.monotonic()) > 0 and self._channel is not None and self._channel.poll(left):
            try:
                said = self._receive()
            except (EOFError, OSError):
                self._end()
                return Failed("its process died")
            if said["key"] == name:
                self._send(do="end", key=name)
                if "messages" not in said:
                    return Failed(said.get("failed", "it ends before its first turn"))
                return FirstRequest(said["messages"], said["tools"])
        self._send(do="end", key=name)
        return Failed(f"no answer in {self._limits.seconds:g} s", hung=True)

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        """The seed is the affair of the environment: a task has one, if it needs one."""
        self.about()
        self._episodes[key] = episode = _Episode(next(self._names), problem)
        self._ask(key, episode, do="begin", task=problem.answer)

    def act(self, key: Key, text: str) -> None:
        episode = self._episodes[key]
        turn = read_turn(text) if episode.tools else ToolTurn(*split_thinking(text), [])
        episode.answer = turn.content[:200]
        episode.error = any(call.wrong or call.name not in (episode.tools or ()) for call in turn.calls)
        calls = [sent(call) for call in turn.calls]
        self._ask(key, episode, do="act", thinking=turn.thinking, content=turn.content, calls=calls)

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        found, self._failed = dict[Key, Reply | Failed](self._failed), {}
        waiting = {key: one for key, one in self._episodes.items() if one.deadline < math.inf}
        named = {one.name: key for key, one in waiting.items()}
        while waiting and not found:
            soonest = min(one.deadline for one in waiting.values())
            assert self._channel is not None
            if self._early or wait([self._channel], max(0.0, soonest - time.monotonic())):
                try:
                    said = self._receive()
                except (EOFError, OSError):
                    self._end()
                    found |= dict.fromkeys(waiting, Failed("its process died"))
                    break
                if (key := named.get(said["key"])) is not None:
                    found[key] = self._read(waiting[key], said)
            elif (now := time.monotonic()) >= soonest:
                late = [key for key, one in waiting.items() if now >= one.deadline]
                if not self._goes_on():
                    self._end()
                    held = Failed("the process of all episodes was held up, and ended", hung=True)
                    found |= dict.fromkeys(waiting, held)
                found |= dict.fromkeys(late, Failed(f"no answer in {self._limits.seconds:g} s", hung=True))
        for key in found:
            if key in self._episodes:
                self._episodes[key].deadline = math.inf
        self.close([key for key, answer in found.items() if isinstance(answer, Failed)])
        return iter(found.items())

    def close(self, keys: Iterable[Key]) -> None:
        for key in list(keys):
            if (episode := self._episodes.pop(key, None)) is not None:
                self._send(do="end", key=episode.name)

    def end(self) -> None:
        """End the process; the next question starts another."""
        self._end()

    def _ask(self, key: Key, episode: _Episode, **question: Any) -> None:
        episode.deadline = time.monotonic() + self._limits.seconds
        if not self._send(key=episode.name, **question):
            self._failed[key] = Failed("its process died")

    def _read(self, episode: _Episode, said: Mapping[str, Any]) -> Reply | Failed:
        if "messages" in said:
            if episode.tools is None:
                episode.tools = frozenset(tool["name"] for tool in said["tools"])
                if shows_the_same(episode.problem, FirstRequest(said["messages"], said["tools"])):
                    return Reply()
                return Failed("it does not show what the prompt of its problem shows")
            answer = observation_of(said["messages"], episode.error, self._limits.most_bytes)
            return answer if isinstance(answer, Failed) else asked(lambda: answer, self._limits)
        if "failed" in said:
            return Failed(str(said["failed"])[:300])
        score = float(said["reward"])
        if not math.isfinite(score):
            return Failed(f"its reward is {score}")
        outcome = Outcome.CORRECT if score >= self._success_at else Outcome.INCORRECT
        verdict = Verdict(outcome, score, answer=episode.answer, detail=str(said["stop"] or ""))
        return Reply(done=True, verdict=verdict, error=episode.error)

    def _send(self, **said: Any) -> bool:
        try:
            assert self._channel is not None
            self._channel.send_bytes(json.dumps(said).encode())
        except (OSError, AssertionError):
            return False
        return True

    def _receive(self) -> Mapping[str, Any]:
        if self._early:
            return self._early.popleft()
        assert self._channel is not None
        said: Mapping[str, Any] = json.loads(self._channel.recv_bytes())
        return said

    def _goes_on(self) -> bool:
        """Whether the process still takes requests, so that an episode that is late is late by itself."""
        until = time.monotonic() + self._limits.seconds
        early, self._early = self._early, deque()
        with contextlib.suppress(EOFError, OSError):
            self._send(do="answer", key="")
            while self._channel is not None and self._channel.poll(max(0.0, until - time.monotonic())):
                said = self._receive()
                if "here" in said:
                    self._early = early
                    return True
                early.append(said)
        return False

    def _start(self) -> None:
        self._channel, theirs = Pipe()
        try:
            self._process = subprocess.Popen(
                [self._python, str(_SCRIPT), str(theirs.fileno()), str(self._memory_gb)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C goes to the run alone
            )
        except OSError as error:
            raise UserError(f"python: {self._python} cannot be started ({error.strerror})") from error
        finally:
            theirs.close()
        self._send(**self._config)
        try:
            if not self._channel.poll(START_SECONDS):
                raise UserError(f"the environment was not loaded in {START_SECONDS:g} s")
            self._about = self._receive()
        except (EOFError, OSError):
            self._about = {"refused": "its process died"}
        except UserError:
            self._end()
            raise
        if refused := self._about.get("refused"):
            self._end()
            raise UserError(
                f"verifiers {self._config['taskset']['id']}: {' '.join(refused.split())[:400]}{_hint(refused)}"
            )

    def _end(self) -> None:
        process, self._process = self._process, None
        self._early.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if process is None:
            return
        try:
            process.wait(10.0)  # it ends by itself, with the servers that it has started
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            process.wait()


def _in_a_line(refused: str) -> str:
    return " ".join(refused.split())[:400]


def _hint(refused: str) -> str:
    missing = "No module named 'verifiers" in refused
    return (
        "; name an interpreter that has verifiers 0.4 (python), or pip install 'outrider[verifiers]'" if missing else ""
    )
