"""Converts chat messages to a single text. Reports show this text, and a prompt is identified by it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any


def as_text(value: Any) -> str:
    r"""Return a prompt or a response as text.

    A string is returned unchanged. A single message becomes its content. Several messages are joined, and each is
    preceded by its role in brackets. Reasoning in a separate field is put in ``<think>`` tags, and a tool call in
    brackets. Other content is replaced by its type, such as ``[image]``. None becomes the empty string, and any other
    value becomes JSON.

    >>> as_text([{"role": "user", "content": "2 + 2?"}])
    '2 + 2?'
    >>> as_text([{"role": "system", "content": "Add."}, {"role": "user", "content": [{"type": "image"}]}])
    '[system]\nAdd.\n\n[user]\n[image]'
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and "role" in value:
        return _body(value)
    if is_messages(value):
        if len(value) == 1:
            return _body(value[0])
        return "\n\n".join(f"[{message['role']}]\n{_body(message)}" for message in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def response_text(value: Any) -> str | None:
    """Return a response (text or messages) as text, as in :func:`as_text`; None for null or an empty list of messages.

    Raises:
        ValueError: the value is neither text nor messages; the error names its type.

    >>> response_text("4"), response_text([{"role": "assistant", "content": "4"}]), response_text(math.nan)
    ('4', '4', None)
    >>> response_text(["4", "5"])
    Traceback (most recent call last):
        ...
    ValueError: a list of 2, but should be one response (text or messages): write one row per response
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value
    if is_messages(value):
        return as_text(value) if value else None
    if isinstance(value, Mapping) and "role" in value:
        return as_text(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        raise ValueError(
            f"a list of {len(value)}, but should be one response (text or messages): write one row per response"
        )
    raise ValueError(f"{short(value)}, which is neither text nor messages")


def short(value: Any) -> str:
    """Shorten a value so that an error message can quote it.

    >>> short(0.5), len(short("long" * 99))
    ('0.5', 38)
    """
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def is_messages(value: Any) -> bool:
    """Whether a value is a list of chat messages, which may be empty."""
    listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return listed and all(isinstance(message, Mapping) and "role" in message for message in value)


def turns_of(value: Any) -> int | None:
    """Return the number of assistant messages in a response; None if the response is not a list of messages.

    >>> turns_of([{"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}]), turns_of("4"), turns_of(None)
    (2, None, None)
    """
    return sum(message["role"] == "assistant" for message in value) if is_messages(value) and value else None


def stable_id(text: str) -> str:
    """Return an id for a problem that has none: a hash of the prompt, which is the same on every machine and in every
    run.

    The hash has 64 bits, so the probability of a collision among a million prompts is 3e-8.

    >>> stable_id("2 + 2?")
    'p-485a0cd90586969e'
    """
    return "p-" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _body(message: Mapping[str, Any]) -> str:
    thoughts = message.get("reasoning_content")
    content = message.get("content")
    parts = content if isinstance(content, (list, tuple)) else [content]
    blocks = [f"<think>{thoughts}</think>"] if isinstance(thoughts, str) and thoughts else []
    blocks += [text for part in parts if (text := _part(part))]
    calls = message.get("tool_calls")
    blocks += [_call(call) for call in calls] if isinstance(calls, (list, tuple)) else []
    return "\n".join(blocks)


def _part(part: Any) -> str:
    """Return one part of a message's content as text. The part is a string or a mapping with a type."""
    if part is None or isinstance(part, str):
        return part or ""
    if not isinstance(part, Mapping):
        return str(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part.get("reasoning"), str):
        return f"<think>{part['reasoning']}</think>"
    return f"[{part.get('type', 'part')}]"


def _call(call: Any) -> str:
    """Return a tool call as text. The call may be flat, nested as in OpenAI's API, or JSON text."""
    if isinstance(call, str):
        return f"[call {call}]"
    if not isinstance(call, Mapping):
        return f"[call {call!r}]"
    inner = call.get("function")
    call = inner if isinstance(inner, Mapping) else call
    name = call.get("name") or inner or "?"
    arguments = call.get("arguments", "")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"[call {name}({written})]"
