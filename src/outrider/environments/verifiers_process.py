"""The code of the process that runs environments of the package ``verifiers`` in a separate interpreter.

The file runs as a script. It does not import Outrider, which may not be installed for this interpreter. The process
exchanges JSON messages with :mod:`outrider.environments.verifiers_environments`, and runs all episodes in one event
loop. The package's client requests a turn from the model, and waits until Outrider has sampled the turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import resource
import signal
import socket
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any

HARNESS = "outrider_chat"
_LAST = 5.0  # seconds allowed for the environment to release its resources
_HERE = "http://outrider.invalid"  # placeholder address of the policy; nothing is sent to it
_PASSES = 3  # the search ends after so many passes without a match: during exec, a process briefly shows no variables
MARK = "OUTRIDER_VERIFIERS_PROCESS"  # environment variable that all processes started by this one inherit


class Channel:
    """Sends and receives JSON messages over a socket, in threads.

    A sender never waits for the other process, which may be sending at the same time or hang in third-party code.

    Args:
        take: function that a thread calls with each message, and with None when the channel ends.
    """

    def __init__(self, end: socket.socket, take: Callable[[Mapping[str, Any] | None], object]) -> None:
        self._socket, self._unsent = end, SimpleQueue[bytes | None]()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read, args=(take,))]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        self._unsent.put(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the channel at once. Messages that have not been sent are lost."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._unsent.put(None)
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the other process has ended; the reading thread reports this
            while (message := self._unsent.get()) is not None:
                self._socket.sendall(message)

    def _read(self, take: Callable[[Mapping[str, Any] | None], object]) -> None:
        with contextlib.suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            for line in lines:
                take(json.loads(line))
        take(None)


def kill_marked(mark: str) -> None:
    """Kill all processes that inherited ``mark`` in their environment variables, except the caller. These processes may
    belong to other process sessions (``setsid``), as the servers of the package ``verifiers`` do.

    This works only on Linux, where a process can read the environment variables of other processes.
    """
    without = 0
    for _ in range(50):  # limited, since a process in an uninterruptible state cannot be killed
        without = 0 if _kill_pass(f"{MARK}={mark}".encode()) else without + 1
        if without == _PASSES:
            return
        time.sleep(0.02)


def _kill_pass(wanted: bytes) -> bool:
    """Search once for processes with the environment variable ``wanted`` (``NAME=value``), and kill them. Return
    whether any was found."""
    found = False
    for shown in Path("/proc").glob("[0-9]*/environ"):
        pid = int(shown.parent.name)
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if pid != os.getpid() and wanted in shown.read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
                found = True
    return found


def chat_harness() -> type:
    """Return a harness that runs the chat loop of the package's ``null`` harness in this process.

    The ``null`` harness itself starts a program for each rollout, and installs the program's packages with uv.
    """
    import verifiers.v1 as vf
    from openai import AsyncOpenAI, omit
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp
    from verifiers.v1.runtimes import ProgramResult

    class ChatHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
        """Requests turns from the model and answers its tool calls, until a turn has no call."""

        APPENDS_SYSTEM_PROMPT = True
        SUPPORTS_MCP = True
        SUPPORTS_RESUME = True
        EXECUTES_CODE = False
        NEEDS_CONTAINER = False

        async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):  # type: ignore[no-untyped-def]
            system, prompt = self.resolve_prompt(data)
            messages: list[Any] = [{"role": "system", "content": system}] if system else []
            if isinstance(prompt, str):
                messages.append({"role": "user", "content": prompt})
            else:
                messages += map(message_to_wire, prompt or [])
            client = AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, timeout=None)
            servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(client.close)
                tools, places, opened = await connect_mcp({"mcpServers": servers}, stack)
                while True:
                    said = await client.chat.completions.create(model=ctx.model, messages=messages, tools=tools or omit)
                    message = said.choices[0].message
                    messages.append(message.model_dump(exclude_none=True))
                    if not message.tool_calls:
                        return ProgramResult(0, "", "")
                    for call in message.tool_calls:
                        answer = await answered(call.function, places, opened)
                        messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})

    async def answered(call: Any, places: Mapping[str, Any], opened: Mapping[str, Any]) -> str:
        """Return the result of a tool call, or an error message."""
        if call.name not in places:
            return f"error: unknown tool {call.name!r}"
        try:
            arguments = json.loads(call.arguments or "{}")
        except json.JSONDecodeError as error:
            return f"error: invalid JSON in tool arguments ({error})"
        if not isinstance(arguments, dict):
            return "error: the tool arguments are no object"
        return str(await call_mcp(opened, places, call.name, arguments))

    return ChatHarness


class Episode:
    """A running episode: the number of messages that the policy has seen, and the future of the policy's next turn."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.trace: str | None = None  # id of the first trace (conversation) that requested a turn
        self.seen = 0  # number of messages up to and including the last turn
        self.turn: asyncio.Future[Mapping[str, Any]] | None = None


