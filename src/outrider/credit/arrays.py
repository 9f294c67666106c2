"""Advantage estimation for other trainers: applies a credit chain (a list of components) to a batch of plain arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter, ValidationError

from outrider.arrays import Flags, Floats, Ints
from outrider.components import ComponentOf
from outrider.credit import BASELINES, REWARD_SHAPERS, SHAPERS, Link, Members, advantages_of, split
from outrider.errors import UserError

Described = Link | str | Mapping[str, Any]
_CHAIN: TypeAdapter[list[Link]] = TypeAdapter(
    list[Annotated[Link, ComponentOf({**REWARD_SHAPERS, **BASELINES, **SHAPERS}, "credit component", Link)]]
)


def chain_of(description: Sequence[Described]) -> list[Link]:
    """Build a credit chain (a list of components that compute advantages) from components, or from component names and
    options as in a recipe.

    Raises:
        UserError: a component or option is unknown, a value is out of range, or the order is invalid (see
            :func:`split`).

    >>> [type(link).__name__ for link in chain_of(["group_mean", {"novelty": {"cap": 0.25}}])]
    ['GroupMean', 'Novelty']
    """
    if isinstance(description, (str, Mapping, Link)):
        raise UserError(f"a chain must be a list: write [{description!r}]")
    try:
        chain = _CHAIN.validate_python(list(description))
        split(chain)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"chain.{place}: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise UserError(f"chain: {error}") from None
    return chain


def advantages_from_arrays(
    chain: Sequence[Described],
    group_ids: Sequence[Hashable] | NDArray[Any],
    rewards: ArrayLike,
    mask: ArrayLike,
    *,
    success: ArrayLike | None = None,
    logprobs: ArrayLike | None = None,
    entropies: ArrayLike | None = None,
    parents: ArrayLike | None = None,
    starts: ArrayLike | None = None,
    families: ArrayLike | None = None,
    seeded: ArrayLike | None = None,
    greedy: ArrayLike | None = None,
    step: int | None = None,
) -> Floats:
    """Apply a credit chain and return one advantage per token as float64 ``[B, T]``, with 0 where the mask is 0.

    Rows are responses, in any order. Rows with the same group id are compared with each other; groups may differ in
    size. A baseline with batch statistics treats all rows as one batch. Input arrays are not modified.

    Args:
        chain: credit components, for example ``load_recipe(name).credit["main"]``, or their names and options as in a
            recipe.
        group_ids: one hashable id per row: an integer, a string, or a verl batch's ``uid``.
        rewards: one number per row; NaN means that the verifier failed, and excludes the row from every baseline.
        mask: ``[B, T]``, 1 for the sampled tokens to train on, 0 for padding and tool output.
        success: whether each row is correct. May be omitted if rewards are 0 and 1, or -1 and 1.
        logprobs, entropies: ``[B, T]``, computed under the sampling policy; entropies are in nats. Values where the
            mask is 0 are ignored. Only some components require these arrays.
        parents: for trees, the index of the row that each row continues; -1 for roots.
        starts: for trees, the number of trainable tokens in the prefix that each row copies from its parent. The row's
            mask must be 0 at these tokens.
        families: integer label per row; ``siblings_mean`` compares rows of a group that have equal labels. By default,
            rows with the same parent and start have equal labels.
        seeded: whether each row's prompt contained solved examples or a hint.
        greedy: whether each row is the greedy response (used as the baseline) instead of a sample.
        step: training step, counted from 1. Required only by components that depend on the step.

    Raises:
        UserError: arrays are inconsistent or missing, or the chain is invalid (see :func:`chain_of`).

    >>> rewards = [1.0, 0.0, 0.0, 1.0]  # rows 0 and 2 answer one problem, rows 1 and 3 another
    >>> mask = [[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 1]]
    >>> advantages_from_arrays([{"group_mean": {"std": False}}], ["a", "b", "a", "b"], rewards, mask)
    array([[ 0.5,  0.5,  0.5],
           [-0.5, -0.5,  0. ],
           [-0.5,  0. ,  0. ],
           [ 0. ,  0.5,  0.5]])
    """
    links = chain_of(chain)
    keys = group_ids.tolist() if isinstance(group_ids, np.ndarray) else list(group_ids)
    rows = len(keys)
    mask_BT = _mask(mask, rows)
    rewards_B = _column("rewards", rewards, rows, np.float64)
    parents_B = _column("parents", parents, rows, np.int64, missing=-1)
    starts_B = _column("starts", starts, rows, np.int64)
    if (starts_B < 0).any():
        raise UserError(f"starts holds {starts_B.min()}, but should be 0 or more in each row")
    places_B = np.unique(np.stack([parents_B, starts_B]), axis=1, return_inverse=True)[1].reshape(-1)
    families_B = places_B if families is None else _column("families", families, rows, np.int64)
    success_B = _success(rewards_B, success)
    seeded_B, greedy_B = _column("seeded", seeded, rows, np.bool_), _column("greedy", greedy, rows, np.bool_)
    logprobs_B, entropies_B = _tokens("logprobs", logprobs, mask_BT), _tokens("entropies", entropies, mask_BT)
    groups = _rows_of(keys)
    members = [
        Members(
            rewards_G=rewards_B[group],
            success_G=success_B[group],
            tokens_G=mask_BT[group].sum(axis=1, dtype=np.int64),
            logprobs_GT=[logprobs_B[row] for row in group],
            entropies_GT=[entropies_B[row] for row in group],
            parents_G=_parents(parents_B, group),
            starts_G=starts_B[group],
            families_G=families_B[group],
            seeded_G=seeded_B[group],
            greedy_G=greedy_B[group],
        )
        for group in groups
    ]
    try:
        advantages = advantages_of(links, members, step)
    except ValueError as error:
        raise UserError(f"this chain cannot be applied to these rows: {error}") from error
    result_BT = np.zeros(mask_BT.shape)
    for group, advantages_GT in zip(groups, advantages, strict=True):
        for row, advantages_T in zip(group, advantages_GT, strict=True):
            result_BT[row, mask_BT[row]] = advantages_T
    return result_BT


def _rows_of(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the row indices of each group; groups are ordered by their first row."""
    rows_of: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        rows_of.setdefault(key, []).append(row)
    return list(rows_of.values())


