"""Prompts by name: the text around a problem, as papers and model families write it.

A template that spells out the marks of a chat (``qwen-…``, ``llama``, ``r1-distill``, ``deepseek-math``) begins the
assistant's turn itself, so it goes with ``policy.chat=false``. ``boxed`` and ``answer-line`` have no marks: they are
for base models, or the user's message with ``policy.chat=true``. ``r1`` is for base models.

The request to reason and to box the answer is in the words that Qwen2.5-Math and DeepSeekMath were trained with. ``r1``
and ``answer-line`` ask for the forms of DeepSeek-R1-Zero (arXiv 2501.12948) and DAPO (arXiv 2503.14476) in our words.
"""

from __future__ import annotations

import re
import string
from typing import NamedTuple

from outrider.errors import nearest

_BOXED = "Please reason step by step, and put your final answer within \\boxed{{}}."
_BAR = "\uff5c"  # full width, in the marks of DeepSeek-R1

TEMPLATES = {
    "bare": "{question}",
    "boxed": f"{{question}}\n{_BOXED}\n",
    "answer-line": "{question}\nReason step by step and end with the line `Answer: $answer`.\n",
    "qwen-math": (
        f"<|im_start|>system\n{_BOXED}<|im_end|>\n<|im_start|>user\n{{question}}<|im_end|>\n<|im_start|>assistant\n"
    ),
    "qwen-boxed": f"<|im_start|>user\n{{question}}\n{_BOXED}<|im_end|>\n<|im_start|>assistant\n",
    "llama": (
        f"<|start_header_id|>user<|end_header_id|>\n\n{{question}}\n{_BOXED}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "deepseek-math": f"User: {{question}}\n{_BOXED}\n\nAssistant:",
    "r1": (
        "A user asks, an assistant answers. The assistant thinks first, between <think> and </think>, and then gives "
        "the answer between <answer> and </answer>, its result within \\boxed{{}}.\nUser: {question}\n"
        "Assistant: <think>"
    ),
    "search": (
        "Answer the question. Think first, between <think> and </think>. What you do not know you may search for: "
        "write <search>, a query, and </search>, and what is found is shown between <information> and </information>. "
        "Search as often as you need. Give the answer alone between <answer> and </answer>.\nQuestion: {question}\n"
    ),
    "r1-distill": f"<{_BAR}User{_BAR}>{{question}}\n{_BOXED}<{_BAR}Assistant{_BAR}><think>\n",
}
"""By name; ``{question}`` stands for the problem, and ``{{`` and ``}}`` for braces."""

_NAME = re.compile(r"[\w-]+")


class PromptPart(NamedTuple):
    """A part of a prompt: a text, and the name of the field that follows it; None where none does."""

    text: str
    field: str | None


def prompt_parts(prompt: str, question: str) -> list[PromptPart]:
    r"""A prompt taken apart: the text of a template around the field ``question``, or a text with ``{fields}``.

    A field may have any name that holds no brace. ``{{`` and ``}}`` are braces.

    Raises:
        ValueError: one word without a field that is no template, no field at all, or braces that name none.

    >>> prompt_parts("{Problem text} \\boxed{{}}", "problem")
    [PromptPart(text='', field='Problem text'), PromptPart(text=' \\boxed{', field=None), PromptPart(text='}', ...)]
    >>> prompt_parts("deepseek-math", "extra_info.question")[0]
    PromptPart(text='User: ', field='extra_info.question')
    """
    if prompt not in TEMPLATES and _NAME.fullmatch(prompt):
        raise ValueError(f"prompt: there is no template {prompt!r} ({nearest(prompt, TEMPLATES)})")
    try:
        parsed = list(string.Formatter().parse(TEMPLATES.get(prompt, prompt)))
    except ValueError as error:
        raise ValueError(f"prompt: write {{{{ and }}}} for braces that name no field ({error})") from error
    parts = [PromptPart(text, _field(name, spec, conversion)) for text, name, spec, conversion in parsed]
    if any(part.field is not None and not part.field.strip() for part in parts):
        raise ValueError("prompt: {} is not a field; write {{ and }} for braces")
    if all(part.field is None for part in parts):
        raise ValueError("prompt: without a {field} it is the same for every problem")
    return [PromptPart(part.text, question) if part.field and prompt in TEMPLATES else part for part in parts]


def _field(name: str | None, spec: str | None, conversion: str | None) -> str | None:
    """The whole text between the braces: ``:`` and ``!`` belong to the name here, unlike in a format string."""
    return None if name is None else name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