class Episodes:
    """The loaded environment, the environment's tasks, and the running episodes by key."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._episodes: dict[str, Episode] = {}
        self._of_trace: dict[str, str] = {}
        self._tasks: list[Any] = []

    async def load(self, config: Mapping[str, Any], stack: contextlib.AsyncExitStack) -> None:
        """Create the environment, and keep its servers running until the stack is closed."""
        import verifiers.v1 as vf
        from verifiers.v1.clients import ModelContext
        from verifiers.v1.configs.client import TrainClientConfig
        from verifiers.v1.interception import server
        from verifiers.v1.utils.loaders import environment_class, resolve_env_config

        module = types.ModuleType(HARNESS)
        module.ChatHarness, module.__all__ = chat_harness(), ["ChatHarness"]  # type: ignore[attr-defined]
        sys.modules[HARNESS] = module
        resolved = resolve_env_config(with_defaults(config))
        self.environment = environment_class(resolved.taskset.id, resolved.id)(resolved)
        self._stream = iter(self.environment.taskset)
        bounded = self.environment.taskset.bounded
        if bounded:
            self._tasks = list(self._stream)
        others, policy = server.resolve_client, self._client()
        server.resolve_client = lambda given: policy if given.base_url == _HERE else others(given)
        self._context = ModelContext("policy", TrainClientConfig(base_url=_HERE), vf.Sampling())
        await stack.enter_async_context(self.environment.serving())
        keys = [self.task(index).key for index in range(min(len(self._tasks), 64) if bounded else 8)]
        self.tell(ready=version("verifiers"), tasks=len(self._tasks) if bounded else None, keys=keys)

    def task(self, index: int) -> Any:
        """Return task number ``index`` of the taskset, which may be endless."""
        missing = index + 1 - len(self._tasks)
        self._tasks.extend(itertools.islice(self._stream, max(missing, 0)))
        return self._tasks[index]

    def tell(self, **said: Any) -> None:
        self._channel.send(said)

    def hear(self, asked: Mapping[str, Any]) -> None:
        """Process one request from Outrider's process."""
        key = asked["key"]
        if asked["do"] == "begin":
            episode = self._episodes[key] = Episode()
            episode.task = asyncio.get_running_loop().create_task(self._play(key, asked["task"]))
        elif asked["do"] == "act":
            turn = self._episodes[key].turn if key in self._episodes else None
            if turn is not None and not turn.done():
                turn.set_result(asked)
        elif asked["do"] == "answer":
            self.tell(key=key, here=True)
        elif (ended := self._episodes.pop(key, None)) is not None and ended.task is not None:
            ended.task.cancel()

    async def _play(self, key: str, index: int) -> None:
        try:
            episode = await self.environment.run_episode(
                self.task(index), self._context, on_trace=lambda trace: self._of_trace.update({trace.id: key})
            )
            mine = [trace for trace in episode.traces if trace.id == self._episodes[key].trace]
            errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
            if errors or not mine:
                error = errors[0] if errors else None
                self.tell(key=key, failed=f"{error.type}: {error.message}" if error else "no turn was asked for")
            else:
                self.tell(key=key, reward=mine[0].reward, stop=mine[0].stop_condition)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - any exception of an environment fails only its rollout
            self.tell(key=key, failed=f"{type(error).__name__}: {error}")
        finally:
            self._of_trace = {trace: other for trace, other in self._of_trace.items() if other != key}
            self._episodes.pop(key, None)

    def _client(self) -> Any:
        """Create a ``verifiers`` client that gets the model's responses from Outrider."""
        from verifiers.v1.clients.client import Client
        from verifiers.v1.clients.train import serialize_completion
        from verifiers.v1.dialects.chat import message_to_wire
        from verifiers.v1.types import AssistantMessage, Response, ToolCall

        episodes = self

        class Policy(Client):  # type: ignore[misc]
            """Sends new messages to Outrider, and waits for the sampled turn."""

            async def get_response(  # type: ignore[no-untyped-def]
                self, dialect, body, sampling, session_id=None, turn=None, headers=None
            ):
                key = episodes._of_trace[session_id]
                episode = episodes._episodes[key]
                prompt = [message_to_wire(message) for message in turn.prompt]
                tools = [
                    {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                    for tool in turn.tools
                ]
                given = await episodes.ask(key, episode, session_id, turn.tail_start, prompt, tools)
                calls = [
                    ToolCall(id=f"call_{uuid.uuid4().hex[:12]}", name=call["name"], arguments=call["arguments"])
                    for call in given["calls"]
                ]
                response = Response(
                    id="outrider",
                    created=0,
                    model="policy",
                    message=AssistantMessage(
                        content=given["content"] or None,
                        reasoning_content=given["thinking"],
                        tool_calls=calls or None,
                    ),
                    finish_reason="tool_calls" if calls else "stop",
                )
                response.raw = serialize_completion(response, "policy")
                return response

        return Policy()

    def ask(
        self, key: str, episode: Episode, trace: str, known: int, prompt: list[Any], tools: list[Any]
    ) -> asyncio.Future[Mapping[str, Any]]:
        """Send new messages to Outrider; raise an error if the messages do not continue the sampled conversation."""
        if episode.trace not in (None, trace):
            raise self._refused(key, "its episode has several agents that are the policy, and a rollout is of one")
        if episode.trace is not None and known != episode.seen:
            raise self._refused(key, "its harness rewrote the conversation, and what was sampled cannot be changed")
        new = prompt[episode.seen :]
        episode.trace, episode.seen = trace, len(prompt) + 1
        episode.turn = asyncio.get_running_loop().create_future()
        self.tell(key=key, messages=new, tools=tools)
        return episode.turn

    def _refused(self, key: str, why: str) -> RuntimeError:
        self.tell(key=key, failed=why)
        return RuntimeError(why)


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Add defaults: agents run on this machine, and use a chat loop if neither the agents nor the taskset choose a
    harness.
    """
    from verifiers.v1.configs.agent import AgentConfig
    from verifiers.v1.utils.loaders import default_harness_id, env_config_type

    taskset = config["taskset"]["id"]
    seats = {
        name: field.default
        for name, field in env_config_type(taskset, config.get("id", "")).model_fields.items()
        if isinstance(field.default, AgentConfig)
    }
    made = dict(config)
    for name, seat in seats.items():
        said = dict(made.get(name) or {})
        said.setdefault("runtime", {"type": "subprocess"})
        if seat.harness is None and default_harness_id(taskset) == "bash":
            said.setdefault("harness", {"id": HARNESS})
        made[name] = said
    return made


def limit_memory(gigabytes: float) -> None:
    """Limit the further growth of the address space to ``gigabytes`` GiB."""
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        limit, (_, highest) = now + int(gigabytes * 2**30), resource.getrlimit(resource.RLIMIT_AS)
        limit = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


async def serve(end: socket.socket, memory_gb: float) -> None:
    """Load the environment that the first message names, then process requests until Outrider's process ends."""
    loop, asked = asyncio.get_running_loop(), asyncio.Queue[Mapping[str, Any] | None]()

    def take(message: Mapping[str, Any] | None) -> None:
        if message is None:  # a thread ends this process, since the event loop may be blocked
            threading.Thread(target=_end_soon, daemon=True).start()
        loop.call_soon_threadsafe(asked.put_nowait, message)

    episodes = Episodes(Channel(end, take))
    async with contextlib.AsyncExitStack() as stack:
        if (config := await asked.get()) is not None:
            try:
                await episodes.load(config, stack)
            except BaseException as error:  # noqa: BLE001 - even SystemExit: Outrider reports it and ends this process
                episodes.tell(refused=f"{type(error).__name__}: {error}")
            limit_memory(memory_gb)
            while (request := await asked.get()) is not None:
                episodes.hear(request)
        for episode in list(episodes._episodes.values()):
            assert episode.task is not None
            episode.task.cancel()
    _end_now()


def _end_soon() -> None:
    time.sleep(_LAST)
    _end_now()


def _end_now() -> None:
    """End this process, and kill all processes that it has started."""
    if mark := os.environ.get(MARK):
        kill_marked(mark)
    os._exit(0)


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # environments next to the recipe can be imported, but not modules next to this file
    # tool servers are separate programs, which import the environment as well
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), float(sys.argv[2])))
