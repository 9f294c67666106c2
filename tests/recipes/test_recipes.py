"""The shipped recipes: that they load, say everything, and survive being written down."""

import itertools
import pickle
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from pydantic import BaseModel

from outrider.config import dump_yaml, list_recipes, load_recipe
from outrider.credit.novelty import Novelty
from outrider.errors import UserError
from outrider.record import Outcome
from outrider.testing.scripted import ScriptedRun
from outrider.testing.situations import Ragged, Situation, always

SHIPPED = [(info.name, setting) for info, setting in itertools.product(list_recipes(), ("countdown", "paper"))]


def load_shipped(name, setting):
    return load_recipe(name, setting=setting)


@pytest.mark.parametrize(("name", "setting"), SHIPPED)
def test_a_resolved_recipe_loads_as_itself(tmp_path, name, setting):
    recipe = load_shipped(name, setting)
    (tmp_path / "resolved.yaml").write_text(dump_yaml(recipe.resolved()))
    again = load_recipe(str(tmp_path / "resolved.yaml"))
    assert again == recipe == pickle.loads(pickle.dumps(recipe))  # it is sent to the other ranks
    assert again.resolved() == recipe.resolved()
    assert again.fingerprint() == recipe.fingerprint()


@pytest.mark.parametrize(("name", "setting"), SHIPPED)
def test_a_resolved_recipe_shows_every_field_of_every_part(name, setting):
    recipe = load_shipped(name, setting)

    def check(part, data):
        if isinstance(part, BaseModel):
            if isinstance(data, str):  # a component without options
                assert not type(part).model_fields
                return
            shown = [key for key in type(part).model_fields if key != "components"]  # of outside, and shipped has none
            if list(data) != shown:
                [(_, data)] = data.items()  # a component, under its name
            assert list(data) == shown
            for key, value in data.items():
                check(getattr(part, key), value)
        elif isinstance(part, dict):
            assert list(data) == list(part)
            for key in part:
                check(part[key], data[key])
        elif isinstance(part, (list, tuple)):
            for inner, value in zip(part, data, strict=True):
                check(inner, value)
        else:
            assert data == (part if part is None or isinstance(part, (bool, int, float)) else str(part))

    check(recipe, recipe.resolved())


def test_every_shipped_recipe_says_what_it_is():
    infos = list_recipes()
    assert {"dr-grpo", "grpo"} <= {info.name for info in infos}
    assert all(re.fullmatch(r"arXiv \d{4}\.\d{5}( \(from: abstract\))?|\(none\)", info.paper) for info in infos)
    assert all(info.summary.endswith(".") and len(info.summary) < 110 for info in infos)
    assert len({info.summary for info in infos}) == len(infos)


def test_grpo_and_dr_grpo_differ_on_countdown_only_in_what_the_papers_differ_in():
    grpo, dr_grpo = (load_recipe(name) for name in ("grpo", "dr-grpo"))
    assert grpo.difference(dr_grpo) == [
        "credit.main.0.group_mean.std: true -> false",
        'objective.aggregate.token_mean.denominator: "all" -> absent',
        'objective.aggregate.constant.denominator: absent -> "all"',
        "objective.aggregate.constant.length: absent -> null",
    ]


def test_the_setting_countdown_has_room_for_the_longest_solution():
    # 6 numbers up to 12 and values up to 60: the longest solution of many, one token a character, and the end token
    task = load_recipe("grpo").task
    longest = max(len(task.train(i).metadata["solution"]) for i in range(3000))
    assert longest + 1 <= load_recipe("grpo").sample.max_tokens


def test_every_recipe_of_the_exploration_methods_is_shipped():
    """GRPO with its variants, each method with its ablations and comparators, and two combinations of our own."""
    wanted = """grpo dr-grpo dapo gspo deep-grpo deep-grpo-expand-all deep-grpo-p2b4 dars-et dars-hw dars-et-breadth
        dars-hw-breadth depth-naive breadth-naive xrpo xrpo-no-icl xrpo-no-novelty xrpo-no-plan xrpo-plan-only xrpo-gspo
        treerl attnrl tree-grpo treepo cures dars-pivots xrpo-deep"""
    assert set(wanted.split()) <= {info.name for info in list_recipes()}


@pytest.mark.parametrize("setting", ["countdown", "paper"])
@pytest.mark.parametrize(
    ("name", "seeded", "novel", "planned"),
    [  # section 4.3 of the paper: what each variant removes
        ("xrpo", True, True, True),
        ("xrpo-no-icl", False, True, True),
        ("xrpo-no-novelty", True, False, True),
        ("xrpo-plan-only", False, False, True),
        ("xrpo-no-plan", True, True, False),
    ],
)
def test_an_ablation_of_xrpo_leaves_out_what_it_names_and_nothing_else(name, seeded, novel, planned, setting):
    recipe, whole = load_shipped(name, setting), load_shipped("xrpo", setting)
    stage = recipe.explore[1]
    assert (stage.seed is not None) == seeded
    assert any(isinstance(link, Novelty) for link in recipe.credit["main"]) == novel
    assert (stage.bonus < 1) == planned  # the allocation of a large one is uniform: test_prioritise.py
    changed = ("explore.1.prioritise.seed", "explore.1.prioritise.bonus", "credit.main.1.novelty")
    assert [line for line in whole.difference(recipe) if not line.startswith(changed)] == []


