"""What sampler and learner share about a Hugging Face causal LM: loading, attention, and its head."""
