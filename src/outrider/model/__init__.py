"""Hugging Face causal LMs for sampler and learner: how they are loaded, and their attention and LM head."""
