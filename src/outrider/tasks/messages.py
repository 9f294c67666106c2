"""Reads prompts that are chat messages from a field of a table row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from outrider.errors import nearest

ROLES = ("system", "developer", "user", "assistant", "tool")


class Chat(NamedTuple):
    """A prompt that consists of messages. ``prompt`` is the text of the last message, which is from the user.
    ``before`` has the earlier messages."""

    before: tuple[Mapping[str, Any], ...]
    prompt: str


def read_chat(fields: Mapping[str, Any], name: str) -> Chat:
    """Read the chat in a field. A chat is a list of messages with ``role`` and ``content``, and its last message is
    from the user.

    The ``content`` may be a list of text parts, which are joined. Other entries of a message, such as a name or tool
    calls, are kept for the chat template unless they are null.

    Raises:
        ValueError: the field does not exist, or is not a valid chat.

    >>> read_chat({"chat": [{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}]}, "chat")
    Chat(before=({'role': 'system', 'content': 'Add.'},), prompt='2 + 2?')
    """
    if name not in fields:
        raise ValueError(f"no field {name!r} ({nearest(name, fields)})")
    value = fields[name]
    if not isinstance(value, list) or not value or not all(isinstance(message, Mapping) for message in value):
        raise ValueError(f"the field {name!r} holds {_shown(value)}, not a list of messages with role and content")
    messages = [_message(message, f"message {i} of {name!r}") for i, message in enumerate(value)]
    last = messages[-1]
    if last["role"] != "user":
        raise ValueError(
            f"{name!r} ends with a message of the role {last['role']!r}, but what is answered is the user's; a single "
            f"message is named by its place, as in prompt: '{{{name}.0.content}}' or answer: {name}.1.content"
        )
    return Chat(tuple(messages[:-1]), last["content"])


def is_chat(value: Any) -> bool:
    """Return whether a value is a list of chat messages."""
    return isinstance(value, list) and bool(value) and all(isinstance(m, Mapping) and "role" in m for m in value)


def _message(message: Mapping[str, Any], place: str) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if value is not None}
    role = kept.get("role")
    if role not in ROLES:
        hint = nearest(str(role), ROLES) if role is not None else f"it has {', '.join(kept) or 'nothing'}"
        raise ValueError(f"{place} has {'no role' if role is None else f'the unknown role {role!r}'} ({hint})")
    content = kept.get("content", "" if "tool_calls" in kept else None)
    if isinstance(content, list) and all(map(_is_text, content)):
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise ValueError(f"{place} holds {_shown(content)} as its content, not a text")
    try:
        content.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{place} holds half a surrogate pair, which is no text") from error
    return {**kept, "content": content}


def _is_text(part: Any) -> bool:
    """Return whether a part of a message's content is only text, without other data such as an image."""
    if not isinstance(part, Mapping) or not isinstance(part.get("text"), str) or part.get("type") not in (None, "text"):
        return False
    return all(value is None or name in ("type", "text") for name, value in part.items())


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:60]
