"""Describes the environment of a run (versions, machine, commit and command line), and detects versions that have
changed since the start of the run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import outrider

_PACKAGES = ("numpy", "pyarrow", "torch", "transformers")


def environment(engine: str = "") -> dict[str, Any]:
    """Return the software and hardware with which a run starts, as JSON data. Versions are found without importing the
    packages.

    Args:
        engine: device, dtype and attention kernel of the model, or ``""`` if there is no model.
    """
    versions = {"python": platform.python_version(), "outrider": outrider.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "versions": versions,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),  # all cores of the machine, since a rank is pinned to one core
        "engine": engine,
        "git": _commit(),
    }


def changes_since(file: Path) -> list[str]:
    """Return one sentence for each package version that differs from the version in ``file``.

    ``file`` contains an earlier result of :func:`environment`.
    """
    try:
        before = json.loads(file.read_bytes())["versions"]
    except (OSError, ValueError, KeyError) as error:
        return [f"{file.name} cannot be read ({error}): whether versions have changed is not known."]
    return [
        f"{name} was {before.get(name)} when the run began and is {now} now: numbers may differ in the last bits."
        for name, now in environment()["versions"].items()
        if before.get(name) != now
    ]


def _commit() -> str | None:
    """Return the git commit of Outrider's checkout, with ``-dirty`` if files have changed. Return None if Outrider does
    not run from a checkout."""
    folder = Path(outrider.__file__).parent
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    try:
        # If Outrider is installed in the .venv of another project, git would find that project's commit.
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", "__init__.py"], check=True, capture_output=True, timeout=10
        )
        described = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            check=True,
            capture_output=True,
            timeout=10,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