def _array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        given = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, or tensors that NumPy cannot convert
        raise UserError(f"{name} cannot be read as an array ({error})") from None
    if given.dtype.kind not in "biuf":
        raise UserError(f"{name} should hold numbers, but holds {given.dtype}")
    return given


def _column(name: str, values: ArrayLike | None, rows: int, kind: type[np.generic], missing: int = 0) -> NDArray[Any]:
    """Return one value per row; every value is ``missing`` if ``values`` is None."""
    if values is None:
        return np.full(rows, missing, kind)
    given = _array(name, values)
    if given.shape != (rows,):
        raise UserError(f"{name} has the shape {given.shape}, but should have one entry for each of {rows} rows")
    with np.errstate(invalid="ignore"):  # values that cannot be converted are reported below
        converted = given.astype(kind)
    if kind is not np.float64 and (converted != given).any():
        kinds = {np.int64: "an integer", np.bool_: "0 or 1"}
        raise UserError(f"{name} holds {given[converted != given][0]}, but should hold {kinds[kind]} in each row")
    return converted


def _mask(mask: ArrayLike, rows: int) -> Flags:
    given = _array("mask", mask)
    if given.ndim != 2 or len(given) != rows:
        raise UserError(f"mask has the shape {given.shape}, but should have a row of tokens for each of {rows} rows")
    if not np.isin(given, (0, 1)).all():
        raise UserError(f"mask holds {given[~np.isin(given, (0, 1))][0]}, but should hold only 0 and 1")
    flags: Flags = given.astype(np.bool_)
    return flags


def _success(rewards_B: Floats, success: ArrayLike | None) -> Flags:
    if np.isinf(rewards_B).any():
        raise UserError("rewards contain an infinite number; use NaN for a row that could not be verified")
    if success is not None:
        given: Flags = _column("success", success, len(rewards_B), np.bool_)
        return given
    verified = rewards_B[~np.isnan(rewards_B)]
    if not (np.isin(verified, (0.0, 1.0)).all() or np.isin(verified, (-1.0, 1.0)).all()):
        raise UserError("success is required, since rewards other than 0 and 1, or -1 and 1, do not define it")
    return np.asarray(rewards_B == 1.0)


def _tokens(name: str, values: ArrayLike | None, mask_BT: Flags) -> list[Floats]:
    """Return the values at each row's trainable tokens, or empty arrays if ``values`` is None."""
    if values is None:
        return [np.zeros(0)] * len(mask_BT)
    given = _array(name, values)
    if given.shape != mask_BT.shape:
        raise UserError(f"{name} has the shape {given.shape}, but mask has {mask_BT.shape}")
    strange = np.flatnonzero((~np.isfinite(given) & mask_BT).any(axis=1))
    if len(strange):
        raise UserError(f"{name} of row {strange[0]} is not finite at a token that the mask trains")
    return [row_T[mask_T].astype(np.float64) for row_T, mask_T in zip(given, mask_BT, strict=True)]


def _parents(parents_B: Ints, group: list[int]) -> Ints:
    """Convert each parent's row index in the batch to its member index within the group."""
    place = {row: member for member, row in enumerate(group)} | {-1: -1}
    for row in group:
        if int(parents_B[row]) not in place:
            raise UserError(f"parents of row {row} is {parents_B[row]}, which is not a row of its group")
    return np.array([place[int(parents_B[row])] for row in group], np.int64)
