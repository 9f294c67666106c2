"""The laws (tested properties) of baselines, advantage shapers and reward shapers. These components are tested in
chains.

A chain is a sequence of components that computes advantages from a step's groups. A baseline is a chain by itself, and
a reward shaper is followed by a simple baseline. An advantage shaper is tested in two chains: its input comes from a
simple baseline, or from a baseline with advantages per token. :mod:`outrider.testing.credit_claims` contains the
optional laws, which hold only for some components.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from outrider.arrays import Floats
from outrider.credit import (
    BatchBaseline,
    GroupMean,
    Link,
    Members,
    RewardShaper,
    Shaper,
    TreeValues,
    advantages_of,
)
from outrider.testing.credit_groups import (
    EMPTY,
    FLAT,
    GROUPS,
    STREAMS,
    described,
    parts,
    picked,
    unscorable,
    without_tokens,
)
from outrider.testing.law import breaks, require, require_equal

STEP = 250  # training step at which all checks call the component
NOTHING = np.zeros(0)


class CreditClaims(NamedTuple):
    """A baseline or shaper, and the properties (optional laws) that its author claims for it.

    Attributes:
        shift: whether advantages stay the same if a constant is added to all rewards.
        scale: the power in A(s r) = s^power A(r) for s > 0, where A maps rewards r to advantages. None means that no
            such law holds, for example because of an epsilon.
        still: whether equal rewards give advantages of exactly 0. Set this claim to False for components that also use
            other inputs, such as lengths.
        compares: whether the component only compares rewards with each other, so that a single rollout gets advantage
            0.
        ordered: for baselines, whether a rollout with a higher reward never has a lower advantage in a group without
            branches.
        dissent: for baselines, whether a group's only success or only failure has the largest absolute advantage.
        alike: for baselines, whether advantages do not depend on response lengths.
    """

    component: Link
    shift: bool = False
    scale: int | None = None
    still: bool = False
    compares: bool = False
    ordered: bool = False
    dissent: bool = False
    alike: bool = False


def chains(component: Link) -> list[list[Link]]:
    """Return the chains in which a component is tested. A chain is a sequence of components that computes
    advantages."""
    if isinstance(component, RewardShaper):
        return [[component, GroupMean(std=False)]]
    if isinstance(component, Shaper):
        return [[GroupMean(std=False), component], [TreeValues(), component]]
    return [[component]]


def run(chain: Sequence[Link], groups: Sequence[Members]) -> list[list[Floats]]:
    """Return the advantages that a chain of components assigns to a step's groups, by group, rollout and token."""
    return advantages_of(chain, groups, STEP)


def alone(chain: Sequence[Link], members: Members) -> list[Floats]:
    """Return the advantages that a chain of components assigns to a group if this group is the only one in its step."""
    return run(chain, [members])[0]


def each(claims: CreditClaims, groups: Sequence[Members] = GROUPS) -> Iterator[tuple[list[Link], Members]]:
    """Yield every combination of a chain of components and a group of rollouts."""
    return itertools.product(chains(claims.component), groups)


def require_close(found: Sequence[Floats], expected: Sequence[Floats], what: str, atol: float = 1e-12) -> None:
    """Require that advantages are nearly equal. For speed, all rollouts are concatenated and compared in one call."""
    require_equal([len(a) for a in found], [len(a) for a in expected], f"{what}: the number of tokens of the members")
    left, right = np.concatenate([NOTHING, *found]), np.concatenate([NOTHING, *expected])
    if not np.allclose(left, right, rtol=1e-9, atol=atol):
        member = next(
            i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not np.allclose(a, b, 1e-9, atol)
        )
        a, b = found[member], expected[member]
        token = int(np.flatnonzero(~np.isclose(a, b, 1e-9, atol))[0])
        require(False, f"{what}: token {token} of member {member} has {a[token]:.6g}, expected {b[token]:.6g}")


def require_zero(found: Sequence[Floats], what: str) -> None:
    """Require that every advantage is exactly 0."""
    for member, a in enumerate(found):
        require(not a.any(), f"{what}: member {member} has {a[a != 0][0] if a.any() else 0:.6g}, expected 0")


# Laws of every component


def runs_on_every_group(claims: CreditClaims) -> None:
    """The component raises no exception, even for groups of one rollout, groups with branches, and invalid rollouts.

    Writing to the read-only inputs is ignored here, since another law forbids it.
    """
    for chain, group in each(claims, [*GROUPS, EMPTY]):
        with breaks(situation=described(group)):
            try:
                alone(chain, group)
            except ValueError as error:
                if "read-only" not in str(error):
                    raise


def is_pure(claims: CreditClaims) -> None:
    """The component has no state, does not write to groups, and returns new arrays instead of views of the group's
    arrays."""
    for chain, stream in itertools.product(chains(claims.component), STREAMS):
        with breaks(situation=f"a step with {described(stream[0])}, and {len(stream) - 1} more"):
            before = [str(parts(group)) for group in stream]
            first = run(chain, stream)
            kept = [[a.tolist() for a in group] for group in first]
            for a in itertools.chain.from_iterable(first):
                np.add(a, 1.0, out=a, casting="unsafe")
            require([str(parts(group)) for group in stream] == before, "the group has changed")
            again = [[a.tolist() for a in group] for group in run(chain, stream)]
            if str(again) != str(kept):  # equal NaN included
                require_equal(again, kept, "the advantages of a second call")


