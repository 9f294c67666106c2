"""Learning: packed forward and backward passes, one optimizer, and gradients that do not depend on micro-batching."""
