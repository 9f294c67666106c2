"""Verl's plug-in: ``VERL_USE_EXTERNAL_MODULES=outrider.integrations.verl_plugin`` registers Outrider's defaults, and
a recipe's surrogate where ``outrider verl-config`` has named one. Installed beside verl it is found by itself.

Without verl, importing it does nothing.
"""

import json
import os
from importlib.util import find_spec

from outrider.integrations.verl import RECIPE, SURROGATE, register_defaults, register_loss

if find_spec("verl"):
    register_defaults()
    if surrogate := os.environ.get(SURROGATE):
        register_loss(RECIPE, json.loads(surrogate))
