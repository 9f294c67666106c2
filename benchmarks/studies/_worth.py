"""How far gradients of single problems point towards the goal, and how noisy they are, without bias."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.arrays import Floats

HALF = 64  # rollouts of each of the two halves that a gradient is measured with


class Products(NamedTuple):
    """Of each problem's gradient; estimates without bias, so some are negative.

    Attributes:
        own_P: its squared length, ``|grad p_i|^2``.
        towards_P: its product with the gradient of the goal, the mean over the problems.
        noise_P: the variance that one rollout leaves in its estimate.
        goal: the squared length of the goal's gradient.
    """

    own_P: Floats
    towards_P: Floats
    noise_P: Floats
    goal: float


def products(one_PD: Floats, two_PD: Floats, half: int = HALF) -> Products:
    """From two estimates of every problem's gradient, independent of each other, each of ``half`` rollouts.

    A product of an estimate with itself holds its noise; a product of one half with the other does not.

    >>> import numpy as np
    >>> same = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> products(same, same, half=4).towards_P.tolist(), products(same, same, half=4).noise_P.tolist()
    ([0.5, 0.5], [0.0, 0.0])
    """
    goal_one_D, goal_two_D = one_PD.mean(0), two_PD.mean(0)
    own_P = np.einsum("pd,pd->p", one_PD, two_PD)
    squares_P = (np.einsum("pd,pd->p", one_PD, one_PD) + np.einsum("pd,pd->p", two_PD, two_PD)) / 2
    towards_P = (one_PD @ goal_two_D + two_PD @ goal_one_D) / 2
    return Products(own_P, towards_P, half * (squares_P - own_P), float(goal_one_D @ goal_two_D))


def scaled_as_adam(one_PD: Floats, two_PD: Floats) -> None:
    """In place: each coordinate over the root of its root mean square, so that products are as Adam sees them."""
    root_D = ((one_PD**2).mean(0) + (two_PD**2).mean(0)) ** 0.25 + 1e-12  # a weight that nothing moves stays 0
    one_PD /= root_D
    two_PD /= root_D
