"""Reads recipes (the configurations of runs) from YAML into typed values. Imports no torch."""

from outrider.components import ComponentOf
from outrider.config.evaluate import Evaluate
from outrider.config.load import (
    RecipeInfo,
    SettingInfo,
    list_recipes,
    list_settings,
    load_options,
    load_recipe,
    setting_texts,
)
from outrider.config.older import config_of_run, recipe_of_run
from outrider.config.recipe import Recipe
from outrider.config.sft import Sft, load_sft
from outrider.config.shipped import text_of
from outrider.config.validate import Validate
from outrider.config.yaml_data import dump_yaml, read_yaml

__all__ = [
    "ComponentOf",
    "Evaluate",
    "Recipe",
    "RecipeInfo",
    "SettingInfo",
    "Sft",
    "Validate",
    "config_of_run",
    "dump_yaml",
    "list_recipes",
    "list_settings",
    "load_options",
    "load_recipe",
    "load_sft",
    "read_yaml",
    "recipe_of_run",
    "setting_texts",
    "text_of",
]
