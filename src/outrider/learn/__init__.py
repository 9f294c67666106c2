"""Learning: packed forward and backward passes, one optimizer, and gradients independent of micro-batching."""
