"""Functions that test whether a component has all properties (laws) that its kind must have. There is one function per
kind of component."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from outrider.credit import Baseline, Link, RewardShaper, Shaper
from outrider.environments.environments import Make
from outrider.explore import Stage
from outrider.objective.surrogate import Surrogate
from outrider.testing.credit import CREDIT_LAWS, CreditClaims
from outrider.testing.credit_claims import CLAIMED_LAWS
from outrider.testing.environments import EnvironmentExample, environment_checks
from outrider.testing.law import breaks
from outrider.testing.losses import LOSS_LAWS, LossClaims
from outrider.testing.stages import StageClaims, stage_checks
from outrider.testing.verifiers import VerifierExample, verifier_checks
from outrider.verify.verifier import Verifier

LawCheck = tuple[str, Callable[[], None]]
"""A law's name, and a function that raises :class:`outrider.testing.LawError` if the component breaks the law."""

T = TypeVar("T")


def check_stage(
    make: Callable[[], Stage],
    budget: Callable[[Sequence[int]], int] | None = None,
    first: bool = False,
    exact: bool = False,
    single: bool = False,
) -> None:
    """Check that an exploration stage has the required properties (laws), such as: resuming a run changes nothing. The
    checks use simulated runs of six steps with repeated problems.

    :data:`outrider.testing.stages.STAGE_LAWS` contains the laws. :data:`outrider.testing.situations.SITUATIONS`
    contains the settings of the simulated runs. A stage that never requests a rollout passes, but is not really tested.

    Args:
        make: function that creates a new stage with the same options on every call, or the stage's class if all its
            options have defaults.
        budget: function that returns the maximum number of rollouts that the stage requests in a step. Its argument is
            the sizes that the step's groups have before these requests. If None, no limit is checked.
        first: whether the stage requests the first rollouts of problems, as the stage ``uniform`` does. Other stages
            extend existing groups.
        exact: whether the stage requests exactly ``budget`` rollouts, instead of at most ``budget``.
        single: whether the stage drops individual rollouts of a group, possibly for different reasons.

    >>> from outrider.explore import Uniform
    >>> check_stage(lambda: Uniform(n=2), budget=lambda sizes: 2 * len(sizes), first=True, exact=True)
    """
    _run(stage_checks(StageClaims(make, budget, first, exact, single)))


def check_baseline(make: Baseline | Callable[[], Baseline], **claims: Any) -> None:
    """Check that a baseline has the required properties (laws), such as: the order of rollouts does not matter. It is
    tested on random groups with fixed seeds; in some groups, rollouts branch off other rollouts.

    Args:
        make: the baseline, or a function that creates it.
        claims: optional laws that hold for the baseline. :class:`outrider.testing.credit.CreditClaims` explains
            ``shift``, ``scale``, ``still``, ``compares``, ``ordered``, ``dissent`` and ``alike``.

    Raises:
        LawError: a law is broken; the error message names the law, the group and the wrong result.
        TypeError: the component is not a baseline.

    >>> from outrider.credit import LeaveOneOut
    >>> check_baseline(LeaveOneOut(), shift=True, scale=1)
    """
    _run(credit_checks(CreditClaims(_made(make, Baseline), **claims)))


def check_shaper(make: Shaper | RewardShaper | Callable[[], Shaper | RewardShaper], **claims: Any) -> None:
    """Check that a shaper of advantages or rewards has the required properties (laws), such as: the order of rollouts
    does not matter. The shaper is tested together with a simple baseline.

    Args:
        make: the shaper, or a function that creates it.
        claims: optional laws that hold for the baseline and the shaper together: ``shift``, ``scale``, ``still`` and
            ``compares``, as for :func:`check_baseline`.

    Raises:
        LawError: a law is broken; the error message names the law, the group and the wrong result.
        TypeError: the component is not a shaper.

    >>> from outrider.credit import Focal
    >>> check_shaper(Focal(gamma=2.0), shift=True, scale=1, still=True)
    """
    shaper: Any = _made(make, Shaper, RewardShaper)
    _run(credit_checks(CreditClaims(shaper, **claims)))


