"""Small models in folders that look exactly like real ones: weights, settings, a trained tokenizer, a chat template."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast, Qwen2Tokenizer

from small import random_model

FAMILIES = ("qwen2", "llama", "qwen3")

CHATML = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""
CHATML_HELPFUL = (
    "{%- if messages[0].role != 'system' -%}"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}{%- endif -%}" + CHATML
)
HEADERS = """{{- bos_token -}}{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"""

_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_LLAMA = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_TEXTS = [
    "Natalia sold 48 clips in April, and half as many in May. How many clips did she sell altogether?",
    "Please reason step by step, and put your final answer within \\boxed{}. So the answer is \\boxed{72}.",
    "Let $x$ be the number of eggs; then 3x + 4 = 19 and x = 5. #### 5\n",
] * 4


def make_model(family: str, folder: Path, context: int = 256) -> str:
    """A random model of a family with its tokenizer, saved in ``folder``; returns the folder as a recipe names it."""
    tokenizer = make_tokenizer(family)
    ends = tokenizer.convert_tokens_to_ids([_LLAMA[4], _LLAMA[1]] if family == "llama" else [_QWEN[2], _QWEN[0]])
    vocabulary = len(tokenizer) + 5  # rows of the embedding that no token has, as in Qwen2.5
    ids = {"eos_token_id": ends[0], "pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.bos_token_id}
    shape = {"vocab_size": vocabulary, "max_position_embeddings": context, "tie_word_embeddings": family != "llama"}
    model = random_model(family, **shape, **ids)
    model.generation_config = GenerationConfig(**ids | {"eos_token_id": ends})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def make_tokenizer(family: str) -> PreTrainedTokenizerBase:
    """A byte-level BPE of a few merges with the family's special tokens and a template in the family's form."""
    special = _LLAMA if family == "llama" else _QWEN
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    training = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(_TEXTS, training)
    if family == "llama":
        trained.add_special_tokens([AddedToken(t, special=True) for t in special])
        start = [(special[0], trained.token_to_id(special[0]))]
        trained.post_processor = processors.TemplateProcessing(f"{special[0]} $A", special_tokens=start)
        ends = {"bos_token": special[0], "eos_token": special[4], "pad_token": special[1]}
        made: PreTrainedTokenizerBase = PreTrainedTokenizerFast(tokenizer_object=trained, **ends)
        made.chat_template = HEADERS
        return made
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    made = Qwen2Tokenizer(
        vocab=trained.get_vocab(), merges=merges, unk_token=None, bos_token=None,
        eos_token=_QWEN[2], pad_token=_QWEN[0], extra_special_tokens=[_QWEN[1]],
    )  # fmt: skip
    made.chat_template = CHATML_HELPFUL if family == "qwen2" else CHATML
    return made
