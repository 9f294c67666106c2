"""What a recipe's values rest on: the paper, then the released script; a framework's defaults only in `released`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from outrider.config import list_recipes, load_recipe, recipe_of_run, text_of
from outrider.errors import UserError
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from small import random_model

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = [info.name for info in list_recipes()]


def own(name: str, setting: str = "paper"):
    return load_recipe(name, setting=setting)


# warm-up: of steps or of updates


@pytest.mark.parametrize(
    ("name", "warmup", "updates"),
    [
        ("dapo", "20 steps", 320),  # "over 20 rollout steps", 16 updates each
        ("cispo", "20 steps", 320),
        ("clip-higher", "20 steps", 320),
        ("ppl", "10 steps", 160),
        ("position", "10 steps", 160),
        ("passk-training", "10 steps", 40),
        ("treepo", "10 steps", 160),
        ("tree-grpo", "51 steps", 408),  # int(0.285 * 180), 8 updates each
        ("rloo", "36 updates", 36),  # 3 % of 600 * 2
    ],
)
def test_a_warm_up_lasts_as_long_as_its_source_says(name, warmup, updates):
    learn = own(name).learn
    assert learn.warmup == warmup
    each = learn.minibatches * learn.epochs
    reached = next(k for k in range(10_000) if learn.warm(steps=k // each, updates=k) == 1.0)
    first_at_full = updates if warmup.endswith("updates") else updates - each + 1
    assert reached + 1 == first_at_full


@pytest.mark.parametrize(
    ("warmup", "rates"), [("4 steps", [1, 1, 2, 2, 3, 3, 4, 4, 4]), ("4 updates", [1, 2, 3, 4, 4])]
)
def test_a_warm_up_counts_steps_or_updates(warmup, rates):
    options = LearnOptions(warmup=warmup, lr=4.0)
    # two updates a step
    assert [options.rate(0.0, update // 2, update) for update in range(len(rates))] == rates


@pytest.mark.parametrize("warmup", [20, "20", "20 step", "-1 steps", "two steps", None, True, 2.5])
def test_a_warm_up_that_does_not_say_of_what_is_refused(warmup):
    with pytest.raises(ValidationError, match="has no unit: write '20 steps' of training, or '320 updates'"):
        LearnOptions(warmup=warmup)


def test_the_old_name_is_refused_in_a_recipe_and_read_in_a_run():
    sentence = "learn: warmup_steps counted optimizer updates: write warmup: 7 updates, or 7 steps for training steps"
    with pytest.raises(UserError, match=sentence):
        load_recipe("grpo", ["learn.warmup_steps=7"])
    config = load_recipe("grpo", ["learn.warmup=7 updates"]).resolved()
    learn = {key: value for key, value in config["learn"].items() if key not in ("warmup", "decay")}
    older = {**config, "learn": learn | {"warmup_steps": 7}}
    assert recipe_of_run(older) == recipe_of_run(config) == load_recipe("grpo", ["learn.warmup=7 updates"])


@pytest.mark.parametrize(("old", "new"), [("fast", "fused"), ("generic", "packed"), ("auto", "auto")])
def test_the_paths_of_older_runs_have_their_new_names(old, new):
    config = load_recipe("grpo").resolved()
    assert recipe_of_run({**config, "sample": config["sample"] | {"path": old}}).sample.path == new
    with pytest.raises(UserError, match=r"sample.path is .fast., but should be 'auto', 'fused', 'packed' or 'plain'"):
        load_recipe("grpo", ["sample.path=fast"])


# weight decay: on matrices, or on everything


@pytest.mark.parametrize(("decay", "shrunk"), [("matrices", 1.0), ("all", 0.75)])
def test_what_decays(decay, shrunk):
    """An update without any gradient leaves the decay alone: w (1 - lr * weight_decay)."""
    model = random_model("qwen2")
    made = LocalLearner(model, LearnOptions(weight_decay=0.5, decay=decay), PolicyLoss(ObjectiveOptions(), 8))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for group in made.optimizer.param_groups:
        group["lr"] = 0.5
    for parameter in made.parameters:
        parameter.grad = torch.zeros_like(parameter)
    made.optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 0.75 if parameter.ndim >= 2 else shrunk
        torch.testing.assert_close(parameter.detach(), factor * before[name], msg=name)


def test_a_checkpoint_of_one_kind_of_decay_goes_on_with_the_other(tmp_path):
    def made(decay):
        options = LearnOptions(weight_decay=0.1, decay=decay)
        return LocalLearner(random_model("qwen2"), options, PolicyLoss(ObjectiveOptions(), 8))

    other = made("all")
    made("matrices").save(tmp_path)
    other.load(tmp_path)
    assert [group["weight_decay"] for group in other.optimizer.param_groups] == [0.1, 0.1]


# defaults of frameworks


SET_BY_SCRIPT = {"questa": {"betas"}}  # its scripts write out what others leave to a framework


def unset(recipe) -> set[str]:
    """Which defaults of verl, oat and OpenRLHF a recipe has."""
    there = {
        "entropy": recipe.objective.entropy.bonus == 0.001,
        "decay": recipe.learn.weight_decay == 0.01 or recipe.learn.decay == "all",
        "dual": getattr(recipe.objective.surrogate, "dual", None) == 3.0,
        "betas": recipe.learn.betas == (0.9, 0.95),
    }
    return {name for name, found in there.items() if found}


@pytest.mark.parametrize("name", NAMES)
def test_a_frameworks_default_that_no_script_sets_is_in_released_alone(name):
    assert unset(own(name)) == SET_BY_SCRIPT.get(name, set())
    try:
        released = own(name, "released")
    except UserError:
        return
    assert unset(released) != set()
    assert released.difference(own(name)) != []


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_with_a_paper_says_what_its_script_leaves_unset(name):
    _, text = text_of("recipe", name)
    if re.search(r"^paper: \"?arXiv", text, re.MULTILINE):
        [said] = re.findall(r"^# Unset: (.+)$", text, re.MULTILINE)
        assert len(said) > 5


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("dars-hw", {"entropy", "decay"}),
        ("dars-et-breadth", {"entropy", "decay"}),
        ("breadth-naive", {"entropy", "decay"}),
        ("nsr", {"entropy", "decay"}),
        ("w-reinforce", {"entropy", "decay"}),
        ("tree-grpo", {"entropy", "decay", "dual"}),
        ("maxrl", {"decay", "dual"}),
        ("attnrl", {"decay", "dual"}),
        ("dapo", {"decay"}),
        ("pilot-commit", {"decay"}),
        ("vip", {"decay"}),
        ("ppl", {"decay"}),
        ("treepo", {"decay"}),
        ("treerl", {"betas"}),
        ("remax", {"betas"}),
        ("dr-grpo", {"betas"}),
    ],
)
def test_released_has_what_the_framework_adds(name, found):
    assert unset(own(name, "released")) == found


# single values, from the papers and scripts


def test_dars_with_breadth_runs_as_long_as_the_paper_says_and_in_released_as_the_script():
    for name in ("dars-hw-breadth", "dars-et-breadth", "breadth-naive"):
        steps = [own(name, setting).train.steps for setting in ("paper", "openr1-7b", "openr1-1.5b", "math-llama-8b")]
        assert steps == [75, 75, 105, 70]  # appendix E
        assert own(name, "released").train.steps == 86
    learn = own("dars-hw", "released").learn
    assert (learn.weight_decay, learn.decay) == (0.01, "all")


def test_treepo_follows_its_script():
    """recipe/treepo/run_treepo_train.sh: the values that it sets and that the recipe once had otherwise."""
    recipe = own("treepo")
    overlong = recipe.credit["main"][0]
    assert (overlong.max_tokens, overlong.buffer) == (7168, 512)
    assert (recipe.reward.correct, recipe.reward.incorrect) == (1.0, -1.0)
    assert (recipe.objective.surrogate.low, recipe.objective.surrogate.high) == (0.2, 0.28)
    assert recipe.objective.surrogate.dual == 10.0
    assert (recipe.learn.minibatches, recipe.learn.warmup, recipe.learn.weight_decay) == (16, "10 steps", 0.1)
    assert recipe.train.problems == 3 * recipe.explore[-1].target == 3 * 512  # gen_prompt_bsz, train_prompt_bsz
    assert recipe.task.train_data == "hf:agentica-org/DeepScaleR-Preview-Dataset:train"


def test_remax_says_what_of_its_trainer_it_leaves_out():
    _, text = text_of("recipe", "remax")
    assert all(value in text for value in ("gamma 0.99", "top-p 0.9", "clipped at 5"))


def test_clip_cov_is_the_authors_own_script():
    recipe = own("clip-cov")
    assert (recipe.learn.lr, recipe.explore[1].oversample, recipe.learn.weight_decay) == (5e-7, 1, 0.0)


@pytest.mark.parametrize("name", ["cispo", "clip-higher", "forking-tokens", "greso", "prorl"])
def test_what_only_builds_on_dapo_has_no_released_script(name):
    with pytest.raises(UserError, match="setting released: no shipped setting"):
        own(name, "released")


# what was measured stays as it was


# tuned after these results, whose command gives the old value (benchmarks/smollm2.py)
CHANGED_SINCE = {"smollm2": ["learn.lr: 2e-05 -> 1e-05"]}
MEASURED = sorted(path for path in RESULTS.glob("*/recipes/*.yaml") if path.stem in NAMES)


@pytest.mark.parametrize("path", MEASURED, ids=[f"{path.parts[-3]}-{path.stem}" for path in MEASURED])
def test_the_setting_is_what_the_results_were_measured_with(path):
    """Apart from budget, evaluation, ranks and the training set's size, which the bench sets."""
    measured = load_recipe(str(path))
    differences = measured.difference(load_recipe(path.stem, setting=measured.from_setting or "countdown"))
    set_by_the_bench = ("train.", "evaluate.", "task.countdown.pool", "task.word_problems.pool")
    changed = CHANGED_SINCE.get(path.parts[-3], [])
    assert [d for d in differences if not d.startswith(set_by_the_bench)] == changed
