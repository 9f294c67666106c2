"""Learning: trains with packed forward and backward passes and a single optimizer; the gradients do not depend on how
rows are divided into micro-batches.
"""
