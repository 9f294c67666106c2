"""Environments of the package ``verifiers``. All episodes run in one process with a separate Python interpreter."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import queue
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Any

from outrider.environments.environment import Reply
from outrider.environments.environments import EnvironmentLimits, Failed, Key, asked
from outrider.environments.tool_calls import ToolTurn, read_turn
from outrider.environments.verifiers_messages import FirstRequest, observation_of, sent, shows_the_same
from outrider.environments.verifiers_process import MARK, Channel, kill_marked
from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict
from outrider.verify.processes import starting
from outrider.verify.thinking import split_thinking

START_SECONDS = 180.0  # time limit for imports and for starting the taskset and tool servers; long, for busy machines
_SCRIPT = Path(__file__).with_name("verifiers_process.py")
_Said = Mapping[str, Any]


class _Process:
    """The process that runs environments of the package ``verifiers``, and the channel to this process."""

    def __init__(self, python: str, memory_gb: float) -> None:
        self._mark = uuid.uuid4().hex
        self._heard = queue.SimpleQueue[_Said | None]()
        with starting():
            ours, theirs = socket.socketpair()
        try:
            with theirs, starting():
                self._process = subprocess.Popen(
                    [python, str(_SCRIPT), str(theirs.fileno()), str(memory_gb)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "OMP_NUM_THREADS": "1", MARK: self._mark},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # so that Ctrl-C reaches only the run
                )
        except OSError as error:
            raise UserError(f"python: {python} cannot be started ({error.strerror})") from error
        self._channel = Channel(ours, self._heard.put)

    def send(self, **said: Any) -> None:
        self._channel.send(said)

    def hear(self, seconds: float) -> list[_Said]:
        """Wait for messages, and return all that have arrived; return an empty list if none arrives within ``seconds``.

        Raises:
            EOFError: the process has ended, and all its messages have been read.
        """
        said = list[_Said]()
        with contextlib.suppress(queue.Empty):
            while True:
                one = self._heard.get_nowait() if said else self._heard.get(timeout=max(0.0, seconds))
                if one is None:
                    self._heard.put(None)  # put the end mark back for the next call
                    if said:
                        return said
                    raise EOFError
                said.append(one)
        return said

    def end(self, patience: float = 10.0) -> None:
        """Let the process and its servers shut down; kill them if they are still running after ``patience`` seconds."""
        self._channel.close()
        deadline = time.monotonic() + patience
        while not self._over() and time.monotonic() < deadline:
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, SIGKILL)  # safe, since the pid cannot be reused before the wait below
        self._process.wait()
        kill_marked(self._mark)

    def _over(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class _Episode:
    """One rollout's episode. ``name`` identifies the episode in its process. ``deadline`` is the time by which the
    process must answer the last request; infinite if no request is open.
    """

    def __init__(self, process: _Process, name: str, problem: Problem) -> None:
        self.process, self.name, self.problem, self.deadline = process, name, problem, math.inf
        self.tools: frozenset[str] | None = None  # None until the first message has arrived
        self.error = False
        self.answer = ""


class VerifiersEnvironments:
    """Concurrent episodes of one environment from the package ``verifiers``.

    ``Problem.answer`` is the index of a task in the environment's taskset. The messages of the environment's first
    request to the model must equal the problem's prompt. Messages of later requests are appended to the rollout; a
    request that rewrites earlier messages is an error. If an episode times out, only its own rollout fails. If the
    whole process stops responding, the process is killed with all its episodes, and restarted.

    Args:
        python: Python interpreter in which the package is installed.
        config: values for the package's ``EnvConfig``.
        memory_gb: maximum growth of the process's memory in GiB, for all episodes together; only Linux enforces this
            limit.
        success_at: minimum reward at which a rollout counts as correct.

    Raises:
        UserError: the interpreter does not exist, or cannot load the environment.
    """

    def __init__(
        self, python: str, config: Mapping[str, Any], limits: EnvironmentLimits, memory_gb: float, success_at: float
    ) -> None:
        self._python, self._config, self._limits, self._success_at = python, config, limits, success_at
        self._memory_gb = memory_gb
        self._names = map(str, itertools.count())
        self._process: _Process | None = None
        self._early: list[_Said] = []  # messages that arrived during a wait for a different message
        self._episodes: dict[Key, _Episode] = {}
        self._failed: dict[Key, Failed] = {}

    def about(self) -> _Said:
        """Return facts about the loaded environment, as a mapping.

        The key ``ready`` has the version of the package ``verifiers``. ``tasks`` is the number of tasks, or None for an
        endless taskset. ``keys`` is a list with the ids of the first 64 tasks, or of the first 8 tasks of an endless
        taskset.
        """
        self._running()
        return self._about

    def first_request(self, index: int) -> FirstRequest | Failed:
        """Return the first request that the environment sends to the policy in task number ``index``."""
        process, name = self._running(), next(self._names)
        process.send(do="begin", key=name, task=index)
        try:
            said = self._awaited(process, name)
        except EOFError:
            self._end()
            return Failed("its process died")
        process.send(do="end", key=name)
        if said is None:
            return Failed(f"no answer in {self._limits.seconds:g} s", hung=True)
        if "messages" not in said:
            return Failed(said.get("failed", "it ends before its first turn"))
        return FirstRequest(said["messages"], said["tools"])

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        """Start an episode. ``seed`` is ignored, since tasks of ``verifiers`` contain their own seeds."""
        self._episodes[key] = episode = _Episode(self._running(), next(self._names), problem)
        self._ask(key, episode, do="begin", task=problem.answer)

    def act(self, key: Key, text: str) -> None:
        episode = self._episodes[key]
        turn = _read_turn(text, episode)
        episode.answer = turn.content[:200]
        episode.error = any(call.wrong or call.name not in (episode.tools or ()) for call in turn.calls)
        calls = [sent(call) for call in turn.calls]
        self._ask(key, episode, do="act", thinking=turn.thinking, content=turn.content, calls=calls)

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        found, self._failed = dict[Key, Reply | Failed](self._failed), {}
        asked_for = [key for key, one in self._episodes.items() if one.deadline < math.inf]
        gone = [key for key in asked_for if self._episodes[key].process is not self._process]
        found |= dict.fromkeys(gone, Failed("its process died"))
        early, self._early = self._early, []
        self._sort(found, early)
        while self._process is not None and asked_for and not found:
            soonest = min(self._episodes[key].deadline for key in asked_for)
            try:
                self._sort(found, self._process.hear(soonest - time.monotonic()))
                now = time.monotonic()
                late = [key for key in asked_for if key not in found and now >= self._episodes[key].deadline]
                held_up = bool(late) and not self._goes_on(self._process)
            except EOFError:
                self._end()
                found |= {key: Failed("its process died") for key in asked_for if key not in found}
                break
            if held_up:
                self._end(patience=0.0)
                held = Failed("the process of all episodes was held up, and ended", hung=True)
                found |= {key: held for key in asked_for if key not in found}
            found |= dict.fromkeys(late, Failed(f"no answer in {self._limits.seconds:g} s", hung=True))
        for key in found:
            if key in self._episodes:
                self._episodes[key].deadline = math.inf
        self.close([key for key, answer in found.items() if isinstance(answer, Failed)])
        return iter(found.items())

    def close(self, keys: Iterable[Key]) -> None:
        for key in list(keys):
            if (episode := self._episodes.pop(key, None)) is not None and episode.process is self._process:
                episode.process.send(do="end", key=episode.name)

    def end(self) -> None:
        """End the process. The next request starts a new process."""
        self._episodes.clear()
        self._failed.clear()
        self._end()

    def _ask(self, key: Key, episode: _Episode, **question: Any) -> None:
        episode.deadline = time.monotonic() + self._limits.seconds
        if episode.process is self._process:
            episode.process.send(key=episode.name, **question)
        else:
            self._failed[key] = Failed("its process died")

    def _sort(self, found: dict[Key, Reply | Failed], heard: Sequence[_Said]) -> None:
        """Sort the messages ``heard`` from the process. If an episode has an open request, its message is the answer,
        and is added to ``found``. Other messages of running episodes are kept for later."""
        named = {one.name: (key, one) for key, one in self._episodes.items()}
        for said in heard:
            key, episode = named.get(said["key"], (None, None))
            if key is None or episode is None or isinstance(found.get(key), Failed):
                continue
            if episode.deadline < math.inf:
                found[key] = self._read(episode, said)
            else:
                self._early.append(said)

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

    def _awaited(self, process: _Process, name: str) -> _Said | None:
        """Return the first message of an episode, or None if no message arrives within the time limit. Messages of
        other episodes are kept.

        Raises:
            EOFError: the process has ended.
        """
        until = time.monotonic() + self._limits.seconds
        while heard := process.hear(until - time.monotonic()):
            self._early += [said for said in heard if said["key"] != name]
            if mine := [said for said in heard if said["key"] == name]:
                return mine[0]
        return None

    def _goes_on(self, process: _Process) -> bool:
        """Return whether the process still responds."""
        process.send(do="answer", key="")
        return self._awaited(process, "") is not None

    def _running(self) -> _Process:
        """Return the process with the loaded environment; start the process if necessary."""
        if self._process is None:
            self._process = _Process(self._python, self._memory_gb)
            self._process.send(**self._config)
            try:
                heard = self._process.hear(START_SECONDS)
            except EOFError:
                heard = [{"refused": "its process died"}]
            if not heard:
                self._end(patience=0.0)
                raise UserError(f"the environment was not loaded in {START_SECONDS:g} s")
            [self._about] = heard
            if refused := self._about.get("refused"):
                self._end()
                raise UserError(
                    f"verifiers {self._config['taskset']['id']}: {' '.join(refused.split())[:400]}{_hint(refused)}"
                )
        return self._process

    def _end(self, patience: float = 10.0) -> None:
        process, self._process = self._process, None
        self._early = []
        if process is not None:
            process.end(patience)


def _read_turn(text: str, episode: _Episode) -> ToolTurn:
    """Parse a turn; if the episode has no tools, text that looks like a call is not parsed as a call."""
    end = episode.problem.prompt_end
    if episode.tools:
        return read_turn(text, end)
    split = split_thinking(text, None, end)
    return ToolTurn(split.thinking, (split.answer or "").strip() if split.thinking is not None else text, [])


def _hint(refused: str) -> str:
    missing = "No module named 'verifiers" in refused
    return (
        "; name an interpreter that has verifiers 0.4 (python), or pip install 'outrider[verifiers]'" if missing else ""
    )
