"""Finds the reward columns in TRL's completions, among other columns that reward functions logged (``log_extra``).

Two sources identify the reward columns: the trainer state next to the completions, which names each reward function,
and the advantages, which depend only on the rewards.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from outrider.arrays import Floats
from outrider.importers.files import natural
from outrider.importers.text import as_text

OWN = ("step", "prompt", "completion", "advantage")
EPSILON = 1e-4  # TRL's constant added to the standard deviation
MOST = 8  # maximum number of columns for which all sums are tried
LOOK = 20  # number of files whose advantages are compared


class Rewards(NamedTuple):
    """The columns whose sum is the reward (empty if unknown), and a sentence that explains how they were found."""

    columns: tuple[str, ...]
    why: str


def rewards_of(paths: Sequence[Path]) -> Rewards:
    """Return the reward columns of one run's files. The first of these rules that applies determines the columns:

    1. If ``checkpoint-*/trainer_state.json`` in the output folder names reward functions: the columns with these names.
    2. If there are advantages and 2 to 8 float columns: the largest set of columns whose sum, taken as the reward,
       gives the advantages in the first 20 files. If there is no such set, the reward is unknown. TRL's advantage is
       the reward minus the group mean, optionally divided by the standard deviation of the group or batch.
    3. All float columns.
    """
    floats = _floats(paths[0]) if paths else ()
    if not floats:
        return Rewards((), "")
    if functions := _functions(paths[0].parent.parent):
        result = tuple(name for name in floats if name in functions)
        if result:
            return Rewards(result, _note(result, floats, "as trainer_state.json names the reward functions"))
    if len(floats) == 1:
        return Rewards(floats, f"reward is {floats[0]}.")
    given = _that_give_the_advantages(paths[:LOOK], floats)
    if given is None:
        unsure = "TRL's files have neither reward_weights nor the names of the reward columns; if this is wrong"
        return Rewards(floats, f"reward is the sum of {', '.join(floats)}: {unsure}, {_NAME_IT}.")
    if not given:
        return Rewards(
            (),
            f"reward is excluded: no sum of {', '.join(floats)} gives the advantages, so these columns are weighted "
            f"or are not rewards; {_NAME_IT}.",
        )
    return Rewards(given, _note(given, floats, "which gives the advantages"))


_NAME_IT = "name the column, such as reward: 'accuracy_reward'"


def _note(result: Sequence[str], floats: Sequence[str], why: str) -> str:
    others = [name for name in floats if name not in result]
    of = f"the sum of {', '.join(result)}" if len(result) > 1 else result[0]
    left = f"; {', '.join(others)} {'is' if len(others) == 1 else 'are'} not used as rewards" if others else ""
    weights = ", without TRL's reward_weights, which are not in its files" if len(result) > 1 else ""
    return f"reward is {of}, {why}{weights}{left}."


def _floats(path: Path) -> tuple[str, ...]:
    schema = pq.read_schema(path)
    return tuple(field.name for field in schema if pa.types.is_floating(field.type) and field.name not in OWN)


def _functions(output: Path) -> set[str]:
    """Return the names of the reward functions from the latest trainer state that contains such names; an empty set if
    no state does.
    """
    states = [*output.glob("checkpoint-*/trainer_state.json"), *output.glob("trainer_state.json")]
    for path in sorted(states, key=lambda path: natural(path.as_posix()), reverse=True):
        try:
            history = json.loads(path.read_bytes())["log_history"]
            keys = {key for entry in history for key in entry}
        except (OSError, ValueError, TypeError, KeyError):
            continue
        names = {
            key.removeprefix("rewards/").removesuffix("/mean")
            for key in keys
            if key.startswith("rewards/") and key.endswith("/mean")
        }
        if names:
            return names
    return set()


def _that_give_the_advantages(paths: Sequence[Path], floats: Sequence[str]) -> tuple[str, ...] | None:
    """Return the largest set of columns for which the sum of the columns is a reward that explains all advantages.
    Return an empty tuple if there is no such set, and None if the files do not allow a decision.
    """
    batches = [batch for path in paths for batch in _batches(path, floats)]
    if not any(np.isfinite(batch.advantages).any() for batch in batches) or len(floats) > MOST:
        return None
    # largest set first: a smaller set that lacks only a reward that is constant in every group gives the same
    # advantages
    for size in range(len(floats), 0, -1):
        for chosen in combinations(range(len(floats)), size):
            if all(batch.given_by(list(chosen)) for batch in batches):
                return tuple(floats[i] for i in chosen)
    return ()


class _Batch(NamedTuple):
    """The data of one file: the values of the columns (``[rows, columns]``), the advantages, and one slice of rows for
    each group.
    """

    values: Floats
    advantages: Floats
    groups: list[slice]

    def given_by(self, columns: list[int]) -> bool:
        parts = self.values[:, columns]
        rewards = np.where(np.isnan(parts).all(axis=1), np.nan, np.nansum(parts, axis=1))
        known = ~np.isnan(rewards) & ~np.isnan(self.advantages)
        centred, deviations = np.zeros(len(rewards)), np.zeros(len(rewards))
        for group in self.groups:
            here = rewards[group]
            if known[group].any():
                centred[group] = here - np.nanmean(here)
                deviations[group] = np.nanstd(here, ddof=1) if known[group].sum() > 1 else 0.0
        whole = float(np.nanstd(rewards, ddof=1)) if known.sum() > 1 else 0.0
        wanted, off = self.advantages[known], 0.02 * max(1.0, float(np.abs(self.advantages[known]).max(initial=0)))
        scales = (deviations[known] + EPSILON, whole + EPSILON, 1.0)
        return any(float(np.abs(centred[known] / scale - wanted).max(initial=0)) <= off for scale in scales)


def _batches(path: Path, floats: Sequence[str]) -> Iterator[_Batch]:
    there = pq.read_schema(path).names
    if "advantage" not in there or not set(floats) <= set(there):
        return
    table = pq.read_table(path, columns=["prompt", "advantage", *floats])
    columns = [table[name].to_numpy() for name in floats]
    prompts = [as_text(prompt) for prompt in table["prompt"].to_pylist()]
    values = np.array(columns, dtype=np.float64).T.reshape(len(prompts), len(floats))
    yield _Batch(values, np.asarray(table["advantage"].to_numpy(), dtype=np.float64), _groups(prompts))


def _groups(prompts: Sequence[str]) -> list[slice]:
    """Return the row slices of TRL's groups. A group's rows are consecutive, and two groups of one prompt may be
    adjacent.

    >>> [(g.start, g.stop) for g in _groups(["a", "a", "b", "b", "b", "b"])]
    [(0, 2), (2, 4), (4, 6)]
    """
    starts = [i for i in range(len(prompts)) if not i or prompts[i] != prompts[i - 1]]
    runs = list(zip(starts, [*starts[1:], len(prompts)], strict=True))
    sizes = Counter(end - start for start, end in runs)
    usual = min(sizes, key=lambda size: (-sizes[size], size), default=1)
    results = []
    for start, end in runs:
        size = usual if usual > 1 and (end - start) % usual == 0 else end - start
        results += [slice(at, at + size) for at in range(start, end, size)]
    return results


def reward(data: Mapping[str, Any], columns: Sequence[str]) -> float | None:
    """Return the sum of the reward columns that apply to a rollout. Return NaN if no column applies, and None if there
    are no reward columns.
    """
    scores = [float(score) for name in columns if isinstance(score := data.get(name), (int, float))]
    return (sum(scores) if scores else math.nan) if columns else None
