"""The laws (tested properties) of a policy loss: properties of its gains (negative losses per token), and of their
derivatives with respect to log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from outrider.objective.ratio import TokenRatios
from outrider.objective.surrogate import Surrogate
from outrider.testing.law import breaks, require, require_equal

if TYPE_CHECKING:
    from torch import Tensor

_OLD = math.log(0.01)  # old log-probability of every token


class LossClaims(NamedTuple):
    """A policy loss to test, and what its author says about it.

    Attributes:
        stops_gradient: whether the loss detaches a factor on purpose, as CISPO detaches its importance weight. If True,
            the gradient need not be the derivative of the loss.
    """

    surrogate: Surrogate
    stops_gradient: bool = False


class Slope(NamedTuple):
    """The gains (negative losses) and diagnostics of N tokens, and the derivative of each gain with respect to each
    log-probability (``[N, N]``)."""

    gain: Tensor
    marks: dict[str, Tensor]
    slopes: Tensor


class LossBatch(NamedTuple):
    """The tokens in a batch of rows: their ratios, their advantages, and the number of tokens in each row.

    ``observed`` is the index of a token that was not sampled and has log-probability NaN. -1 means no such token.
    """

    ratios: Sequence[float]
    advantages: Sequence[float]
    lengths: Sequence[int]
    observed: int = -1

    def __str__(self) -> str:
        ratios = ", ".join(
            "observed" if place == self.observed else f"{ratio:g}" for place, ratio in enumerate(self.ratios)
        )
        advantages = ", ".join(f"{advantage:g}" for advantage in self.advantages)
        rows = " and ".join(map(str, self.lengths))
        return f"ratios {ratios}; advantages {advantages}; rows of {rows} tokens"


def slope(
    surrogate: Surrogate,
    ratios: Sequence[float],
    advantages: Sequence[float],
    lengths: Sequence[int],
    observed: int = -1,
) -> Slope:
    """Return each token's gain (negative loss) and its derivatives with respect to all log-probabilities, in float64.
    :class:`LossBatch` explains the arguments.

    >>> from outrider.objective import Unclipped
    >>> slope(Unclipped(), [2.0], [-1.0], [1]).slopes.tolist()
    [[-2.0]]
    """
    import torch

    tokens = LossBatch(ratios, advantages, lengths, observed)
    start = _logprobs(tokens)
    gain, marks = surrogate.gain(_ratios(tokens, start))
    slopes = torch.autograd.functional.jacobian(lambda logprobs: _gain(surrogate, tokens, logprobs), start)
    return Slope(gain, marks, slopes)


def _logprobs(tokens: LossBatch) -> Tensor:
    import torch

    logprobs = torch.tensor([_OLD + math.log(ratio) for ratio in tokens.ratios], dtype=torch.float64)
    logprobs[[n == tokens.observed for n in range(len(tokens.ratios))]] = math.nan
    return logprobs


def _ratios(tokens: LossBatch, logprobs: Tensor) -> TokenRatios:
    """Return the ratios of a batch.

    All entropies are equal, so no token is a high-entropy (forking) token. SimKO, for example, changes the loss of such
    tokens only, and so has no effect here.
    """
    import torch

    live = torch.tensor([n != tokens.observed for n in range(len(tokens.ratios))], dtype=torch.bool)
    advantages = torch.tensor(tokens.advantages, dtype=torch.float64)
    log_ratio = torch.where(live, logprobs - _OLD, 0.0)
    entropies = torch.ones(len(live))
    return TokenRatios(log_ratio, logprobs, advantages, live, tokens.lengths, entropies, logprobs[:, None])


def _gain(surrogate: Surrogate, tokens: LossBatch, logprobs: Tensor) -> Tensor:
    return surrogate.gain(_ratios(tokens, logprobs))[0]


# The laws

MIXED = LossBatch([2.0, 0.5, 1.5, 8.0], [1.0, 1.0, -1.0, -1.0], [1, 3])
SMOOTH = [0.37, 0.61, 0.93, 1.07, 1.43, 2.6, 6.3]  # ratios at which all shipped losses are differentiable
NOTHING = LossBatch([], [], [])
_HINT = "if a factor is detached on purpose, say stops_gradient=True"


def gives_one_gain_per_token(claims: LossClaims) -> None:
    """The loss gives every token one finite gain (negative loss), and returns an empty tensor for an empty batch."""
    for tokens in (MIXED, LossBatch([1.0], [0.0], [1]), NOTHING):
        with breaks(situation=str(tokens)):
            gain, _ = claims.surrogate.gain(_ratios(tokens, _logprobs(tokens)))
            require_equal(tuple(gain.shape), (len(tokens.ratios),), "the shape of the gains")
            require(bool(gain.isfinite().all()), f"the gains are {gain.tolist()}, which are not finite")


def declares_its_marks(claims: LossClaims) -> None:
    """In every batch, even an empty one, the returned diagnostics have the names in ``diagnostics``."""
    for tokens in (MIXED, NOTHING):
        with breaks(situation=str(tokens)):
            _, marks = claims.surrogate.gain(_ratios(tokens, _logprobs(tokens)))
            require_equal(tuple(marks), claims.surrogate.diagnostics, "the names of the marks")
            shapes = {name: tuple(mark.shape) for name, mark in marks.items()}
            require_equal(shapes, dict.fromkeys(marks, (len(tokens.ratios),)), "the shapes of the marks")


def is_the_policy_gradient_on_policy(claims: LossClaims) -> None:
    """If every ratio is 1, the derivative of the summed gains (negative losses) with respect to a token's
    log-probability is the token's advantage."""
    tokens = LossBatch([1.0] * 4, [2.0, 2.0, -0.5, -0.5], [2, 2])
    with breaks(situation=str(tokens)):
        found = slope(claims.surrogate, *tokens).slopes.sum(0)
        _require_close(found, _like(found, tokens.advantages), "the gradient by the log-probabilities")


