"""Learning: packed forward and backward passes, one optimizer, gradients that do not depend on the split."""
