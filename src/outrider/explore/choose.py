"""Choose: problems of which a token moves the policy furthest towards the goal come up most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, PrivateAttr

from outrider.explore.belief import Belief, Expected
from outrider.explore.bounds import Bounds
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.view import View
from outrider.record import Group, Problem, SampleRequest, identity_seed


class Choose(PlansAhead, Stage):
    r"""Takes a problem that comes up with a chance in proportion to what a token of it is worth.

    .. math:: \mathrm{worth} = \frac{\mathrm{E}[p (1 - p)^k]}{F c}, \qquad
        \mathrm{chance} = \max\left(\mathrm{floor}, \min\left(1,
        \frac{\mathrm{worth}}{\mathrm{enough} \cdot \mathrm{best}}\right)\right)

    with pass rate p, noise F and price c as :class:`~outrider.explore.belief.Belief` expects them, and the best that it
    expects of a new problem of any level. A step of given length moves the goal by
    :math:`\sum_i w_i C_i / (\sum_i w_i^2 N_i / n_i)^{1/2}` where noise is most of it, :math:`C_i` being the product of
    problem i's gradient with the goal's and :math:`N_i` the noise of one rollout. Under the best weights the square of
    that is :math:`\sum_i n_i C_i^2 / N_i`, so a token is worth :math:`C^2 / (N c)`. :math:`N = F p (1 - p)` where a
    score's length does not depend on the reward, and :math:`C = p (1 - p) \delta` with :math:`\delta` the distance,
    along the goal's gradient, between the mean scores of right and wrong responses; it is taken to be the same
    everywhere. So ``benchmarks/studies/worth.py`` found C: it goes with :math:`p (1 - p)` and not with the length; N
    departs, as about :math:`p^{0.7} (1 - p)^{0.5}` and the length to the power 0.8 [0.3, 1.1]. Taking the best alone
    would move the policy where only they improve, so what is worth ``enough`` is taken as they are.

    With ``k`` above 1 this is multiplied by :math:`k (1 - p)^{k-1}`, the slope of :math:`1 - (1 - p)^k`, by which
    credit for the best of k tries weighs a problem (``passk``'s ``training`` over a deviation as well): a token on what
    is nearly solved then moves little. That is a choice, and does not follow from the above, where weights cancel.

    So this is no estimate of the mean problem's gradient: short problems that are solved now and then come up most
    often, and what is out of reach waits until what they teach brings it nearer. The ``floor`` keeps everything in
    view, so that this is noticed. It asks for no rollouts: it stands anywhere among the stages, and decides which
    problems a step begins with and which ones other stages draw.

    Only scorable rollouts from the plain prompt are evidence, of dropped groups too. Degenerate cases: in the first
    step all are taken; so they are where nothing is told apart, one level and all problems new, and where no level is
    worth anything; a level whose tokens are all sure is worth nothing. The draw depends on the run's seed, the step and
    the problem.

    >>> Choose().floor
    0.02
    """

    enough: float = Field(
        0.3, gt=0, le=1, description="threshold for accepting a problem, as a share of the highest level's value"
    )
    k: int = Field(1, ge=1, description="k of the pass@k objective")
    floor: float = Field(0.02, gt=0, le=1, description="minimum acceptance probability of a problem")

    _belief: Belief = PrivateAttr(default_factory=Belief)
    _seed: int = PrivateAttr(0)
    _offers: Counter[str] = PrivateAttr(default_factory=Counter)  # of problems, in this step
    _refused: int = PrivateAttr(0)

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before

    def plan(self, view: View) -> list[SampleRequest]:
        self._seed = view.seed
        return []

    def chance(self, problem: Problem) -> float:
        """Of being taken."""
        best = max((worth(level, self.k) for level in self._belief.levels()), default=0.0)
        share = worth(self._belief.expected(problem), self.k) / best if best else 1.0
        return max(min(share / self.enough, 1.0), self.floor)

    def admits(self, problem: Problem, step: int) -> bool:
        self._offers[problem.id] += 1  # another draw where a small pool comes round within a step
        draw = identity_seed(self._seed, "choose", step, problem.id, self._offers[problem.id]) / 2**63
        taken = draw < self.chance(problem)
        self._refused += not taken
        return taken

    def predicted(self, problem: Problem) -> float:
        return self._belief.expected(problem).rate.mean

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """How many problems were ``offered`` and ``refused``, and the numbers of the belief."""
        offers = {"offered": float(self._offers.total()), "refused": float(self._refused)}
        self._offers, self._refused = Counter(), 0
        self._belief.learn(groups)
        return offers | self._belief.numbers()

    def state_dict(self) -> dict[str, Any]:
        """The seed, and what is believed."""
        return {"seed": self._seed, "belief": self._belief.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._seed = state["seed"]
        self._belief.load_state_dict(state["belief"])


def worth(expected: Expected, k: int = 1) -> float:
    """Of a token, but for a factor that all share.

    >>> from outrider.explore.rate import Rate
    >>> worth(Expected(Rate(1.0, 2.0), price=2.0, noise=0.5))
    0.16666666666666666
    """
    return expected.rate.moment(1, k) / (expected.noise * expected.price) if expected.noise else 0.0
