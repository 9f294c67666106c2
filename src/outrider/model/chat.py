"""What a chat template is given: the messages of a problem's prompt."""

from __future__ import annotations

from typing import Any

from outrider.errors import UserError
from outrider.model.options import PolicyOptions
from outrider.record import Problem


def chat_of(problem: Problem, options: PolicyOptions) -> list[dict[str, Any]] | None:
    """The messages, the user's last: those of the problem as they are, or its text without the white space around it
    (which separates a plain prompt from the response, as the template does here). None without ``options.chat``.

    Raises:
        UserError: the prompt is messages and there is no template to write them, or a second system message.
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
