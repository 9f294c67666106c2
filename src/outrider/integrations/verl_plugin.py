"""The plug-in for verl: when verl imports this module, Outrider's default estimators and losses are registered.

To load the plug-in, set ``VERL_USE_EXTERNAL_MODULES=outrider.integrations.verl_plugin``. Outrider must be installed in
verl's environment. The plug-in also registers the recipe's policy loss, if ``outrider verl-config`` has written this
loss into the configuration.

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
