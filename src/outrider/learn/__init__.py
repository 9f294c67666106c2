"""Trains the policy with packed forward and backward passes and one optimizer. The gradients do not depend on how rows
are divided into micro-batches.
"""
