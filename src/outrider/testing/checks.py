"""One function for each kind of component, which holds the component to all of its laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from outrider.explore import Stage
from outrider.testing.stages import StageClaims, stage_checks


def check_stage(
    make: Callable[[], Stage],
    budget: Callable[[Sequence[int]], int] | None = None,
    first: bool = False,
    exact: bool = False,
    single: bool = False,
) -> None:
    """Hold a stage to its laws, in scripted runs of six steps over problems that come back.

    The laws are :data:`outrider.testing.stages.STAGE_LAWS`, the situations
    :data:`outrider.testing.situations.SITUATIONS`.

    Args:
        make: makes a fresh stage, each time the same one: a lambda, or a class with defaults.
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


def _run(checks: Iterable[tuple[str, Callable[[], None]]]) -> None:
    for _, check in checks:
        check()
