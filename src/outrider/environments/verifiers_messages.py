"""Conversion between messages of the package ``verifiers`` and Outrider's prompts, observations and turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from outrider.environments.environment import Reply, flooded
from outrider.environments.environments import Failed
from outrider.environments.tool_calls import ToolCall, answered
from outrider.record import Problem


class FirstRequest(NamedTuple):
    """An environment's first request to the policy."""

    messages: list[Mapping[str, Any]]
    tools: list[Mapping[str, Any]]


def problem_of(name: str, index: int, request: FirstRequest) -> Problem | Failed:
    """Convert an environment's first request to a problem, or to a failure if the request cannot be a prompt."""
    *before, last = request.messages or [{"role": "nobody"}]
    if last["role"] != "user":
        return Failed(f"its first request ends with a message of the role {last['role']!r}, not the user's")
    texts = [_text(message) for message in request.messages]
    if None in texts:
        return Failed("a message holds an image, and a prompt is text")
    return Problem(
        name,
        str(texts[-1]),
        index,
        messages_before=tuple({"role": one["role"], "content": text} for one, text in zip(before, texts, strict=False)),
        tools=tuple({"type": "function", "function": dict(tool)} for tool in request.tools),
    )


def shows_the_same(problem: Problem, request: FirstRequest) -> bool:
    """Return whether an environment's first request equals a problem's prompt."""
    shown = problem_of(problem.id, 0, request)
    return not isinstance(shown, Failed) and all(
        getattr(shown, name) == getattr(problem, name) for name in ("messages_before", "prompt", "tools")
    )


def observation_of(messages: Sequence[Mapping[str, Any]], error: bool, most_bytes: int) -> Reply | Failed:
    """Convert new messages (tool responses, or one user message) to a reply."""
    texts = [_text(message) for message in messages]
    if None in texts:
        return Failed("it answers with an image, and an observation is text")
    if flood := flooded([str(text) for text in texts], most_bytes):
        return Failed(flood)
    roles = [message["role"] for message in messages]
    if set(roles) == {"tool"}:
        return answered([str(text) for text in texts], error, most_bytes)
    if roles == ["user"]:
        return Reply(str(texts[0]), error=error)
    return Failed(f"it answers with messages of the roles {', '.join(roles)}; known are tools', or one of the user")


def _text(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, list):
        return None if any(part.get("type") != "text" for part in content) else "\n".join(p["text"] for p in content)
    return content if isinstance(content, str) else ""


def sent(call: ToolCall) -> dict[str, str]:
    """Convert a tool call to the format of the package ``verifiers``.

    A malformed call becomes a call to a tool that does not exist, so that the harness replies with an error.
    """
    arguments = {"error": call.wrong} if call.wrong else dict(call.arguments)
    return {"name": "malformed" if call.wrong else call.name, "arguments": json.dumps(arguments)}
