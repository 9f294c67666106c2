"""Settings of the whole suite."""

import torch
from hypothesis import settings

# a slow moment of the machine is no failure
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
torch.set_num_threads(1)
