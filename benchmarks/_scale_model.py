"""The parts of a step with a model, at sizes that grow, for ``scale.py``."""

from __future__ import annotations

import numpy as np
import torch
from _scale_recipes import best
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.head import token_statistics
from outrider.model.load import Policy
from outrider.model.tiny import character_tokenizer
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.record import Problem, SampleRequest
from outrider.record.row import WeightedRow
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready

WIDTH, HEAD_TOKENS, ROWS, RESPONSE = 64, 256, 4, 16


def policy(context: int) -> Policy:
    """A random model of two narrow layers, so that what grows with the context shows."""
    torch.manual_seed(0)
    shape = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = LlamaConfig(vocab_size=512, num_key_value_heads=4, max_position_embeddings=context, **shape, **special)
    return ready(Policy(LlamaForCausalLM(config).eval(), character_tokenizer()), "fused")[0]


def head(vocabulary: int) -> float:
    """Seconds of log-probabilities and their gradients for 256 tokens."""
    torch.manual_seed(0)
    hidden = torch.randn(HEAD_TOKENS, WIDTH, requires_grad=True)
    weight = torch.randn(vocabulary, WIDTH, requires_grad=True)
    targets = torch.randint(vocabulary, (HEAD_TOKENS,))
    return best(lambda i: token_statistics(hidden, weight, None, targets).logprobs_T.sum().backward())


def learning(tokens: int) -> float:
    """Seconds of an update on one response."""
    made = policy(tokens + 64)
    options = LearnOptions(micro_tokens=tokens + 64, gradient_checkpointing=False)
    learner = LocalLearner(made.model, options, PolicyLoss(ObjectiveOptions(), tokens), path=made.path)
    ids = np.random.default_rng(0).integers(3, 500, tokens).astype(np.int32)
    row = WeightedRow(ids[:2], ids, np.full(tokens, -6.0, np.float32), np.ones(tokens), np.ones(tokens, np.bool_))
    return best(lambda i: learner.update([row]))


def sampling(tokens: int) -> float:
    """Seconds of four responses of 16 tokens after prompts of so many tokens."""
    sampler = LocalSampler(policy(tokens + 64), SampleOptions(max_tokens=RESPONSE, rows=ROWS))
    ids = np.random.default_rng(0).integers(3, 500, (ROWS, tokens)).astype(np.int32)
    asked = [SampleRequest(Problem(str(i), ""), prompt_ids=prompt, group_id=str(i)) for i, prompt in enumerate(ids)]
    return best(lambda i: sampler.sample(asked))
