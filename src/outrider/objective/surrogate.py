"""Interface of a surrogate, which computes a token's policy loss from its ratio and advantage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from outrider.objective.ratio import Marks, TokenRatios
from outrider.options import Options

if TYPE_CHECKING:
    from torch import Tensor


class Surrogate(Options):
    """The policy loss, such as PPO's clipped objective. Fields are the recipe's options.

    On-policy, where every ratio is 1, the gradient of :meth:`gain` is the policy gradient: each token's advantage times
    the gradient of its log-probability.
    """

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """The names of the surrogate's diagnostics, which are the same for every batch."""
        return ()

    @property
    def per_response(self) -> bool:
        """Whether a response has a single ratio. If so, individual tokens cannot be excluded from the loss, since the
        ratio contains all tokens of the response."""
        return False

    @property
    def reads_top(self) -> int:
        """Number of most probable tokens whose log-probabilities the surrogate reads at each position. If the number
        is 0, some engines compute no entropies, so a surrogate that reads entropies must return at least 1."""
        return 0

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        """Return each token's gain ``[N]`` (the negative of its policy loss), and the values ``[N]`` of each
        diagnostic, keyed by name. A diagnostic is the mean of its values over tokens.

        Tokens that are not trained have log ratio 0 and advantage 0. Their gain and diagnostics are ignored. Their
        log-probability may be NaN, and this NaN must not reach any gradient.
        """
        raise NotImplementedError


class Bounded(Surrogate):
    """A surrogate with a lower and an upper bound for the importance ratio. The list ``[low, high]`` is short for both
    options."""

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, given: Any) -> Any:
        if not isinstance(given, (list, tuple)):
            return given
        if len(given) != 2:
            raise ValueError(f"a range must have two numbers, [low, high], but this one has {len(given)}")
        return {"low": given[0], "high": given[1]}
