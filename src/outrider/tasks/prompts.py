"""Named prompt templates from papers and model families. A template is the text around a problem.

Templates with chat markers (``qwen-…``, ``llama``, ``r1-distill``, ``deepseek-math``) include the beginning of the
assistant's turn, so they need ``policy.chat=false``. ``boxed`` and ``answer-line`` have no chat markers. They suit base
models. They also suit chat models with ``policy.chat=true``, where the filled-in template is the user's message. ``r1``
is for base models.

The instruction to reason step by step and to put the final answer in ``\\boxed{}`` is quoted exactly from Qwen2.5-Math
and DeepSeekMath. ``r1`` asks for the format of DeepSeek-R1-Zero (arXiv 2501.12948), and ``answer-line`` asks for the
format of DAPO (arXiv 2503.14476). Both use Outrider's own wording.
"""

from __future__ import annotations

import re
import string
from typing import NamedTuple

from outrider.errors import nearest

_BOXED = "Please reason step by step, and put your final answer within \\boxed{{}}."
_BAR = "\uff5c"  # full-width bar, which the chat markers of DeepSeek-R1 contain

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
"""Templates by name. ``{question}`` is replaced by the problem, ``{{`` and ``}}`` by single braces."""

_NAME = re.compile(r"[\w-]+")


class PromptPart(NamedTuple):
    """A part of a prompt: literal text, and the name of the field that follows this text (None if no field follows)."""

    text: str
    field: str | None


def prompt_parts(prompt: str, question: str) -> list[PromptPart]:
    r"""Split a prompt into parts. The prompt is a text with ``{fields}``, or the name of a template.

    For a template, ``question`` is the name of the field with the problem. A field may have any name that contains no
    braces. ``{{`` and ``}}`` are literal braces.

    Raises:
        ValueError: the prompt is an unknown template name, has no field, or has braces without a field name.

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
    """Return the whole text between the braces. Unlike in a format string, ``:`` and ``!`` are parts of the name."""
    return None if name is None else name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
