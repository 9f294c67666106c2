"""Hugging Face causal LMs for sampler and learner: loading, attention and LM head."""