def trains_no_observed_token(claims: LossClaims) -> None:
    """A token of an environment's reply gets no gradient, and does not change the gains (negative losses) or gradients
    of sampled tokens.

    NaN times 0 is NaN, so a loss must mask the observed token before it uses the token's log-probability.
    """
    for place in range(3):
        ratios, advantages = [2.0, 0.5], [1.0, 1.0]
        tokens = LossBatch(
            [*ratios[:place], 1.0, *ratios[place:]], [*advantages[:place], 0.0, *advantages[place:]], [3], place
        )
        with breaks(situation=str(tokens)):
            found, alone = slope(claims.surrogate, *tokens), slope(claims.surrogate, ratios, advantages, [2])
            live = [n for n in range(3) if n != place]
            _require_close(found.gain[live], alone.gain, "the gains of the sampled tokens")
            into = found.slopes[live][:, place]
            _require_close(into, _like(into, [0.0, 0.0]), "the gradient of the observed token")
            _require_close(found.slopes[live][:, live], alone.slopes, "the gradients of the sampled tokens")


def keeps_rows_apart(claims: LossClaims) -> None:
    """The gains (negative losses) of a row's tokens do not depend on other rows, so that rows can be assigned to
    micro-batches in any way."""
    import torch

    with breaks(situation=str(MIXED)):
        both = slope(claims.surrogate, *MIXED)
        first = slope(claims.surrogate, MIXED.ratios[:1], MIXED.advantages[:1], [1])
        second = slope(claims.surrogate, MIXED.ratios[1:], MIXED.advantages[1:], [3])
        _require_close(both.gain, torch.cat([first.gain, second.gain]), "the gains, beside those of each row alone,")
        _require_close(both.slopes, torch.block_diag(first.slopes, second.slopes), "the gradients of two rows")


