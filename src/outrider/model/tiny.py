"""Creates small Qwen2 models with random weights, and character or subword tokenizers for these models."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import processors
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from outrider.model.load import Policy
from outrider.model.options import NewModel

CHARACTERS = "0123456789+-*/=,;:>. %#AB|()\n"
PAD, BOS, EOS = "<pad>", "<s>", "</s>"


def character_tokenizer(characters: str = CHARACTERS) -> Qwen2Tokenizer:
    """Return a tokenizer with one token per character; it adds the token ``<s>`` in front of each text.

    The tokenizer is a byte-level BPE without merges. For a model of the Qwen2 family, transformers always loads a
    Qwen2Tokenizer, whatever class was saved. So any other tokenizer would be different after saving and loading.
    Characters outside ``characters`` have no token, and the tokenizer drops them.

    >>> tokenizer = character_tokenizer()
    >>> ids = tokenizer("7 5>12:")["input_ids"]
    >>> tokenizer.decode(ids, skip_special_tokens=True)
    '7 5>12:'
    """
    as_bytes = characters.translate({ord(" "): "Ġ", ord("\n"): "Ċ"})  # byte-level BPE's symbols for the two characters
    vocabulary = {token: i for i, token in enumerate([PAD, BOS, EOS, *as_bytes])}
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=[],
        unk_token=None,  # type: ignore[arg-type]  # this vocabulary lacks the default token
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    start = processors.TemplateProcessing(f"{BOS} $A", special_tokens=[(BOS, vocabulary[BOS])])
    tokenizer.backend_tokenizer.post_processor = start
    return tokenizer


def subword_tokenizer(texts: Iterable[str], vocabulary: int) -> Qwen2Tokenizer:
    """Return a byte-level BPE tokenizer trained on ``texts``; it adds ``<s>`` in front of each text.

    The tokenizer can encode any text, and each digit is one token.

    >>> tokenizer = subword_tokenizer(["two plums and two plums"] * 9, 300)
    >>> [tokenizer.decode(token) for token in tokenizer("two plums 12")["input_ids"]]
    ['<s>', 'two', ' plums', ' ', '1', '2']
    """
    learnt = character_tokenizer().train_new_from_iterator(texts, vocabulary)
    assert isinstance(learnt, Qwen2Tokenizer)
    return learnt


def tiny_policy(seed: int, context: int = 256, characters: str = CHARACTERS) -> Policy:
    """Return an untrained Qwen2 model with 448,128 parameters and a tokenizer with one token per character."""
    return untrained(seed, character_tokenizer(characters), NewModel(context=context))


def untrained(seed: int, tokenizer: Qwen2Tokenizer, size: NewModel) -> Policy:
    """Return a Qwen2 model with random weights and tied embeddings.

    The dimension of an attention head is 32, since serving engines have no attention kernel for a smaller dimension.
    There are half as many KV heads as query heads, and the feed-forward layer has twice the model's width.
    """
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        intermediate_size=2 * size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.width // 32,
        num_key_value_heads=size.width // 64,
        max_position_embeddings=size.context,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=size.init,
    )
    torch.manual_seed(seed)
    return Policy(Qwen2ForCausalLM(config).eval(), tokenizer)
