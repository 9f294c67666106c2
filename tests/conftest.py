"""Settings of the whole suite."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's library is imported: no test waits for a network

import torch
from hypothesis import settings

# A slow moment of the machine is no failure, and equal code has equal results; `--hypothesis-profile=search` looks for
# new examples.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("suite")
torch.set_num_threads(1)
