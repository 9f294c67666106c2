"""Chains over plain arrays: the same numbers as in a run, wherever the rows stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from outrider.config import load_recipe
from outrider.credit import GroupMean, Link, Members, Novelty, SiblingsMean, TreeValues, advantages_of
from outrider.credit.arrays import advantages_from_arrays, chain_of
from outrider.errors import UserError
from outrider.testing.credit_groups import FLAT, FORESTS

GROUPS = FLAT[:4] + FORESTS[:4]
CHAINS: list[list[Link]] = [
    [GroupMean(std=False)],
    [GroupMean(), Novelty(per_conditioning=True)],
    [TreeValues()],
    [SiblingsMean()],
    chain_of(["reinforce_pp", {"position": {"weight": 0.3}}]),
    chain_of(["group_mean", "entropy_advantage"]),
    chain_of(["greedy"]),
]


def scattered(groups: Sequence[Members], seed: int) -> tuple[dict, list[tuple[int, int]]]:
    """Groups as arrays, rows shuffled, padding and observed tokens anywhere; and which member each row is."""
    rng = np.random.default_rng(seed)
    rows = [(g, i) for g, group in enumerate(groups) for i in range(group.size)]
    rows = [rows[k] for k in rng.permutation(len(rows))]
    width = 9
    mask = np.zeros((len(rows), width), np.int64)
    tokens = {name: np.full(mask.shape, np.nan) for name in ("logprobs", "entropies")}
    parents = np.full(len(rows), -1)
    for row, (g, i) in enumerate(rows):
        group = groups[g]
        own = np.sort(rng.permutation(width)[: group.tokens_G[i]])
        mask[row, own] = 1
        tokens["logprobs"][row, own], tokens["entropies"][row, own] = group.logprobs_GT[i], group.entropies_GT[i]
        if group.parents_G[i] >= 0:
            parents[row] = rows.index((g, group.parents_G[i]))

    def column(name: str) -> np.ndarray:
        return np.array([getattr(groups[g], name)[i] for g, i in rows])

    arrays = {
        "group_ids": [f"group {g}" for g, _ in rows],
        "rewards": column("rewards_G"),
        "mask": mask,
        "success": column("success_G"),
        "parents": parents,
        "starts": column("starts_G"),
        "seeded": column("seeded_G"),
        "greedy": column("greedy_G"),
        **tokens,
    }
    return arrays, rows


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(type(link).__name__ for link in chain))
@pytest.mark.parametrize("seed", range(3))
def test_arrays_have_the_advantages_of_their_groups(chain, seed) -> None:
    arrays, rows = scattered(GROUPS, seed)
    kept = {name: np.array(values, copy=True) for name, values in arrays.items()}
    found = advantages_from_arrays(chain, step=3, **arrays)
    expected = advantages_of(chain, GROUPS, step=3)
    assert found.shape == arrays["mask"].shape
    assert not found[arrays["mask"] == 0].any()
    for row, (g, i) in enumerate(rows):
        np.testing.assert_allclose(found[row, arrays["mask"][row] == 1], expected[g][i], rtol=1e-12, atol=1e-14)
    for name, values in kept.items():
        np.testing.assert_array_equal(arrays[name], values)


def test_a_chain_may_be_written_as_in_a_recipe() -> None:
    assert chain_of(["group_mean", {"novelty": {"cap": 0.25}}]) == [GroupMean(), Novelty(cap=0.25)]
    assert chain_of([{"group_mean": {"std": False}}, Novelty()]) == [GroupMean(std=False), Novelty()]
    xrpo = load_recipe("xrpo")
    assert chain_of(xrpo.credit["main"]) == chain_of(xrpo.resolved()["credit"]["main"]) == xrpo.credit["main"]


def test_tensors_and_integer_keys_will_do() -> None:
    found = advantages_from_arrays(
        [{"group_mean": {"std": False}}], np.array([7, 7, 8]), torch.tensor([1.0, 0.0, 1.0]), torch.ones(3, 2)
    )
    assert found.tolist() == [[0.5, 0.5], [-0.5, -0.5], [0.0, 0.0]]


def test_siblings_of_a_parent_that_is_not_there_are_told_by_their_numbers() -> None:
    """One success among two siblings, none among two others: compared in pairs, not as four."""
    found = advantages_from_arrays(["siblings_mean"], [0] * 4, [1, 0, 0, 0], np.ones((4, 1)), families=[5, 5, 9, 9])
    assert found.ravel().tolist() == [0.5, -0.5, 0.0, 0.0]


def test_the_verdict_is_read_off_rewards_that_leave_no_doubt() -> None:
    """Two successes, one of them unlikely: novelty adds to it whether failures have 0 or -1."""
    mask, logprobs = np.ones((3, 1)), [[-3.0], [-1.0], [-1.0]]
    for rewards in [1, 1, 0], [1, 1, -1]:
        base, shaped = (
            advantages_from_arrays(chain, [0] * 3, rewards, mask, logprobs=logprobs)
            for chain in (["group_mean"], ["group_mean", "novelty"])
        )
        assert (shaped - base).ravel().tolist() == pytest.approx([base[0, 0] / 2, 0, 0])


def refuse(match: str, chain=("group_mean",), group_ids=(0, 0), rewards=(1, 0), mask=((1, 1), (1, 0)), **rest) -> None:
    with pytest.raises(UserError, match=match) as caught:
        advantages_from_arrays(list(chain), list(group_ids), rewards, mask, **rest)
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_together_is_refused_in_a_sentence() -> None:
    refuse(r"rewards has the shape \(3,\), but should have one entry for each of 2 rows", rewards=[1, 0, 1])
    refuse(r"mask has the shape \(2,\), but should have a row of tokens for each of 2 rows", mask=[1, 1])
    refuse("mask holds 2, but should hold only 0 and 1", mask=[[1, 2], [1, 0]])
    refuse("mask cannot be read as an array", mask=[[1, 1], [1]])
    refuse("rewards should hold numbers, but holds <U4", rewards=["good", "bad"])
    for rewards in [1, 0.3], [-1, 0]:
        refuse("success is required, since rewards other than 0 and 1", rewards=rewards)
    refuse("rewards contain an infinite number", rewards=[np.inf, 0])
    refuse("success holds 0.5, but should hold 0 or 1 in each row", success=[0.5, 0])
    refuse(r"logprobs has the shape \(2, 3\), but mask has \(2, 2\)", logprobs=np.zeros((2, 3)))
    refuse("logprobs of row 1 is not finite at a token that the mask trains", logprobs=[[0, 0], [np.nan, 0]])
    refuse("parents of row 1 is 5, which is not a row of its group", parents=[-1, 5])
    refuse("parents of row 1 is 0, which is not a row of its group", group_ids=[0, 1], parents=[-1, 0])
    refuse("starts holds 1.5, but should hold an integer in each row", starts=[0, 1.5])
    refuse("starts holds -2, but should be 0 or more in each row", ["group_mean", "position"], starts=[0, -2])
    refuse("parents holds nan, but should hold an integer in each row", parents=[-1, np.nan])
    refuse(
        "a branch starts at token 3, but its parent's path has only 2", ["tree_values"], parents=[-1, 0], starts=[0, 3]
    )
    refuse("perplexity needs the log-probability of every token", ["group_mean", "perplexity"])
    for window in ({"first_step": 200}, {"steps": 100}):
        refuse("depends on the training step: pass step", ["group_mean", {"position": window}])


def test_what_is_no_chain_is_refused_in_a_sentence() -> None:
    refuse(r"chain.0: 'group_men' is not a credit component \(did you mean 'group_mean'\?\)", ["group_men"])
    refuse("chain.1.novelty.cap: Input should be greater than or equal to 0", ["group_mean", {"novelty": {"cap": -1}}])
    refuse("chain.1.novelty.cup: Extra inputs are not permitted", ["group_mean", {"novelty": {"cup": 1}}])
    refuse("chain: a credit chain must have exactly one baseline, but this one has 0", ["novelty"])
    refuse("chain: Novelty comes too early in its credit chain", ["novelty", "group_mean"])
    with pytest.raises(UserError, match=r"a chain must be a list: write \['group_mean'\]"):
        chain_of("group_mean")


def test_an_empty_batch_has_no_advantages() -> None:
    assert advantages_from_arrays(["group_mean"], [], [], np.zeros((0, 4))).shape == (0, 4)
