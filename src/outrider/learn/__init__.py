"""Learning: training by packed forward and backward passes and one optimizer, with gradients that do not depend on
micro-batching."""
