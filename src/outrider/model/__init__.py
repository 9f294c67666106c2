"""Hugging Face causal LMs, as used by the sampler and the learner: loading, attention, and the LM head."""
