"""Settings of the whole suite."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's library is imported: no test waits for a network

import torch
from hypothesis import settings

# a slow moment of the machine is no failure
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
torch.set_num_threads(1)