def gives_no_gradient_without_advantage(claims: LossClaims) -> None:
    """Advantages of 0 give a gradient of exactly 0."""
    tokens = LossBatch([2.0, 0.5, 8.0], [0.0] * 3, [2, 1])
    with breaks(situation=str(tokens)):
        found = slope(claims.surrogate, *tokens).slopes
        require(not found.any(), f"the gradient is {found.sum(0).tolist()}, expected 0")


def is_proportional_to_the_advantage(claims: LossClaims) -> None:
    """If the advantages double, the gradient doubles."""
    once = LossBatch([2.0, 0.5, 8.0], [1.0, -1.0, -0.5], [1, 1, 1])
    twice = once._replace(advantages=[2 * a for a in once.advantages])
    with breaks(situation=str(twice)):
        found, expected = slope(claims.surrogate, *twice).slopes, 2 * slope(claims.surrogate, *once).slopes
        _require_close(found, expected, "the gradient with twice the advantages")


def says_whether_a_response_shares_a_ratio(claims: LossClaims) -> None:
    """``per_response`` is true if and only if a token's gain (negative loss) depends on other tokens of its
    response."""
    tokens = LossBatch([1.1, 0.9, 1.0], [1.0, 1.0, 1.0], [3])
    with breaks(situation=str(tokens)):
        slopes = slope(claims.surrogate, *tokens).slopes
        shared = bool((slopes - slopes.diag().diag() != 0).any())
        told = "depends" if shared else "does not depend"
        said = claims.surrogate.per_response
        require(shared == said, f"a token's gain {told} on other tokens of its row, but `per_response` is {said}")


def has_the_gradient_of_its_value(claims: LossClaims) -> None:
    """Where a token's gain (negative loss) is differentiable, its gradient agrees with numerical differentiation. Not
    checked if ``stops_gradient`` is True."""
    if claims.stops_gradient:
        return
    for sign in (1.0, -1.0):
        for ratio in SMOOTH:
            tokens = LossBatch([ratio, 1.21, 0.83], [sign, -0.5, 0.7], [2, 1])
            with breaks(situation=str(tokens)):
                found, expected = slope(claims.surrogate, *tokens).slopes, _differences(claims.surrogate, tokens)
                _require_close(found, expected, f"the gradient, beside central differences ({_HINT}),", 1e-5)


def _differences(surrogate: Surrogate, tokens: LossBatch, step: float = 1e-6) -> Tensor:
    import torch

    start, columns = _logprobs(tokens), []
    for n in range(len(start)):
        moved = torch.zeros_like(start)
        moved[n] = step
        after, before = (_gain(surrogate, tokens, place) for place in (start + moved, start - moved))
        columns.append((after - before) / (2 * step))
    return torch.stack(columns, 1)


def _like(tensor: Tensor, values: Sequence[float]) -> Tensor:
    import torch

    return torch.tensor(values, dtype=tensor.dtype)


def _require_close(found: Tensor, expected: Tensor, what: str, tolerance: float = 1e-8) -> None:
    import torch

    close = torch.allclose(found.to(expected.dtype), expected, rtol=max(tolerance, 1e-5), atol=tolerance)
    require(close, f"{what} is {_rounded(found)}, expected {_rounded(expected)}")


def _rounded(tensor: Tensor) -> str:
    values = tensor.detach().to("cpu").numpy().round(6)
    return " ".join(str(values.tolist()).split())


LOSS_LAWS: dict[str, Callable[[LossClaims], None]] = {
    "one gain per token": gives_one_gain_per_token,
    "marks": declares_its_marks,
    "observed tokens": trains_no_observed_token,
    "on policy": is_the_policy_gradient_on_policy,
    "rows apart": keeps_rows_apart,
    "no advantage": gives_no_gradient_without_advantage,
    "proportional": is_proportional_to_the_advantage,
    "per response": says_whether_a_response_shares_a_ratio,
    "finite differences": has_the_gradient_of_its_value,
}
"""The laws of every policy loss."""
