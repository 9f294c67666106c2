"""A chain explains itself: link by link, on a group that shows what each component is about."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from rich.console import Console

from outrider.arrays import Floats
from outrider.cli.worked import credit_table
from outrider.config import list_recipes, load_recipe
from outrider.credit import GroupMean, Members, Novelty, RewardShaper, TreeValues, advantages
from outrider.credit.explain import explain, worked_group

NAMES = [info.name for info in list_recipes()]
SHAPES = ("roots", "greedy", "tree", "siblings")


class MinusLength(RewardShaper):
    def rewards(self, members: Members, step: int) -> Floats:
        return members.rewards_G - members.tokens_G


def shown(name: str, stream: str = "main") -> dict[str, list[str]]:
    """The rows of a table by their member, as printed."""
    console = Console(file=io.StringIO(), width=100)
    console.print(credit_table(load_recipe(name), stream))
    assert isinstance(console.file, io.StringIO)
    lines = (line.split("  ") for line in console.file.getvalue().splitlines())
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {cells[0]: cells[1:] for cells in rows if len(cells) > 1}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_link_is_told_and_the_last_is_what_the_chain_gives(shape) -> None:
    members = worked_group(shape).members
    chain = [MinusLength(), TreeValues(), Novelty()]
    account = explain(chain, members)
    assert [after.link for after in account] == chain
    np.testing.assert_array_equal(account[0].rewards_G, members.rewards_G - members.tokens_G)
    assert account[0].advantages_GT is None
    for after, length in zip(account[1:], (2, 3), strict=True):
        expected = advantages(chain[:length], members)
        assert [a.tolist() for a in after.advantages_GT] == [a.tolist() for a in expected]


def test_the_step_reaches_every_link() -> None:
    class Step(MinusLength):
        def rewards(self, members: Members, step: int) -> Floats:
            return np.full(members.size, float(step))

    [after, _] = explain([Step(), GroupMean()], worked_group().members, step=7)
    assert set(after.rewards_G) == {7.0}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("longest", [1, 7, 96, 16384])
def test_worked_groups_hold_what_components_look_at(shape, longest) -> None:
    names, members = worked_group(shape, right=1.0, wrong=-1.0, longest=longest)
    assert len(names) == members.size
    assert 0 < members.success_G.sum() < members.valid_G.sum()
    assert set(members.rewards_G[members.valid_G]) == {1.0, -1.0}
    assert members.tokens_G.min() >= 1
    assert members.tokens_G.max() <= longest
    rare = [name.endswith("unlikely") for name in names].index(True)
    assert members.logprobs_GT[rare][0] == min(lp[0] for lp in members.logprobs_GT)
    assert [len(e) for e in members.entropies_GT] == members.tokens_G.tolist()
    if longest > 10:
        TreeValues().per_token(members)  # branches begin where their parents are


def test_credit_of_deep_grpo_as_shown() -> None:
    """Two of six verified succeed: 1 - 1/3 and 0 - 1/3. One of three siblings does: 2/3 and -1/3; of the rest none."""
    main, branch = shown("deep-grpo"), shown("deep-grpo", "branch")
    assert main["member"] == ["tokens", "log p", "reward", "group_mean"]
    assert main["right"] == ["48", "-0.30", "1.00", "0.67"]  # half of 96
    assert main["wrong"][-2:] == ["0.00", "-0.33"]
    assert main["no verdict"][-2:] == ["-", "0.00"]
    assert branch["member"][-1] == "siblings_mean"
    assert branch["from a, right, unlikely"][-1] == "0.67"
    assert branch["from a, wrong"][-1] == "-0.33"
    assert branch["from b, wrong"][-1] == "0.00"


def test_a_tree_is_shown_where_branches_train_with_their_roots() -> None:
    """The start of 2 is shared by a success and two failures, as many as in the group: 0, then its own end."""
    tree = shown("treerl")
    assert tree["2 wrong"][-1] == "0.00 → -0.67"
    assert tree["1 right"][-1] == "0.24 → 1.17"


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_every_recipe_is_seen_at_work(name) -> None:
    recipe = load_recipe(name)
    for stream in recipe.credit:
        header, *rows = shown(name, stream).values()
        links = [link for component in recipe.resolved()["credit"][stream] for link in component]
        assert header == ["tokens", "log p", "reward", *links]
        columns = list(zip(*rows, strict=True))[2:]
        for before, after in itertools.pairwise(columns):
            assert before != after
        assert set(columns[-1]) != {"0.00"}
