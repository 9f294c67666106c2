"""Saves and loads checkpoints. A checkpoint has the complete state of a run, so that the run can resume as if it had
never been interrupted.

Checkpoints contain no random state, because every random draw has its own seed: a hash of the draw's identity, such as
a rollout's group and index (:mod:`outrider.record.identity`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from outrider.errors import UserError
from outrider.interrupts import interrupts_held
from outrider.record.disk import disk_refused, move, sync, write_atomically

SCHEMA_VERSION = 1
_NAME = re.compile(r"step-(\d{8})")
_MANIFEST = "manifest.json"


class Checkpoint(NamedTuple):
    """The state of a run after a step.

    Attributes:
        step: number of finished training steps.
        state: all state outside ``folder``, as JSON data: token counters, the position in the training data, the
            configuration and so on.
        folder: folder with the learner's files.
    """

    step: int
    state: dict[str, Any]
    folder: Path


class Checkpoints:
    """Checkpoints of a run, with one folder per checkpoint. A folder gets its final name when it is complete. The
    folder's manifest has a hash of every file, so that damage can be detected."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    @interrupts_held()
    def save(
        self,
        step: int,
        state: Mapping[str, Any],
        write: Callable[[Path], None],
        once: Callable[[Callable[[], Any]], Any] = lambda make: make(),
    ) -> None:
        """Write a checkpoint, and remove all but the newest ``keep`` checkpoints afterwards.

        Ctrl-C and SIGTERM take effect after the checkpoint is complete.

        Args:
            write: function that writes the learner's files to a folder. The hashes in the manifest are computed from
                the files on disk, so that the files need not be kept in memory.
            once: function that calls its argument and returns the result. If several processes save together, it calls
                the argument in one process only and broadcasts the result.

        Raises:
            UserError: the write fails. Earlier checkpoints do not change.
        """
        part = Path(once(lambda: self._begin(step)))
        write(part)
        once(lambda: self._finish(step, state, part))

    def _begin(self, step: int) -> Path:
        part = self.folder / f".step-{step:08d}.part"
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
        except OSError as error:
            raise disk_refused(part, error) from error
        return part

    def _finish(self, step: int, state: Mapping[str, Any], part: Path) -> None:
        final = self.folder / f"step-{step:08d}"
        try:
            text = json.dumps({"schema_version": SCHEMA_VERSION, **state}, indent=1)
            write_atomically(part / "state.json", text.encode())
            written = sorted(part.iterdir())
            sync(*written)
            with ThreadPoolExecutor() as threads:  # hashing releases the GIL
                hashes = dict(zip((file.name for file in written), threads.map(_hash, written), strict=True))
            write_atomically(part / _MANIFEST, json.dumps(hashes).encode())
            if final.exists():  # an extended run saves the step again at which it had ended
                move(final, self.folder / "superseded")
            # one rename makes all files appear together; the sync protects the folder from a power cut
            os.replace(part, final)
            sync(self.folder)
            # only now is the new checkpoint safe; oldest first, so that a kill damages only checkpoints to be removed
            for old in [*checkpoints(self.folder).values()][: -self.keep]:
                shutil.rmtree(old)
        except OSError as error:
            raise disk_refused(final, error) from error

    def undamaged_before(self, step: int) -> int | None:
        """Return the step of the newest undamaged checkpoint before ``step``, or None if there is none."""
        earlier = {at: folder for at, folder in checkpoints(self.folder).items() if at < step}
        return next((at for at in reversed(earlier) if _damage(earlier[at]) is None), None)

    @property
    def last(self) -> int | None:
        """The step of the newest checkpoint, or None if there are no checkpoints."""
        return max(checkpoints(self.folder), default=None)

    def load_last(self, before: int | None = None) -> tuple[Checkpoint, list[str]]:
        """Load the newest undamaged checkpoint. Newer checkpoints, which are damaged, are moved to ``superseded``.

        Returns the loaded checkpoint, and a message about each checkpoint that was moved.

        Args:
            before: checkpoints of this step and later steps are moved to ``superseded`` as well, even if undamaged.

        Raises:
            UserError: no checkpoint exists, or all checkpoints are damaged.
        """
        troubles: list[str] = []
        damaged: list[Path] = []
        for step, folder in reversed(checkpoints(self.folder).items()):
            late = before is not None and step >= before
            trouble = f"{folder.name} is set aside" if late else _damage(folder)
            if trouble is None:
                for newer in damaged:  # otherwise, they would count towards ``keep``, and undamaged ones be deleted
                    move(newer, self.folder / "superseded")
                return _load(step, folder), troubles
            troubles.append(trouble)
            damaged.append(folder)
        if troubles:
            raise UserError(f"no checkpoint can be loaded: {'; '.join(troubles)}")
        raise UserError(f"{self.folder} holds no checkpoint to resume from")


def checkpoints(folder: Path) -> dict[int, Path]:
    """Return the complete checkpoints in a folder by step, oldest first."""
    matches = [_NAME.fullmatch(name) for name in sorted(os.listdir(folder))] if folder.is_dir() else []
    return {int(match[1]): folder / match[0] for match in matches if match}


def weights_hash(model: torch.nn.Module, frozen: bool = False) -> str:
    """Return a hash of a model's weights. If ``frozen`` is True, only frozen weights are hashed. Without such weights,
    return ``""``."""
    digest, some = hashlib.sha256(), False
    for name, parameter in model.named_parameters():
        if not (frozen and parameter.requires_grad):
            digest.update(name.encode() + parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
            some = True
    return digest.hexdigest()[:16] if some else ""


def _damage(folder: Path) -> str | None:
    try:
        hashes = json.loads((folder / _MANIFEST).read_bytes())
        for name, expected in hashes.items():
            if _hash(folder / name) != expected:
                return f"{folder / name} is damaged"
    except (OSError, ValueError) as error:
        return f"{folder} is damaged ({error})"
    return None


def _load(step: int, folder: Path) -> Checkpoint:
    state = json.loads((folder / "state.json").read_bytes())
    version = state.pop("schema_version")
    if version != SCHEMA_VERSION:
        raise UserError(f"{folder} has schema version {version}, and this Outrider reads {SCHEMA_VERSION} only")
    return Checkpoint(step, state, folder)


def _hash(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
