"""Learning: training by packed passes and one optimizer, with gradients that do not depend on micro-batching."""
