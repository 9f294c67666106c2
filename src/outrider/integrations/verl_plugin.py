"""Verl's plug-in: ``VERL_USE_EXTERNAL_MODULES=outrider.integrations.verl_plugin`` registers Outrider's defaults.

Without verl, importing it does nothing.
"""

from importlib.util import find_spec

from outrider.integrations.verl import register_defaults

if find_spec("verl"):
    register_defaults()