def check_loss(make: Surrogate | Callable[[], Surrogate], stops_gradient: bool = False) -> None:
    """Check that a policy loss has the required properties (laws), such as: if every ratio is 1, the gradient is the
    policy gradient. The laws cover gains (negative losses per token), diagnostics and gradients, on small batches in
    float64.

    Args:
        make: the surrogate, or a function that creates it.
        stops_gradient: whether the loss detaches a factor on purpose, as CISPO detaches its importance weight. If
            False, the gradient must match central differences of the loss with respect to the log-probabilities.

    Raises:
        LawError: a law is broken; the error message names the law, the batch and the wrong result.
        TypeError: the component is not a surrogate.

    >>> from outrider.objective import Clip
    >>> check_loss(Clip(low=0.2, high=0.28))
    """
    _run(loss_checks(LossClaims(_made(make, Surrogate), stops_gradient)))


def check_verifier(
    verifier: Verifier | Callable[[], Verifier],
    rows: Sequence[VerifierExample],
    answer: str = "answer",
    prompt: str = "problem",
) -> None:
    """Check that a verifier has the required properties (laws), such as: verdicts are reproducible. Also check that it
    accepts or rejects example responses as it should.

    The verifier runs in this process, not in a verifier process, so no time limit applies.

    Args:
        verifier: the verifier, or a function that creates it.
        rows: examples, each with the data of a problem (such as ``{"answer": 12}``), correct responses, and incorrect
            responses.
        answer: name of the field with the gold answer.
        prompt: name of the field with the question. Rows may lack this field.

    Raises:
        LawError: a law is broken; the error message names the law, the row and the wrong result.
        TypeError: the component is not a verifier.
        ValueError: ``rows`` is empty.

    >>> from outrider.verify.short_answer import Number
    >>> check_verifier(Number(), [({"answer": 12}, ["It is 12."], ["It is 13."])])
    """
    if not rows:
        raise ValueError("a verifier needs at least one row: its fields, correct responses and incorrect responses")
    _run(verifier_checks(_made(verifier, Verifier), rows, answer, prompt))


def check_environment(make: Make, examples: Sequence[EnvironmentExample], seconds: float = 10.0) -> None:
    """Check that an environment has the required properties (laws), such as: equal turns get equal replies. The checks
    use problems with example turns of a policy.

    The laws are :data:`outrider.testing.environments.ENVIRONMENT_LAWS`. Some checks run the environment in separate
    processes, as training does. Therefore, the class must be in an importable module.

    Args:
        make: the class, or a picklable function that creates an environment.
        examples: pairs of a problem and a policy's turns. Turns after the end of the episode are not used.
        seconds: time limit per turn, like ``limits.seconds`` of a task.

    Raises:
        LawError: a law is broken; the error message names the law, the example and the wrong result.
        TypeError: the component is not an environment.
        ValueError: ``examples`` is empty, or an example has no turns.

    >>> from outrider.tasks import Hops
    >>> task = Hops()
    >>> examples = [(problem, task.demonstration(problem)) for problem in task.heldout(2)]
    >>> check_environment(task.makes(), examples)
    """
    if not examples or not all(turns for _, turns in examples):
        raise ValueError("an environment needs at least one example: a problem, and turns")
    _run(environment_checks(make, examples, seconds))


def credit_checks(claims: CreditClaims) -> Iterator[LawCheck]:
    """Yield the name of each law (tested property) of baselines and shapers, with a function that checks it. For an
    optional law that ``claims`` does not include, the function checks nothing."""
    for law, rule in (CREDIT_LAWS | CLAIMED_LAWS).items():
        yield law, partial(_check, law, rule, claims, type(claims.component).__name__)


def loss_checks(claims: LossClaims) -> Iterator[LawCheck]:
    """Yield the name of each law (tested property) of a policy loss, with a function that checks this law."""
    for law, rule in LOSS_LAWS.items():
        yield law, partial(_check, law, rule, claims, type(claims.surrogate).__name__)


def _check(law: str, rule: Callable[[Any], None], claims: CreditClaims | LossClaims, component: str) -> None:
    with breaks(law, component=component):
        rule(claims)


def _run(checks: Iterable[LawCheck]) -> None:
    for _, check in checks:
        check()


def _made(make: T | Callable[[], T], *kinds: type[Any]) -> T:
    """Return the component. If ``make`` is a function or a class, it is called to create the component."""
    made: Any = make if isinstance(make, Link | Surrogate | Verifier) else make()  # type: ignore[operator]
    if not isinstance(made, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{type(made).__name__} is not a {wanted}")
    found: T = made
    return found
