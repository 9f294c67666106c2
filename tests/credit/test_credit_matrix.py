"""The rules that every component of credit keeps, as one matrix of components and rules.

A new component joins by a line or two in ``CASES`` of ``credit_cases.py``: an example that was worked by hand, and the
laws that it keeps. A component without one fails ``test_every_component_is_in_the_matrix``. A component is tested in a
chain, so that all have the same input and output. The laws are in ``outrider.testing.credit``, and
``test_credit_mutations.py`` breaks components on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
from credit_cases import CASES, STEP, Case

from outrider.credit import (
    BASELINES,
    REWARD_SHAPERS,
    SHAPERS,
    BatchBaseline,
    GroupMean,
    Link,
    RewardShaper,
    Shaper,
)
from outrider.testing.credit import CREDIT_LAWS, CreditClaims, run
from outrider.testing.credit_claims import CLAIMED_LAWS
from outrider.testing.credit_groups import FLAT, FORESTS, GROUPS

COMPONENTS: dict[str, type[Link]] = {**REWARD_SHAPERS, **BASELINES, **SHAPERS}


def its_example_is_as_it_was_worked_by_hand(case: Case) -> None:
    if isinstance(case.component, RewardShaper):
        found = [case.component.rewards(group, STEP) for group in case.on]
    else:
        found = run([case.after, case.component] if isinstance(case.component, Shaper) else [case.component], case.on)
    assert len(case.on) > 1 or not isinstance(case.component, BatchBaseline), "a batch has several groups"
    of_members = list(itertools.chain.from_iterable(found))
    assert len(of_members) == len(case.by_hand)
    for member, (a, by_hand) in enumerate(zip(of_members, case.by_hand, strict=True)):
        np.testing.assert_allclose(a, by_hand, rtol=1e-12, atol=1e-12, err_msg=f"of member {member}")


def keeps(law: Callable[[CreditClaims], None]) -> Callable[[Case], None]:
    return lambda case: law(case.claims)


RULES: dict[str, Callable[[Case], None]] = {
    "example by hand": its_example_is_as_it_was_worked_by_hand,
    **{name: keeps(law) for name, law in (CREDIT_LAWS | CLAIMED_LAWS).items()},
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_rules_that_every_component_keeps(case: Case, rule: Callable[[Case], None]) -> None:
    rule(case)


def test_every_component_is_in_the_matrix() -> None:
    seen = {type(case.component) for case in CASES.values()}
    missing = [name for name, component in COMPONENTS.items() if component not in seen]
    assert not missing, (
        f"{', '.join(missing)}: named in credit/__init__.py, but without a line in CASES of credit_cases.py; "
        "write one, with an example by hand and the laws that it keeps"
    )


def test_an_example_by_hand_is_required() -> None:
    with pytest.raises(TypeError, match="by_hand"):
        Case(GroupMean())  # type: ignore[call-arg]


@pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
def test_every_option_is_set_in_an_example(component: type[Link]) -> None:
    """To something else than its default, and every one of named values: or nobody would see that it does nothing."""
    examples = [case.component for case in CASES.values() if type(case.component) is component]
    for name, field in component.model_fields.items():
        given = [getattr(example, name) for example in examples]
        assert any(value != field.default for value in given), f"no example in credit_cases.py sets {name}"
        named = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        assert set(named) <= set(given if named else ()), f"no example in credit_cases.py has every {name} of {named}"


def test_the_groups_hold_what_the_rules_are_about() -> None:
    assert {group.size for group in GROUPS} >= {1, 2, 9}
    assert any(np.isnan(group.rewards_G).any() for group in GROUPS)
    assert any((group.tokens_G == 0).any() for group in GROUPS)
    assert sum(len(set(group.rewards_G[group.valid_G])) > 1 for group in FLAT) > 6
    assert any((group.parents_G[group.parents_G[group.parents_G >= 0]] >= 0).any() for group in FORESTS)
    assert any(group.parents_G[0] >= 0 for group in FORESTS)
    assert any(group.seeded_G.any() and not group.seeded_G.all() for group in GROUPS)
