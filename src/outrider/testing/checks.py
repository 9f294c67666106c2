"""One function for each kind of component, which holds the component to all of its laws."""

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
"""The name of a law, and what raises :class:`outrider.testing.LawError` where the law is broken."""

T = TypeVar("T")


def check_stage(
    make: Callable[[], Stage],
    budget: Callable[[Sequence[int]], int] | None = None,
    first: bool = False,
    exact: bool = False,
    single: bool = False,
) -> None:
    """Hold a stage to its laws, in scripted runs of six steps over problems that come back.

    The laws are :data:`outrider.testing.stages.STAGE_LAWS`, the situations
    :data:`outrider.testing.situations.SITUATIONS`. A stage that asks for nothing keeps them.

    Args:
        make: makes a new stage, each time the same one: a lambda, or a class with defaults.
        budget: from the sizes of the groups that the stage finds, the most rollouts that it asks for in a step. None:
            no limit is checked.
        first: it samples problems that have no rollouts, as ``uniform`` does. Any other stage finds groups.
        exact: it asks for exactly ``budget``.
        single: it leaves out single rollouts, for reasons of their own.

    Raises:
        LawError: a law is broken, with its name, the situation and what was found.

    >>> from outrider.explore import Uniform
    >>> check_stage(lambda: Uniform(n=2), budget=lambda sizes: 2 * len(sizes), first=True, exact=True)
    """
    _run(stage_checks(StageClaims(make, budget, first, exact, single)))


def check_baseline(make: Baseline | Callable[[], Baseline], **claims: Any) -> None:
    """Hold a baseline to the laws of credit, on ragged groups and forests that are drawn from seeds.

    Args:
        make: the baseline, or what makes one.
        claims: laws that the baseline keeps besides those that all keep: ``shift``, ``scale``, ``still``, ``compares``,
            ``ordered``, ``dissent``, ``alike``, as in :class:`outrider.testing.credit.CreditClaims`.

    Raises:
        LawError: a law is broken, with its name, the group and what was found.
        TypeError: the component is no baseline.

    >>> from outrider.credit import LeaveOneOut
    >>> check_baseline(LeaveOneOut(), shift=True, scale=1)
    """
    _run(credit_checks(CreditClaims(_made(make, Baseline), **claims)))


def check_shaper(make: Shaper | RewardShaper | Callable[[], Shaper | RewardShaper], **claims: Any) -> None:
    """Hold a shaper of advantages or of rewards to the laws of credit, behind or before a plain baseline.

    Args:
        make: the shaper, or what makes one.
        claims: ``shift``, ``scale``, ``still`` and ``compares``, as for :func:`check_baseline`; they are laws of the
            whole chain.

    Raises:
        LawError: a law is broken, with its name, the group and what was found.
        TypeError: the component is no shaper.

    >>> from outrider.credit import Focal
    >>> check_shaper(Focal(gamma=2.0), shift=True, scale=1, still=True)
    """
    shaper: Any = _made(make, Shaper, RewardShaper)
    _run(credit_checks(CreditClaims(shaper, **claims)))


def check_loss(make: Surrogate | Callable[[], Surrogate], stops_gradient: bool = False) -> None:
    """Hold a policy loss to its laws: gains, marks and gradients of small batches in float64.

    Args:
        make: the surrogate, or what makes one.
        stops_gradient: a factor of the gain is detached on purpose, as the weight of CISPO is. Without, the gradient
            has to be that of central differences.

    Raises:
        LawError: a law is broken, with its name, the batch and what was found.
        TypeError: the component is no surrogate.

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
    """Hold a verifier to its laws, on rows of a table with responses that are right and wrong.

    The verdicts are made in this process, without the limits of a pool.

    Args:
        verifier: the verifier, or what makes one.
        rows: of each row its fields, right responses and wrong responses.
        answer: the name of the field with the gold answer.
        prompt: the name of the field with the question; a row may lack it.

    Raises:
        LawError: a law is broken, with its name, the row and what was found.
        TypeError: the component is no verifier.
        ValueError: there are no rows.

    >>> from outrider.verify.short_answer import Number
    >>> check_verifier(Number(), [({"answer": 12}, ["It is 12."], ["It is 13."])])
    """
    if not rows:
        raise ValueError("a verifier needs at least one row: its fields, right responses and wrong responses")
    _run(verifier_checks(_made(verifier, Verifier), rows, answer, prompt))


def check_environment(make: Make, examples: Sequence[EnvironmentExample], seconds: float = 10.0) -> None:
    """Hold an environment to its laws, on problems with turns that a policy could take.

    The laws are :data:`outrider.testing.environments.ENVIRONMENT_LAWS`. Most plays are made in processes of their own,
    as in a run, so the class has to be in a module that can be imported.

    Args:
        make: the class, or what makes one and can be pickled.
        examples: of each a problem, and turns; those behind the last reply are not played.
        seconds: limit of a turn, as ``limits.seconds`` of a task.

    Raises:
        LawError: a law is broken, with its name, the example and what was found.
        TypeError: the component is no environment.
        ValueError: there are no examples, or one has no turns.

    >>> from outrider.tasks import Hops
    >>> task = Hops()
    >>> examples = [(problem, task.demonstration(problem)) for problem in task.heldout(2)]
    >>> check_environment(task.makes(), examples)
    """
    if not examples or not all(turns for _, turns in examples):
        raise ValueError("an environment needs at least one example: a problem, and turns")
    _run(environment_checks(make, examples, seconds))


def credit_checks(claims: CreditClaims) -> Iterator[LawCheck]:
    """Each law of credit by its name, with a function that checks it; laws that are not claimed hold."""
    for law, rule in (CREDIT_LAWS | CLAIMED_LAWS).items():
        yield law, partial(_check, law, rule, claims, type(claims.component).__name__)


def loss_checks(claims: LossClaims) -> Iterator[LawCheck]:
    """Each law of a policy loss by its name, with a function that checks it."""
    for law, rule in LOSS_LAWS.items():
        yield law, partial(_check, law, rule, claims, type(claims.surrogate).__name__)


def _check(law: str, rule: Callable[[Any], None], claims: CreditClaims | LossClaims, component: str) -> None:
    with breaks(law, component=component):
        rule(claims)


def _run(checks: Iterable[LawCheck]) -> None:
    for _, check in checks:
        check()


def _made(make: T | Callable[[], T], *kinds: type[Any]) -> T:
    """The component, made where a function or a class is given."""
    made: Any = make if isinstance(make, Link | Surrogate | Verifier) else make()  # type: ignore[operator]
    if not isinstance(made, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{type(made).__name__} is not a {wanted}")
    found: T = made
    return found
