"""The plug-in for verl, which registers Outrider's default estimators and losses when verl imports it.

``VERL_USE_EXTERNAL_MODULES=outrider.integrations.verl_plugin`` loads the plug-in. The plug-in also registers a recipe's
surrogate if the configuration of ``outrider verl-config`` names a surrogate. Verl finds the plug-in if Outrider is
installed in the same environment.

If verl is not installed, importing this module has no effect.
"""

import json
import os
from importlib.util import find_spec

from outrider.integrations.verl import RECIPE, SURROGATE, register_defaults, register_loss

if find_spec("verl"):
    register_defaults()
    if surrogate := os.environ.get(SURROGATE):
        register_loss(RECIPE, json.loads(surrogate))