@pytest.mark.parametrize(
    ("name", "schedule", "n_max", "released"),
    [
        ("dars-et", "et", 32, 32),
        ("dars-hw", "hw", 32, 64),
        ("dars-et-breadth", "et", 32, 32),
        ("dars-hw-breadth", "hw", 32, 64),
    ],
)
def test_dars_as_in_the_paper_and_as_released(name, schedule, n_max, released):
    for setting, cap, bonus in (("paper", n_max, 0.0), ("released", released, 0.001)):
        recipe = load_recipe(name, setting=setting)
        stage = recipe.explore[1]
        assert (stage.schedule, stage.n_max, recipe.objective.entropy.bonus) == (schedule, cap, bonus)
        assert (recipe.learn.epochs * recipe.learn.minibatches, recipe.learn.lr) == (
            2,
            5e-6 if "breadth" in name else 1e-6,
        )
        assert recipe.train.problems == (3072 if "breadth" in name else 128)


@pytest.mark.parametrize(("name", "n"), [("depth-naive", 32), ("breadth-naive", 8)])
def test_the_comparators_of_dars_as_released_keep_their_one_pass(name, n):
    recipe = load_recipe(name, setting="released")
    assert ([stage.n for stage in recipe.explore], recipe.objective.entropy.bonus) == ([n], 0.001)


def test_what_nobody_has_released_has_no_such_setting():
    with pytest.raises(UserError, match="setting released: no shipped setting"):
        load_recipe("dars-pivots", setting="released")


def test_an_inherited_setting_is_changed_in_places_or_left_behind(tmp_path):
    base, own = tmp_path / "base.yaml", tmp_path / "own.yaml"
    base.write_text(
        "extends: dars-hw\n"
        "settings: {mine: {extends: countdown, explore.1.n_max: 40, seed: 3, learn.lr: 0.5},\n"
        "           released: {explore.1.n_max: 48}, old: {extends: paper}}"
    )
    released = load_recipe(str(base), setting="released")
    assert (released.explore[1].n_max, released.objective.entropy.bonus) == (48, 0.001)
    head = f"extends: {base}\nexplore: [{{uniform: {{n: 4}}}}]\n"
    own.write_text(head + "settings: {mine: {explore: [{uniform: {n: 5}}], learn: {epochs: 2}}, old: null}")
    mine = load_recipe(str(own), setting="mine")
    assert ([stage.n for stage in mine.explore], mine.seed, mine.learn.lr, mine.learn.epochs) == ([5], 3, 0.5, 2)
    assert (mine.model, mine.from_setting) == ("base:countdown", "mine")
    assert [stage.n for stage in load_recipe(str(own), setting="released").explore] == [4]  # said after what it extends
    with pytest.raises(
        UserError,
        match=r"setting old: no shipped setting, nor one of \S+ \(known: countdown, .*mine, .*paper, .*released.*\)",
    ):
        load_recipe(str(own), setting="old")


@dataclass
class Long(ScriptedRun):
    """Responses that fill what they may."""

    most: int = 0

    def rollout(self, request, index):
        made = super().rollout(request, index)
        ids = np.resize(made.token_ids, self.most - made.branch_at)
        made = replace(made, token_ids=ids, logprobs_T=-ids.astype(np.float32), entropies_T=ids.astype(np.float32))
        self.drawn[made.id] = made
        return made


@pytest.mark.parametrize(
    ("name", "setting", "leaves"),
    [
        ("treerl", "paper", 30),  # M (1 + N L T) = 6 (1 + 2 * 1 * 2)
        ("treerl", "countdown", 12),  # 4 (1 + 2 * 1)
        ("tree-grpo", "paper", 6),  # m k = 2 * 3
        ("tree-grpo", "countdown", 12),  # 4 * 3
        ("treepo", "paper", 16),  # the width
        ("treepo", "countdown", 16),
        ("deep-grpo", "paper", 72),  # 8 roots and 8 branches of each failure
        ("deep-grpo-p2b4", "paper", 72),
        ("deep-grpo-expand-all", "paper", 72),
        ("arpo", "paper", 16),  # M
    ],
)
def test_a_tree_recipe_has_the_leaves_of_its_paper(name, setting, leaves):
    """Of a problem that nobody solves, whose responses are as long as they may be."""
    recipe = load_shipped(name, setting)
    run = Long(recipe.explore, Situation(1, Ragged, always(Outcome.INCORRECT)), most=recipe.sample.max_tokens)
    (group,) = run.next()
    assert group.size == leaves
