"""``outrider check``: hold a component with its default options to the laws, one line a law."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, cast

from pydantic import ValidationError

from outrider.credit import Baseline, RewardShaper, Shaper
from outrider.environments.environment import Environment
from outrider.errors import UserError
from outrider.explore import Stage
from outrider.objective.surrogate import Surrogate
from outrider.options import Options
from outrider.plugins import load_component, unknown_name
from outrider.testing.checks import LawCheck, credit_checks, loss_checks
from outrider.testing.credit import CreditClaims
from outrider.testing.credit_claims import CLAIMED_LAWS
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
"""What a class is by its base: its name in sentences, and its function in :mod:`outrider.testing`."""

NEEDS: dict[type, str] = {
    Verifier: "rows with right and wrong responses",
    Environment: "problems with turns of a policy",
}
"""What the laws of a class need that a command does not have, by its base."""


def check_command(name: str) -> int:
    """Print ``ok`` and the name of each law that the component keeps, and a call for a test, with claims that hold.

    The budget of a stage is not known here. A loss whose gradient is not that of its value counts as one that detaches
    a factor. A verifier needs rows and an environment turns, so both are checked from Python alone.

    Returns:
        0; 1 where a law is broken, after the sentence that says which, where and how.

    Raises:
        UserError: the component cannot be loaded, is of no kind that has laws, or has an option without a default.
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
    component, claims = made(cls, name, function), dict[str, Any]()
    sys.stdout.write(f"{cls.__name__}, a {noun}, with {_options(component)}\n")
    try:
        if isinstance(component, Stage):
            make = cast(type[Stage], cls)
            claims = kept_stage_claims(make)
            _told(stage_checks(StageClaims(make, **claims)))
        elif isinstance(component, Surrogate):
            smooth = _keeps(loss_checks(LossClaims(component)), "finite differences")
            claims = {} if smooth else {"stops_gradient": True}
            _told(loss_checks(LossClaims(component, **claims)), ["finite differences"] if claims else [])
        else:
            assert isinstance(component, Baseline | Shaper | RewardShaper)
            claims = kept_claims(component)
            _told(credit_checks(CreditClaims(component)), CLAIMED_LAWS)
    except LawError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    words = "".join(f", {claim}={value}" for claim, value in claims.items())
    sys.stdout.write(f"for a test: outrider.testing.{function}({cls.__name__}{words})\n")
    return 0


def load(name: str) -> type[Options]:
    """The class by its import path, or by the name under which an installed package offers it.

    Raises:
        UserError: it cannot be loaded, or is of no kind that has laws.
    """
    if sentence := unknown_name(name, "my_methods.py:Retry"):
        raise UserError(sentence)
    known = Stage | Baseline | Shaper | RewardShaper | Surrogate | Verifier | Environment
    return load_component(name, known, "a component")


def made(cls: type[Options], name: str, function: str) -> Options:
    """An instance with default options.

    Raises:
        UserError: an option has no default, or the defaults are refused.
    """
    required = [key for key, option in cls.model_fields.items() if option.is_required()]
    if required:
        call = f"outrider.testing.{function}(lambda: {cls.__name__}({', '.join(f'{key}=…' for key in required)}))"
        raise UserError(f"{name!r} has no default for {', '.join(map(repr, required))}: use {call} in a test")
    try:
        return cls()
    except ValidationError as error:
        raise UserError(f"{name!r} refuses its default options: {error.errors()[0]['msg']}") from None


def kept_stage_claims(make: type[Stage]) -> dict[str, Any]:
    """What a stage needs to claim, as arguments of its check: ``first`` where it asks for nothing behind another stage,
    but does as the first of a recipe; ``single`` where only then its reasons keep their law.

    >>> from outrider.explore import Refill, Uniform
    >>> kept_stage_claims(Uniform), kept_stage_claims(Refill)
    ({'first': True}, {})
    """
    around, claims = SITUATIONS["ragged groups"], dict[str, Any]()
    try:
        behind, alone = (Life(StageClaims(make, first=first), around) for first in (False, True))
    except Exception:  # noqa: BLE001 - the laws will say it better
        return {}
    if not any(behind.run.plans) and any(alone.run.plans):
        claims["first"] = True
    if make.drop is not Stage.drop and not _keeps(stage_checks(StageClaims(make, **claims)), "requests", "reasons"):
        claims["single"] = True
    return claims


def kept_claims(component: Baseline | Shaper | RewardShaper) -> dict[str, Any]:
    """The laws that a component of credit keeps besides those that all keep, as arguments of its check.

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
    """Whether these laws hold, of all that are checked."""
    try:
        for law, check in checks:
            if law in laws:
                check()
    except LawError:
        return False
    return True


def _told(checks: Iterable[LawCheck], silent: Iterable[str] = ()) -> None:
    """Check each law, and say that it holds; a law that is not claimed holds in silence."""
    for law, check in checks:
        check()
        if law not in silent:
            sys.stdout.write(f"ok  {law}\n")


def _options(component: Options) -> str:
    values = ", ".join(f"{key}={value!r}" for key, value in component)
    return values or "no options"
