"""Returns the per-token values that a credit component needs, and raises an error if the sampler did not record
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats
from outrider.credit.members import Members
from outrider.errors import UserError

_Array = TypeVar("_Array", bound=NDArray[Any])


def logprobs_of(members: Members, reader: str) -> Sequence[Floats]:
    """Return the log-probability of every trainable token, one array per member.

    Raises:
        UserError: the sampler recorded no log-probabilities.
        ValueError: a member's number of values differs from its number of trainable tokens.
    """
    return _recorded(members.logprobs_GT, members, reader, "log-probability")


def entropies_of(members: Members, reader: str) -> Sequence[Floats]:
    """Return the entropy at every trainable token, one array per member; raises like :func:`logprobs_of`."""
    return _recorded(members.entropies_GT, members, reader, "entropy")


def token_texts_of(members: Members, reader: str) -> Sequence[NDArray[np.str_]]:
    """Return the text of every trainable token, one array per member.

    Raises:
        UserError: the members have no token texts.
        ValueError: see :func:`logprobs_of`.
    """
    return _recorded(members.token_texts_GT, members, reader, "text", "they were not given here")


def _recorded(
    values_GT: Sequence[_Array], members: Members, reader: str, what: str, why: str = "this sampler records none"
) -> Sequence[_Array]:
    given = [len(values) for values in values_GT] or [0] * members.size
    for member, (found, tokens) in enumerate(zip(given, members.tokens_G.tolist(), strict=True)):
        if tokens and not found:
            raise UserError(f"credit component {reader} needs the {what} of every token, but {why}")
        if found != tokens:
            raise ValueError(f"member {member} has {tokens} trainable tokens, but {found} recorded values ({what})")
    return values_GT or [np.zeros(0)] * members.size  # type: ignore[list-item]  # no member has a token
