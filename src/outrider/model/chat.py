"""Renders prompts and observations as chat messages, and checks the chat template."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables
from jinja2.nodes import Node
from jinja2.parser import Parser
from transformers import PreTrainedTokenizerBase

from outrider.errors import UserError, nearest
from outrider.model.options import PolicyOptions
from outrider.record import Problem

_ANSWER = "OUTRIDER-ANSWER"  # placeholder for a turn of the policy, to find the template's text after the turn
_NONE: Mapping[str, Any] = MappingProxyType({})

_GIVEN = ("messages", "raise_exception", "strftime_now")  # variables that transformers passes to every template


class _Generation(Extension):
    """The Jinja tag ``generation`` from transformers. Chat templates use this tag to mark assistant tokens."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


Arguments = Mapping[str, Any]
"""Arguments of a chat template by name; see ``PolicyOptions.chat_template_kwargs``."""


def refuse_unread(tokenizer: PreTrainedTokenizerBase, arguments: Arguments) -> None:
    """Raise UserError for an argument that the chat template does not read."""
    if not arguments:
        return
    templates = tokenizer.chat_template
    texts = templates.values() if isinstance(templates, dict) else [templates or ""]
    dialect = Environment(extensions=["jinja2.ext.loopcontrols", _Generation])
    try:
        named = {name for text in texts for name in find_undeclared_variables(dialect.parse(text))}
    except TemplateSyntaxError as error:
        raise UserError(f"policy.chat_template_kwargs: the chat template cannot be read ({error})") from error
    read = named - {*_GIVEN, *inspect.signature(tokenizer.apply_chat_template).parameters}
    for name in arguments:
        if name not in read:
            known = sorted(read - {*tokenizer.special_tokens_map})
            hint = nearest(name, known) if known else "it reads none"
            raise UserError(f"policy.chat_template_kwargs: the template does not read {name!r} ({hint})")


def observation_text(tokenizer: PreTrainedTokenizerBase, text: str, last: str, arguments: Arguments = _NONE) -> str:
    """Return the chat template's text between two turns of the policy, with ``text`` as a user message.

    The result starts after the policy's turn, and is appended to the sampled tokens. Earlier turns are not rendered
    again, since a template may change them: Qwen3's template drops their thinking.

    Args:
        last: text of the last token of the policy's turn. If the template also writes this token at the end of the
            turn, the token is not repeated.

    Raises:
        UserError: the template's output does not contain the policy's turns.
    """
    turns = [("user", "?"), ("assistant", _ANSWER), ("user", text)]
    messages = [{"role": role, "content": content} for role, content in turns]
    written = str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **arguments))
    _, found, after = written.partition(_ANSWER)  # the first occurrence, since an observation may contain anything
    if not found:
        raise UserError("the chat template does not render assistant turns, so observations are not supported")
    return after.removeprefix(last) if last else after


def prompt_end(tokenizer: PreTrainedTokenizerBase, options: PolicyOptions) -> str:
    """Return the chat template's text after the last user message, where the policy's turn starts.

    The templates of reasoning models may open a thinking block in this text, which the response must close.
    """
    before = [] if options.system is None else [{"role": "system", "content": options.system}]
    asked = [*before, {"role": "user", "content": _ANSWER}]
    arguments: dict[str, Any] = {**options.chat_template_kwargs}
    written = str(tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False, **arguments))
    return written.rpartition(_ANSWER)[2]


def refuse_other_calls(
    tokenizer: PreTrainedTokenizerBase, tools: list[dict[str, Any]], arguments: Arguments = _NONE
) -> None:
    """Raise UserError if the chat template does not show tools, or writes tool calls or tool responses in a format that
    :mod:`outrider.environments.tool_calls` does not support.
    """

    def written(*messages: dict[str, Any], shown: bool = False) -> str:
        asked = [{"role": "user", "content": "?"}, *messages]
        given: Any = {"tools": tools if shown else None, **arguments}
        return str(tokenizer.apply_chat_template(asked, tokenize=False, **given))

    if written() == written(shown=True):
        raise UserError("this model's chat template does not support tools")
    call = {"name": "f", "arguments": {"a": 1}}
    called = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
    answer = {"role": "tool", "name": "f", "content": _ANSWER}
    user = {"role": "user", "content": f"<tool_response>\n{_ANSWER}\n</tool_response>"}
    text = written(called)
    if json.dumps(call) not in text.partition("<tool_call>")[2] or written(called, answer) != written(called, user):
        raise UserError(
            "this model's chat template writes tool calls in an unknown format; supported: "
            "<tool_call>{…}</tool_call>, answered by <tool_response>…</tool_response>, as Qwen2.5 and Qwen3 have them"
        )
    if hidden := [mark for mark in ("<tool_call>", "</tool_call>") if mark in tokenizer.all_special_tokens]:
        raise UserError(
            f"{' and '.join(hidden)} is a special token of this tokenizer; the text of a turn has no special tokens, "
            "so no call would be found: remove it from the tokenizer's special tokens"
        )


def chat_of(problem: Problem, options: PolicyOptions) -> list[dict[str, Any]] | None:
    """Return the messages of a problem, the last of which is from the user. If ``options.chat`` is off, return None.

    If the prompt is a list of messages, the messages are unchanged. If the prompt is a string, it becomes a user
    message, without leading and trailing white space. White space that separates a prompt from its response is not
    needed, because the chat template adds separators.

    Raises:
        UserError: the prompt is a list of messages but ``options.chat`` is off, or there would be two system messages.
    """
    before = problem.messages_before
    if not options.chat:
        if before is not None:
            raise UserError(
                f"problem {problem.id!r}: its prompt is messages, which a chat template writes: policy.chat=true"
            )
        return None
    system = [] if options.system is None else [{"role": "system", "content": options.system}]
    if before is None:
        return [*system, {"role": "user", "content": problem.prompt.strip()}]
    if system and any(message["role"] in ("system", "developer") for message in before):
        raise UserError(f"problem {problem.id!r}: its messages have a system message, and policy.system is another")
    return [*system, *map(dict, before), {"role": "user", "content": problem.prompt}]
