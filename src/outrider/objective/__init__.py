"""The objective: from tokens, log-probabilities and advantages to a loss with explicit denominators."""