def leaves_what_it_is_given_alone(claims: CreditClaims) -> None:
    """An advantage shaper does not change its input arrays, and returns new arrays."""
    if not isinstance(claims.component, Shaper):
        return
    for group in GROUPS:
        with breaks(situation=described(group)):
            given = alone([TreeValues()], group)
            before = [a.tolist() for a in given]
            shaped = claims.component.shape(given, group, STEP)
            require_equal([a.tolist() for a in given], before, "the advantages that it was given")
            for a in shaped:
                a += 1.0
            found = [a.tolist() for a in given]
            require_equal(found, before, "the advantages that it was given, of which what it returned is a part:")


def gives_one_number_per_token(claims: CreditClaims) -> None:
    """The advantages of a rollout are a float64 array with one finite number per trainable token."""
    for chain, stream in itertools.product(chains(claims.component), STREAMS):
        for group, found in zip(stream, run(chain, stream), strict=True):
            with breaks(situation=described(group)):
                require_equal(
                    [len(a) for a in found], group.tokens_G.tolist(), "the number of advantages of the members"
                )
                for member, a in enumerate(found):
                    require(a.dtype == np.float64, f"member {member} has {a.dtype}, expected float64")
                    require(
                        bool(np.isfinite(a).all()), f"member {member} has {a[~np.isfinite(a)][:1].tolist()}, not finite"
                    )


def ignores_the_order_of_members(claims: CreditClaims) -> None:
    """If a group's rollouts are permuted, the advantages are permuted in the same way."""
    for seed, (chain, group) in enumerate(each(claims)):
        with breaks(situation=described(group)):
            order = np.random.default_rng(seed).permutation(group.size)
            found = alone(chain, group)
            require_close(
                alone(chain, picked(group, order)), [found[i] for i in order], f"members in the order {order}"
            )


def ignores_the_order_of_groups(claims: CreditClaims) -> None:
    """If the order of a step's groups is reversed, each group still gets the same advantages."""
    for chain, stream in itertools.product(chains(claims.component), STREAMS):
        backwards = run(chain, stream[::-1])[::-1]
        for group, found, expected in zip(stream, backwards, run(chain, stream), strict=True):
            with breaks(situation=described(group)):
                require_close(found, expected, "groups in reverse order")


def knows_no_other_group_unless_it_says_so(claims: CreditClaims) -> None:
    """Unless a component is a ``BatchBaseline``, a group's advantages do not depend on other groups."""
    if isinstance(claims.component, BatchBaseline):
        return
    for chain, stream in itertools.product(chains(claims.component), STREAMS):
        for group, found in zip(stream, run(chain, stream), strict=True):
            with breaks(situation=described(group)):
                expected = [a.tolist() for a in alone(chain, group)]
                require_equal([a.tolist() for a in found], expected, "the advantages among other groups")


def gives_nothing_to_members_that_are_not_valid(claims: CreditClaims) -> None:
    """Rollouts with a failed verifier or without a trainable token get advantage 0 and do not affect other rollouts."""
    beside = FLAT[3:4] if isinstance(claims.component, BatchBaseline) else []
    for chain, group in each(claims):
        leaves = [i for i in range(group.size) if i not in group.parents_G]
        for i in leaves[:2]:
            siblings = [j for j in range(group.size) if j != i]
            expected, *others_expected = run(chain, [picked(group, siblings), *beside])
            outsiders = {"is unscorable": unscorable(group, i), "has no tokens": without_tokens(group, i, 100.0)}
            for why, outsider in outsiders.items():
                with breaks(situation=described(outsider)):
                    found, *others_found = run(chain, [outsider, *beside])
                    first = found[i][found[i] != 0][:1]
                    require(not len(first), f"member {i}, which {why}, has the advantage {first.tolist()}, expected 0")
                    require_close([found[j] for j in siblings], expected, f"siblings of member {i}, which {why}")
                    for a, b in zip(others_found, others_expected, strict=True):
                        require_close(a, b, f"another group, beside one where member {i} {why}")


def copes_with_no_scorable_member(claims: CreditClaims) -> None:
    """If all rewards of a group are NaN, all advantages are 0. Empty groups do not affect other groups."""
    for chain in chains(claims.component):
        require_equal(run(chain, []), [], "the advantages of no groups")
        require_equal(run(chain, [EMPTY, EMPTY]), [[], []], "the advantages of two empty groups")
        for group in GROUPS[:5]:
            unscorable = replace(group, rewards_G=np.full(group.size, np.nan))
            with breaks(situation=described(unscorable)):
                require_zero(alone(chain, unscorable), "no member is scorable")
            with breaks(situation=described(group)):
                beside = [a.tolist() for a in run(chain, [EMPTY, group])[1]]
                require_equal(beside, [a.tolist() for a in alone(chain, group)], "the advantages beside an empty group")


CREDIT_LAWS: dict[str, Callable[[CreditClaims], None]] = {
    "runs": runs_on_every_group,
    "input unchanged": leaves_what_it_is_given_alone,
    "pure": is_pure,
    "one number per token": gives_one_number_per_token,
    "order of members": ignores_the_order_of_members,
    "order of groups": ignores_the_order_of_groups,
    "groups apart": knows_no_other_group_unless_it_says_so,
    "members that are not valid": gives_nothing_to_members_that_are_not_valid,
    "unscorable": copes_with_no_scorable_member,
}
"""The laws of every credit component."""
