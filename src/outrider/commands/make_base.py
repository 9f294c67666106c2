"""Trains base models for which Outrider ships only the training settings, not the weights. A model is trained before
the first command that uses it."""

from __future__ import annotations

import json
import subprocess
import sys

from rich.console import Console

from outrider.config import read_yaml
from outrider.errors import UserError
from outrider.model.cache import making
from outrider.model.made_base import MadeBase, made_base
from outrider.model.places import model_folder


def make_base(model: str) -> None:
    """Train the base model named ``model``, unless it already exists or Outrider has no settings to train it.

    An earlier training run that was interrupted is resumed.

    Raises:
        UserError: the model from which the training starts is not installed, or ``outrider sft`` fails and has printed
            the reason.
    """
    base = made_base(model)
    if base is None or base.made:
        return
    with making(base.folder):
        if not base.made:  # another process may have trained the model meanwhile
            _make(model, base)


def _make(model: str, base: MadeBase) -> None:
    settings = read_yaml(base.settings, model)
    try:
        model_folder(settings["base"])
    except UserError as error:
        raise UserError(f"{model}: {error}; pip install 'outrider[{model.partition(':')[2]}]'") from error
    Console(stderr=True).print(
        f"{model} is trained once, from {settings['base']} and {settings['steps'] * settings['problems']:,} worked "
        f"solutions, and saved in {base.folder}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    values = [f"{key}={json.dumps(value)}" for key, value in settings.items() if key != "task"]
    command = [sys.executable, "-m", "outrider", "sft", json.dumps(settings["task"]), *values]
    # in a separate process, so that the memory for this training is free before the run begins
    status = subprocess.run([*command, "--out", str(base.folder)], stdout=sys.stderr, check=False).returncode
    if status:
        raise UserError(f"{model} could not be trained: outrider sft ended with status {status}")
