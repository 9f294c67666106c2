"""Tool calls in the text of a turn, and the tools' responses, in the format of Hermes and Qwen models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from outrider.environments.environment import Reply, beginning, flooded
from outrider.verify.thinking import split_thinking

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class ToolCall(NamedTuple):
    """A tool call, or the reason why the call is malformed.

    Attributes:
        name: name of the tool; ``""`` if the call is malformed.
        arguments: arguments by name.
        wrong: the reason why the call is malformed; ``""`` if the call is valid.
    """

    name: str
    arguments: Mapping[str, Any]
    wrong: str = ""

    @property
    def message(self) -> dict[str, Any]:
        """Return the call as an entry of ``tool_calls`` in an assistant message."""
        return {"type": "function", "function": {"name": self.name, "arguments": dict(self.arguments)}}


class ToolTurn(NamedTuple):
    """A parsed turn: the thinking at its start (None without thinking), the text outside of calls, and the calls."""

    thinking: str | None
    content: str
    calls: list[ToolCall]


def read_turn(text: str, prompt: str = "") -> ToolTurn:
    r"""Parse a turn into thinking, text and calls of the form ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``.

    A call without its end tag is malformed. A turn with unclosed thinking has no text and no calls
    (:mod:`outrider.verify.thinking`).

    Args:
        prompt: the last part of the prompt's text, in which some chat templates put the opening thinking tag.

    >>> read_turn('Let me see. <tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>')
    ToolTurn(thinking=None, content='Let me see.', calls=[ToolCall(name='add', arguments={'a': 1}, wrong='')])
    >>> read_turn("<think>17? <tool_call></think>42")
    ToolTurn(thinking='17? <tool_call>', content='42', calls=[])
    >>> read_turn('<think>17? <tool_call>{"name": "add", "arguments": {}}</tool_call>').calls
    []
    >>> read_turn('<tool_call>{"name": "add"').calls[0].wrong
    'the call does not end with </tool_call>'
    """
    thinking, answer, _ = split_thinking(text, None, prompt)
    said = answer or ""
    content, opened, unended = _CALL.sub("", said).partition("<tool_call>")
    calls = [_read(inside) for inside in _CALL.findall(said)]
    if opened:
        calls.append(ToolCall("", {}, "the call does not end with </tool_call>"))
    return ToolTurn(thinking, (content + opened + unended).strip(), calls)


def example_calls(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    r"""Return one example turn per tool, in which the tool is called with placeholder arguments of the correct types.

    >>> parameters = {"properties": {"n": {"type": "integer"}, "how": {"type": "string"}}, "required": ["n"]}
    >>> example_calls([{"type": "function", "function": {"name": "add", "parameters": parameters}}])
    ['<tool_call>\n{"name": "add", "arguments": {"n": 1}}\n</tool_call>']
    """
    turns = []
    for tool in tools:
        needs = tool["function"].get("parameters") or {}
        kinds = {name: needs.get("properties", {}).get(name, {}) for name in needs.get("required", ())}
        arguments = {name: kind["enum"][0] if "enum" in kind else _like(kind) for name, kind in kinds.items()}
        call = {"name": tool["function"]["name"], "arguments": arguments}
        turns.append(f"<tool_call>\n{json.dumps(call)}\n</tool_call>")
    return turns


def _like(kind: Mapping[str, Any]) -> Any:
    some: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}, "null": None}
    named = kind.get("type")
    return some.get(named, "1") if isinstance(named, str) else "1"


def answer_text(results: Iterable[str]) -> str:
    r"""Format the results of a turn's calls, in the order of the calls, as a user message.

    >>> answer_text(["1", "2"])
    '<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>'
    """
    return "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)


def answered(results: Sequence[str], error: bool, most_bytes: int) -> Reply:
    """Format the results of tool calls as a reply.

    If all results together exceed the limit, each result is truncated to an equal share of the limit, so that no
    result and no closing tag is lost.

    Raises:
        ValueError: the results are so long that the environment counts as failed (:func:`flooded`).

    >>> answered(["1" * 90, "2"], False, 100).observation.replace("\\n", "")
    '<tool_response>1111111111111111</tool_response><tool_response>2</tool_response>'
    """
    if flood := flooded(results, most_bytes):
        raise ValueError(flood)
    whole = answer_text(results)
    if len(whole.encode("utf-8", "replace")) <= most_bytes:
        return Reply(whole, error=error)
    share = most_bytes // len(results) - len(answer_text([""])) - 1
    return Reply(answer_text([beginning(result, share) for result in results]), error=error, cut=True)


def _read(inside: str) -> ToolCall:
    try:
        call = json.loads(inside)
    except (ValueError, RecursionError) as error:
        return ToolCall("", {}, f"the call is no JSON: {error}")
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return ToolCall("", {}, "the call is no object with a name and arguments")
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        return ToolCall(call["name"], {}, "the arguments of the call are no object")
    return ToolCall(call["name"], arguments)
