r"""Chooses verl's loss aggregation so that verl's loss has the denominators of a recipe's loss.

Verl aggregates the policy term, the KL term and the entropy term in the same way over all rows, and divides by its own
denominators. Without a KL penalty and an entropy bonus, the loss is homogeneous in the advantages: a positive factor on
a row's advantages multiplies the row's loss. The weights :math:`w` of :mod:`outrider.objective.weights` contain the
stream weights and denominators of the whole optimizer batch. Therefore, each advantage :math:`A` is multiplied by its
weight, and verl only sums the token losses (``token-sum``):

.. math:: \sum_t -g_t(w_t A_t) = \sum_t -w_t\, g_t(A_t)

With a KL penalty or an entropy bonus, the recipe is rejected unless verl's aggregation equals the recipe's.
"""

from __future__ import annotations

from typing import NamedTuple

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.explore.bounds import bounds_after
from outrider.objective import Constant, SequenceMean, TokenMean


class Denominators(NamedTuple):
    """The denominators in verl's loss.

    Attributes:
        mode: value of verl's ``loss_agg_mode``.
        length: value of verl's ``loss_scale_factor``.
        weighted: whether each advantage is multiplied by the weight that its token has in the recipe's loss.
        full: whether every step must have the same number of rows, because verl divides by a fixed number of rows.
    """

    mode: str
    length: int | None = None
    weighted: bool = False
    full: bool = False


def most_rows(recipe: Recipe) -> int:
    """Return the maximum number of rows in a step of the recipe.

    Raises:
        UserError: the number of rows has no upper bound.
    """
    most = bounds_after(recipe.explore, recipe.train.problems).most
    if most is None:
        raise UserError(
            "verl does not support this recipe: explore has no maximum of rollouts per step, and "
            "verl needs a fixed size of optimizer batches"
        )
    return most


def denominators_of(recipe: Recipe) -> Denominators:
    """Return the denominators with which verl's loss equals the recipe's loss.

    Raises:
        UserError: the recipe has a KL penalty or an entropy bonus, for which verl would use another denominator.
    """
    term = "KL" if recipe.objective.kl.coef else "entropy bonus" if recipe.objective.entropy.bonus else ""
    if not term:
        return Denominators("token-sum", weighted=True)
    own = _own(recipe)
    if own is None:
        key = "objective.kl.coef=0" if term == "KL" else "objective.entropy.bonus=0"
        raise UserError(
            f"verl does not support this recipe: verl has one denominator of the {term} over all rows, "
            f"which is not that of this recipe's streams and aggregate; turn the {term} off ({key})"
        )
    return own


def _own(recipe: Recipe) -> Denominators | None:
    """Return verl's own denominators if they equal the recipe's denominators in every step; otherwise, return None."""
    aggregate, bounds = recipe.objective.aggregate, bounds_after(recipe.explore, recipe.train.problems)
    if list(recipe.objective.streams.values()) != [1.0] or aggregate.denominator != "all":
        return None
    if isinstance(aggregate, TokenMean):
        return Denominators("token-mean")
    # all other modes divide by the size of a mini-batch, including padding, so no step may have fewer rows
    if bounds.fewest != bounds.most or most_rows(recipe) % recipe.train.problems:
        return None
    if isinstance(aggregate, SequenceMean):
        return Denominators("seq-mean-token-mean", full=True)
    if isinstance(aggregate, Constant):
        return Denominators("seq-mean-token-sum-norm", aggregate.length or recipe.sample.max_tokens, full=True)
    return None
