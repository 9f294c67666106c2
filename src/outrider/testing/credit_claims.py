"""Properties that only some baselines and shapers have (optional laws). They are tested only on request, by keyword
arguments such as ``shift=True``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from outrider.credit import Baseline
from outrider.testing.credit import CreditClaims, alone, each, require_close, require_zero, run
from outrider.testing.credit_groups import EMPTY, FLAT, FORESTS, ULP, described, picked, plain
from outrider.testing.law import breaks, require, require_equal


def compares_with_others(claims: CreditClaims) -> None:
    """A group's only valid rollout gets advantage 0, even if the group also has invalid rollouts. Checked only with
    ``compares=True``."""
    if not claims.compares:
        return
    for chain, group in each(claims):
        with breaks(situation=described(group)):
            for i in range(group.size):
                require_zero(alone(chain, picked(group, [i])), f"member {i} without the others")
            first = np.arange(group.size) == 0
            lonely = replace(group, rewards_G=np.where(first, group.rewards_G, np.nan))
            require_zero(alone(chain, lonely), "the first member alone is scorable")


def is_still_where_rewards_are_equal(claims: CreditClaims) -> None:
    """Equal rewards of any value give advantages of exactly 0. Checked only with ``still=True``."""
    if not claims.still:
        return
    values = [0.0, 1.0, -1.0, 0.1, 1 / 3, float(np.float32(0.35)), 0.35, 1e6 + 0.1]  # some means are rounded
    kinds: list[type] = [np.float64] * len(values) + [np.float32] * 2
    for (chain, group), (value, kind) in itertools.product(
        each(claims, FLAT[:4] + FORESTS[:4]), zip(values + values[-2:], kinds, strict=True)
    ):
        equal: Any = np.where(np.isnan(group.rewards_G), np.nan, value).astype(kind)
        same = replace(group, rewards_G=equal, success_G=np.isfinite(equal) & (value > 0.5))
        with breaks(situation=described(same)):
            for found in run(chain, [same, EMPTY, same]):
                require_zero(found, f"rewards of {value:g} as {kind.__name__}")


def ignores_a_shift(claims: CreditClaims) -> None:
    """Advantages stay the same if a constant is added to all rewards. Checked only with ``shift=True``."""
    if not claims.shift:
        return
    for chain, group in each(claims):
        with breaks(situation=described(group)):
            for constant in (0.25, 2.0**20):  # the sums of these constants and the rewards are exact
                shifted = replace(group, rewards_G=group.rewards_G + constant)
                require_close(alone(chain, shifted), alone(chain, group), f"{constant:g} added to all rewards", 1e-9)


def follows_a_factor(claims: CreditClaims) -> None:
    """If all rewards are multiplied by s, all advantages are multiplied by s^scale. Checked only if ``scale`` is
    set."""
    if claims.scale is None:
        return
    for chain, group in each(claims):
        with breaks(situation=described(group)):
            for s in (0.25, 2.0**10):  # the products of these factors and the rewards are exact
                found = alone(chain, replace(group, rewards_G=group.rewards_G * s))
                expected = [a * s**claims.scale for a in alone(chain, group)]
                require_close(found, expected, f"all rewards times {s:g}", 1e-12 * max(s, 1.0))


def leaves_no_residue_of_an_offset(claims: CreditClaims) -> None:
    """If float32 rewards have a large offset, rounding errors of one or two ulps do not cause large advantages.

    Checked only for baselines with ``compares=True``.
    """
    if not (isinstance(claims.component, Baseline) and claims.compares):
        return
    for group in FLAT:
        noisy = replace(group, rewards_G=(1e4 + 1e-3 * group.rewards_G).astype(np.float32).astype(np.float64))
        with breaks(situation=described(noisy)):
            for member, a in enumerate(alone([claims.component], noisy)):
                most = np.abs(a).max(initial=0.0)
                require(most <= 2 * group.size, f"member {member} has {most:.6g}, expected at most {2 * group.size}")


def keeps_the_order_of_rewards(claims: CreditClaims) -> None:
    """A rollout with a higher reward never gets a lower advantage. Checked only for baselines with ``ordered=True``."""
    if not (isinstance(claims.component, Baseline) and claims.ordered):
        return
    for group in FLAT:
        with breaks(situation=described(group)):
            per_member = [a[0] if len(a) else 0.0 for a in alone([claims.component], group)]
            found = np.array(per_member)[group.valid_G]
            order = np.argsort(group.rewards_G[group.valid_G], kind="stable")
            falls = (np.diff(found[order]) < -1e-12).any()
            require(not falls, f"advantages in the order of rewards are {found[order].round(6).tolist()}")


def gives_a_lone_dissenter_most(claims: CreditClaims) -> None:
    """A group's only success or only failure has the largest absolute advantage.

    Checked only for baselines with ``dissent=True``.
    """
    if not (isinstance(claims.component, Baseline) and claims.dissent):
        return
    for rewards in [1, 0, 0, 0], [1, 1, 1, 0]:
        with breaks(situation=described(plain(rewards))):
            found = np.concatenate([a[:1] for a in alone([claims.component], plain(rewards))])
            dissenter = 0 if sum(rewards) == 1 else 3
            require_equal(int(abs(found).argmax()), dissenter, "the member with the largest advantage")
            require_equal(np.sign(found).tolist(), [1 if r else -1 for r in rewards], "the signs of the advantages")


def takes_small_differences_as_signal(claims: CreditClaims) -> None:
    """If rewards differ by 1e-5 or by one ulp, a higher reward gives a higher advantage. All absolute advantages are
    smaller than the size of the group.

    Checked only for baselines with ``ordered=True``.
    """
    if not (isinstance(claims.component, Baseline) and claims.ordered):
        return
    for rewards in [1.00000, 1.00001, 2.00000, 2.00001], [1.00000, 1.00001], [0.35] * 7 + [0.36], ULP:
        with breaks(situation=f"rewards {', '.join(map(repr, rewards))}"):
            found = np.concatenate([a[:1] for a in alone([claims.component], plain(rewards))])
            told = f"the advantages are {found.tolist()}"
            require(bool(np.isfinite(found).all()), told)
            require(bool((np.diff(found)[np.diff(rewards) > 0] > 0).all()), f"{told}, which do not rise")
            require(np.abs(found).max() < len(rewards), f"{told}, larger than the group")


def gives_all_tokens_of_a_member_the_same(claims: CreditClaims) -> None:
    """All tokens of a rollout have the same advantage, whatever the lengths of the responses. Checked only for
    baselines with ``alike=True``."""
    if not isinstance(claims.component, Baseline) or not claims.alike:
        return
    for group in FLAT:
        longer = replace(group, tokens_G=group.tokens_G * np.arange(1, group.size + 1))
        with breaks(situation=described(longer)):
            per_member = [a[0] if len(a) else 0.0 for a in alone([claims.component], group)]
            expected = [np.full(n, a) for n, a in zip(longer.tokens_G, per_member, strict=True)]
            require_close(alone([claims.component], longer), expected, "members of other lengths", 0.0)


CLAIMED_LAWS: dict[str, Callable[[CreditClaims], None]] = {
    "compares": compares_with_others,
    "still": is_still_where_rewards_are_equal,
    "shift": ignores_a_shift,
    "scale": follows_a_factor,
    "offset": leaves_no_residue_of_an_offset,
    "ordered": keeps_the_order_of_rewards,
    "dissent": gives_a_lone_dissenter_most,
    "small differences": takes_small_differences_as_signal,
    "alike": gives_all_tokens_of_a_member_the_same,
}
"""The optional laws of a credit component. The key is the claim that adds the law, or the law's name if the claim adds
another law as well."""
