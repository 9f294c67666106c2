"""ReMax: one greedy rollout per problem, and credit against it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandit import BINARY, GRADED, RARE
from outrider.config import load_recipe
from outrider.credit import Members
from outrider.credit.assign import assign
from outrider.credit.greedy import GreedyBaseline
from outrider.errors import UserError
from outrider.explore import Stage, Uniform, View
from outrider.explore.greedy import Greedy as GreedyStage
from outrider.record import Group, SampleRequest, SamplingParams
from outrider.record.store import RolloutStore
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.testing.scripted import ScriptedRun
from outrider.testing.situations import Situation, by_rate
from small import random_policy, request


def group(rewards, greedy, tokens=None) -> Members:
    rewards_G = np.array(rewards, np.float64)
    tokens_G = np.full(len(rewards_G), 3) if tokens is None else np.array(tokens)
    return Members(rewards_G, rewards_G > 0, tokens_G, greedy_G=np.isin(np.arange(len(rewards_G)), greedy))


# Credit


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (group([1, 0, 0.5, 1], greedy=[3]), [0, -1, -0.5, 0]),
        (group([1, 1, 0], greedy=[2]), [1, 1, 0]),  # equal, and both better: that is a comparison
        (group([1, 0], greedy=[1]), [1, 0]),  # one member is enough
        (group([1, 0, 1, 0], greedy=[2, 3]), [0.5, -0.5, 0, 0]),  # of two greedy ones the mean
        (group([1, 0, 1, np.nan], greedy=[2, 3]), [0, -1, 0, 0]),
        (group([1, 0, np.nan], greedy=[2]), [0, 0, 0]),  # the greedy one could not be verified
        (group([1, 0, 1], greedy=[2], tokens=[3, 3, 0]), [0, 0, 0]),  # or says nothing
        (group([1, 0, 0], greedy=[]), [0, 0, 0]),
        (group([1], greedy=[0]), [0]),
        (group([np.nan, 1, 5, 0], greedy=[3], tokens=[3, 3, 0, 3]), [0, 1, 0, 0]),
    ],
)
def test_credit_by_hand(members, expected) -> None:
    assert GreedyBaseline().advantages(members).tolist() == expected


@pytest.mark.parametrize("bandit", [BINARY, RARE, GRADED], ids=["binary", "rare", "graded"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_mean_over_all_groups_is_the_gradient_for_one_member_too(bandit, n) -> None:
    gradient = bandit.gradient(bandit.expected)
    np.testing.assert_allclose(bandit.mean(GreedyBaseline(), n, greedy=True), gradient, rtol=1e-9, atol=1e-13)


@given(
    rewards=st.lists(st.integers(-8, 8).map(lambda i: i / 4), min_size=2, max_size=7),
    shift=st.integers(-8, 8),
    data=st.data(),
)
def test_credit_follows_permutations_shifts_and_factors(rewards, shift, data) -> None:
    order = data.draw(st.permutations(range(len(rewards))))
    found = GreedyBaseline().advantages(group(rewards, greedy=[0]))
    changed = group([4 * (rewards[i] + shift) for i in order], greedy=[order.index(0)])
    assert GreedyBaseline().advantages(changed).tolist() == [4 * found[i] for i in order]


# The stage, and what says on record that a rollout is greedy


class DropTheFirst(Stage):
    def plan(self, view: View) -> list[SampleRequest]:
        return []

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {groups[0].id: "dropthefirst: for the test"}


def explored(*stages: Stage, problems: int = 3) -> list[Group]:
    return ScriptedRun([*stages], Situation(problems, lambda: Uniform(n=3), by_rate)).next()


def test_every_problem_gets_one_and_credit_knows_it(tmp_path) -> None:
    rollouts = [r for g in explored(Uniform(n=3), GreedyStage(max_tokens=8)) for r in g.rollouts]
    store = RolloutStore(tmp_path)
    store.write(1, rollouts)
    for given_back in (rollouts, store.read(1)):
        assert Members.of(given_back).greedy_G.tolist() == [False, False, False, True] * 3
        assert [r.context.trained == "excluded" for r in given_back] == [False, False, False, True] * 3


def test_a_group_that_is_excluded_needs_none() -> None:
    sizes = [g.size for g in explored(Uniform(n=3), DropTheFirst(), GreedyStage(max_tokens=8))]
    assert sizes == [3, 4, 4]


def test_the_request_draws_greedily_from_the_plain_prompt() -> None:
    class Spy(GreedyStage):
        def plan(self, view: View) -> list[SampleRequest]:
            requests = super().plan(view)
            asked.extend(requests)
            return requests

    asked: list[SampleRequest] = []
    explored(Uniform(n=2), Spy(max_tokens=8), problems=1)
    [ask] = asked
    assert (ask.n, ask.params) == (1, SamplingParams(temperature=0.0, max_tokens=8))
    assert (ask.prefix, ask.context.kind, ask.stream) == (None, "plain", "main")


def test_it_is_one_path_whatever_the_seed() -> None:
    sampler = LocalSampler(ready(random_policy())[0], SampleOptions(max_tokens=8))
    asks = [request("p", [5, 6, 7], seed=seed, params=SamplingParams(0.0, max_tokens=8)) for seed in (1, 2, 3)]
    assert len({rollout.token_ids.tobytes() for rollout in sampler.sample(asks)}) == 1


def test_it_teaches_nothing_itself_and_the_others_are_compared_with_it() -> None:
    groups = explored(Uniform(n=3), GreedyStage(max_tokens=8), problems=6)
    assigned = assign(
        groups, {"main": [GreedyBaseline()]}, 1, always_trained=False, encode=lambda p: np.zeros(1, np.int32)
    )
    assert len(assigned.rows) == 3 * 6
    seen = set()
    for g in assigned.groups:
        *sampled, greedy = g.rollouts
        assert greedy.unused == "excluded context"
        assert greedy.advantage == 0.0
        for rollout in sampled:
            assert rollout.advantage == rollout.reward - greedy.reward
            seen.add(rollout.advantage)
    assert len(seen) > 1


# The recipe


@pytest.mark.parametrize("setting", ["countdown", "paper"])
def test_the_recipe_gives_greedy_rollouts_the_length_of_the_others(setting) -> None:
    recipe = load_recipe("remax", setting=setting)
    stage = recipe.explore[-1]
    assert isinstance(stage, GreedyStage)
    assert stage.max_tokens == recipe.sample.max_tokens
    assert isinstance(recipe.credit["main"][0], GreedyBaseline)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "explore=[{greedy: {max_tokens: 8}}]",
            "explore.0: greedy adds to existing rollouts and cannot be the first stage",
        ),
        ("explore=[uniform, greedy]", "explore.1.greedy.max_tokens is missing"),
    ],
)
def test_a_stage_that_cannot_work_is_refused(override, expected) -> None:
    with pytest.raises(UserError) as refused:
        load_recipe("remax", [override])
    assert expected in str(refused.value)
