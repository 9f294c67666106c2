"""Runs ``outrider verl-config``, which writes a primary Hydra configuration file that extends verl's configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.config import Recipe, dump_yaml, load_recipe
from outrider.errors import UserError
from outrider.integrations.verl_config import verl_settings
from outrider.record.disk import write_atomically

_HEAD = """\
# Experimental: no training with verl was run. Recipe {name}{setting}, for verl 0.9.1 with Outrider beside it.
# python -m verl.trainer.main_ppo --config-dir FOLDER_OF_THIS_FILE --config-name NAME_OF_THIS_FILE_WITHOUT_YAML
"""


def verl_config_command(name: str, overrides: Sequence[str], setting: str | None, out: Path | None) -> int:
    """Run ``outrider verl-config``: print the configuration file, or write it to ``out``, which must not exist.

    Raises:
        UserError: the recipe does not exist, verl does not support the recipe, or the file ``out`` exists.
    """
    text = verl_yaml(load_for_verl(name, overrides, setting))
    if out is None:
        sys.stdout.write(text)
    elif out.exists():
        raise UserError(f"{out} is there already; name another file")
    else:
        write_atomically(out, text.encode())
    return 0


def load_for_verl(name: str, overrides: Sequence[str], setting: str | None) -> Recipe:
    """Load a recipe for verl. Since verl samples and trains with different engines, off-policy correction is on by
    default.

    Raises:
        UserError: the recipe does not exist, or an override sets a key in ``engine``, although verl is the engine.
    """
    for override in overrides:
        if override.split("=")[0].split(".")[0] == "engine":
            raise UserError(
                f"{override}: verl is the engine; its keys are {{trainer, actor_rollout_ref}} of its own file"
            )
    return load_recipe(name, [*overrides, "engine={sampler: vllm, learner: local}"], setting)


def verl_yaml(recipe: Recipe) -> str:
    """Return the text of verl's configuration file for a recipe.

    Raises:
        UserError: verl does not support the recipe.
    """
    settings = verl_settings(recipe)
    setting = f" in {recipe.from_setting}" if recipe.from_setting else ""
    parts = [_HEAD.format(name=recipe.name, setting=setting)]
    parts += [f"# Not as in the recipe: {note}.\n" for note in settings.notes]
    parts.append("defaults: [ppo_trainer, _self_]\n")
    parts.append("\n# What may be changed: length, evaluation, devices.\n")
    parts.append("# GPUs: trainer.n_gpus_per_node and trainer.nnodes have verl's defaults.\n")
    # write one mapping per top-level key, since YAML keeps only the last of two mappings with the same key
    return "".join(parts) + dump_yaml(nested({**settings.running, **settings.method}))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert dotted keys to nested mappings.

    >>> nested({"a.b": 1, "a.c.d": 2, "e": 3})
    {'a': {'b': 1, 'c': {'d': 2}}, 'e': 3}
    """
    result: dict[str, Any] = {}
    for key, value in values.items():
        *folders, last = key.split(".")
        place = result
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return result
