"""Prompts by name: the text around a problem, as papers and model families write it.

A template that spells out the marks of a chat (``qwen-…``, ``llama``, ``r1-distill``, ``deepseek-math``) begins the
assistant's turn itself, so it goes with ``policy.chat=false``. ``boxed`` and ``answer-line`` have no marks: they are
for base models, or the user's message with ``policy.chat=true``. ``r1`` is for base models.

The request to reason and to box the answer is in the words that Qwen2.5-Math and DeepSeekMath were trained with. ``r1``
and ``answer-line`` ask for the forms of DeepSeek-R1-Zero (arXiv 2501.12948) and DAPO (arXiv 2503.14476) in our words.
"""

from __future__ import annotations

import re

from outrider.errors import nearest

_BOXED = "Please reason step by step, and put your final answer within \\boxed{{}}."
_BAR = "\uff5c"  # full width, in the marks of DeepSeek-R1

TEMPLATES = {
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
    "r1-distill": f"<{_BAR}User{_BAR}>{{question}}\n{_BOXED}<{_BAR}Assistant{_BAR}><think>\n",
}
"""By name; ``{question}`` stands for the problem, and ``{{`` and ``}}`` for braces."""

_NAME = re.compile(r"[\w-]+")


def prompt_text(prompt: str, question: str) -> str:
    r"""A prompt as a text with ``{fields}``: that of a template, around the field ``question``, or what it is already.

    Raises:
        ValueError: it is one word without a field, and no template.

    >>> prompt_text("deepseek-math", "problem")[:15], prompt_text("Q: {text}\nA:", "problem")
    ('User: {problem}', 'Q: {text}\nA:')
    """
    if prompt in TEMPLATES:
        return TEMPLATES[prompt].replace("{question}", f"{{{question}}}")
    if _NAME.fullmatch(prompt):
        raise ValueError(f"prompt: there is no template {prompt!r} ({nearest(prompt, TEMPLATES)})")
    return prompt
