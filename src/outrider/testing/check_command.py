"""``outrider check``: tests whether a component has the properties (laws) that its kind of component must have, and
prints one line per law."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from outrider.config import load_options
from outrider.credit import Baseline, RewardShaper, Shaper
from outrider.environments.environment import Environment
from outrider.errors import UserError
from outrider.explore import Stage
from outrider.objective.surrogate import Surrogate
from outrider.options import Options
from outrider.plugins import load_component, unknown_name
from outrider.record import Group, Problem
from outrider.testing.checks import LawCheck, credit_checks, loss_checks
from outrider.testing.credit import STEP, CreditClaims, alone, chains
from outrider.testing.credit_claims import CLAIMED_LAWS
from outrider.testing.credit_groups import GROUPS
from outrider.testing.law import LawError
from outrider.testing.losses import LossClaims
from outrider.testing.situations import SITUATIONS
from outrider.testing.stages import Life, StageClaims, stage_checks
from outrider.verify.verifier import Verifier

KINDS: dict[type, tuple[str, str]] = {
    Stage: ("stage", "check_stage"),
    Baseline: ("baseline", "check_baseline"),
    Shaper: ("shaper", "check_shaper"),
    RewardShaper: ("reward shaper", "check_shaper"),
    Surrogate: ("policy loss", "check_loss"),
    Verifier: ("verifier", "check_verifier"),
    Environment: ("environment", "check_environment"),
}
"""For each base class: the name of its kind of component, and the function in :mod:`outrider.testing` to check it."""

NEEDS: dict[type, str] = {
    Verifier: "rows with correct and incorrect responses",
    Environment: "problems with turns of a policy",
}
"""For each base class: inputs that a check needs and that the command line cannot express."""


def check_command(name: str, options: Sequence[str] = ()) -> int:
    """Test a user's component: print ``ok`` and the name of each law (tested property) that holds. Then print a call of
    a function in :mod:`outrider.testing` that makes the same checks, to be copied into a test.

    Some laws are optional, since they hold only for some components. Those that hold for this component are arguments
    of the printed call. How many rollouts a stage may request is not checked, since the command does not know this
    limit. If a loss's gradient is not the derivative of its value, the command assumes that the loss detaches a factor
    on purpose. Verifiers and environments must be checked from Python, since verifiers need example rows, and
    environments need example turns. If the component has no effect on the small inputs of the checks, all laws hold,
    but the last line is a warning.

    Args:
        options: options of the component, such as ``n=4``. Other options keep their defaults.

    Returns:
        The exit code: 0 if all laws hold, and 1 if the component breaks a law. A broken law is printed with the input
        and the result.

    Raises:
        UserError: the component cannot be loaded, the command cannot test this kind of component, or the component
            rejects the options.
    """
    cls = load(name)
    base = next(base for base in KINDS if issubclass(cls, base))
    noun, function = KINDS[base]
    if base in NEEDS:
        article = "an" if noun[0] in "aeiou" else "a"
        raise UserError(
            f"{name!r} is {article} {noun}, whose laws need {NEEDS[base]}: use outrider.testing.{function} in a test "
            "(docs/testing.md)"
        )
    make, claims, idle = partial(made, cls, name, function, options), dict[str, Any](), ""
    component = make()
    sys.stdout.write(f"{cls.__name__}, a {noun}, with {_options(component)}\n")
    try:
        if isinstance(component, Stage):
            stage = cast(Callable[[], Stage], make)
            claims = kept_stage_claims(stage)
            _told(stage_checks(StageClaims(stage, **claims)))
            idle = idle_stage(StageClaims(stage, **claims))
        elif isinstance(component, Surrogate):
            smooth = _keeps(loss_checks(LossClaims(component)), "finite differences")
            claims = {} if smooth else {"stops_gradient": True}
            _told(loss_checks(LossClaims(component, **claims)), ["finite differences"] if claims else [])
        else:
            assert isinstance(component, Baseline | Shaper | RewardShaper)
            claims = kept_claims(component)
            _told(credit_checks(CreditClaims(component)), CLAIMED_LAWS)
            idle = idle_credit(component)
    except LawError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    words = "".join(f", {claim}={value}" for claim, value in claims.items())
    given = f"lambda: {_call(component)}" if component.model_fields_set else cls.__name__
    sys.stdout.write(f"for a test: outrider.testing.{function}({given}{words})\n")
    if idle:
        sys.stdout.write(f"warning: {idle}{_advice(cls)}\n")
    return 0


def load(name: str) -> type[Options]:
    """Return the class of a component, given its import path or its name in an installed package's entry points.

    Raises:
        UserError: the class cannot be loaded, or Outrider has no tests for this kind of component.
    """
    if sentence := unknown_name(name, "my_methods.py:Retry"):
        raise UserError(sentence)
    known = Stage | Baseline | Shaper | RewardShaper | Surrogate | Verifier | Environment
    return load_component(name, known, "a component")


def made(cls: type[Options], name: str, function: str, options: Sequence[str]) -> Options:
    """Create an instance of the component ``cls`` with these options.

    Raises:
        UserError: a required option is missing, or the class rejects the options.
    """
    given = [option.partition("=")[0].partition(".")[0] for option in options]
    required = [key for key, option in cls.model_fields.items() if option.is_required() and key not in given]
    if required:
        raise UserError(
            f"{name!r} has no default for {', '.join(map(repr, required))}: add "
            f"{' '.join(f'{key}=…' for key in required)}, or call outrider.testing.{function} in a test"
        )
    return load_options(cls, {}, options, name)


def idle_stage(claims: StageClaims) -> str:
    """Return a warning if the exploration stage neither requested nor dropped a rollout in any test run, and an empty
    string otherwise."""
    theirs = _reasons_before()
    for around in SITUATIONS.values():
        life = Life(claims, around)
        reasons = {r.unused for groups in life.groups for group in groups for r in group.rollouts if r.unused}
        if any(life.run.plans) or reasons - theirs:
            return ""
    return f"it requested no rollout and dropped none in {len(SITUATIONS)} situations, so its rules were not checked"


def _reasons_before() -> set[str]:
    """In test runs, another stage runs before the tested stage. Return all reasons for which this other stage drops
    rollouts."""
    groups = [Group(Problem(str(i), ""), str(i)) for i in range(64)]
    return {reason for around in SITUATIONS.values() for reason in around.before().drop(groups).values()}


def idle_credit(component: Baseline | Shaper | RewardShaper) -> str:
    """Return a warning if a shaper changed no advantage in any group, and an empty string otherwise. Baselines get no
    warning."""
    for chain in [] if isinstance(component, Baseline) else chains(component):
        without = [link for link in chain if link is not component]
        for group in GROUPS:
            both = zip(alone(chain, group), alone(without, group), strict=True)
            if not all(np.array_equal(a_T, b_T) for a_T, b_T in both):
                return ""
    if isinstance(component, Baseline):
        return ""
    most = max(int(tokens) for group in GROUPS for tokens in group.tokens_G)
    groups = f"{len(GROUPS)} groups (step {STEP}, up to {most} tokens a response)"
    return f"it changed no advantage of {groups}, so its effect was not checked"


def _advice(cls: type[Options]) -> str:
    """Return advice on how to pass an option, or an empty string if the component has no options.

    >>> from outrider.explore import Uniform
    >>> _advice(Uniform)
    '; choose options with which it acts, as in n=…'
    """
    option = next(iter(cls.model_fields), "")
    return f"; choose options with which it acts, as in {option}=…" if option else ""


def _call(component: Options) -> str:
    """Return Python code that creates the component.

    >>> from outrider.explore import Uniform
    >>> _call(Uniform(n=4))
    'Uniform(n=4)'
    """
    plain = component.model_dump(mode="json", include=component.model_fields_set)
    return f"{type(component).__name__}({', '.join(f'{key}={value!r}' for key, value in plain.items())})"


def kept_stage_claims(make: Callable[[], Stage]) -> dict[str, Any]:
    """Return the keyword arguments with which ``check_stage`` must be called for this stage.

    ``first`` is needed if the stage requests rollouts when it is the only stage, but none when it follows another
    stage. ``single`` is needed if one of the checks of dropped rollouts fails without it.

    >>> from outrider.explore import Refill, Uniform
    >>> kept_stage_claims(Uniform), kept_stage_claims(Refill)
    ({'first': True}, {})
    """
    around, claims = SITUATIONS["ragged groups"], dict[str, Any]()
    try:
        behind, alone = (Life(StageClaims(make, first=first), around) for first in (False, True))
    except Exception:  # noqa: BLE001 - the laws report the error better
        return {}
    if not any(behind.run.plans) and any(alone.run.plans):
        claims["first"] = True
    if type(make()).drop is not Stage.drop and not _keeps(
        stage_checks(StageClaims(make, **claims)), "requests", "reasons"
    ):
        claims["single"] = True
    return claims


def kept_claims(component: Baseline | Shaper | RewardShaper) -> dict[str, Any]:
    """Return the optional laws (properties that only some components have) that hold for a baseline or shaper. The
    result contains keyword arguments of ``check_baseline`` or ``check_shaper``.

    >>> from outrider.credit import LeaveOneOut, NoBaseline
    >>> kept_claims(NoBaseline())
    {'scale': 1, 'ordered': True, 'alike': True}
    """
    possible: list[dict[str, Any]] = [{"shift": True}, {"scale": 0}, {"scale": 1}, {"still": True}, {"compares": True}]
    if isinstance(component, Baseline):
        possible += [{"ordered": True}, {"dissent": True}, {"alike": True}]
    found: dict[str, Any] = {}
    for claim in possible:
        if _keeps(credit_checks(CreditClaims(component, **claim)), *CLAIMED_LAWS):
            found |= claim
    return found


def _keeps(checks: Iterable[LawCheck], *laws: str) -> bool:
    """Return whether the component passes the checks of the named laws (tested properties)."""
    try:
        for law, check in checks:
            if law in laws:
                check()
    except LawError:
        return False
    return True


def _told(checks: Iterable[LawCheck], silent: Iterable[str] = ()) -> None:
    """Check each law (tested property), and print its name if the component passes. Names in ``silent`` are not
    printed."""
    for law, check in checks:
        check()
        if law not in silent:
            sys.stdout.write(f"ok  {law}\n")


def _options(component: Options) -> str:
    values = ", ".join(f"{key}={value!r}" for key, value in component)
    return values or "no options"
