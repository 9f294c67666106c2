"""Settings: the papers' own runs by name, checked against their numbers, and what is said of a method in a setting."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.config import dump_yaml, list_recipes, list_settings, load_recipe, recipe_of_run
from outrider.config.shipped import chain, read, shipped
from outrider.config.yaml_data import read_yaml
from outrider.errors import UserError
from outrider.explore import Uniform

EXTENDING = [name for name in shipped("recipe") if read("recipe", name).extends]

# model, problems a step, rollouts of the first stage, most response tokens, learning rate, steps, training table
PAPERS = {
    ("deep-grpo", "gsm8k-0.5b"): ("Qwen/Qwen2.5-0.5B-Instruct", 64, 8, 768, 1e-6, 584, "gsm8k"),
    ("deep-grpo", "math-7b"): ("Qwen/Qwen2.5-Math-7B", 64, 8, 3072, 1e-6, 666, "MATH-lighteval"),
    ("dr-grpo", "math-7b"): ("Qwen/Qwen2.5-Math-7B", 128, 8, 3000, 1e-6, 1331, "MATH-lighteval"),
    ("dr-grpo", "math-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 128, 8, 3000, 1e-6, 1331, "MATH-lighteval"),
    ("dars-et", "openr1-7b"): ("Qwen/Qwen2.5-Math-7B", 128, 8, 3072, 1e-6, 500, "Openr1-Math-46k"),
    ("dars-hw", "openr1-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 128, 8, 3072, 1e-6, 600, "Openr1-Math-46k"),
    ("dars-hw-breadth", "openr1-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 3072, 8, 3072, 5e-6, 105, "Openr1-Math-46k"),
    ("depth-naive", "openr1-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 128, 32, 3072, 1e-6, 600, "Openr1-Math-46k"),
    ("dars-et", "math-llama-8b"): ("meta-llama/Llama-3.1-8B", 128, 16, 3072, 1e-6, 300, "MATH-lighteval"),
    ("dars-et-breadth", "math-llama-8b"): ("meta-llama/Llama-3.1-8B", 3072, 16, 3072, 1e-6, 70, "MATH-lighteval"),
    ("position", "dapo-7b"): ("Qwen/Qwen2.5-7B", 512, 8, 8192, 1e-6, 300, "DAPO-Math-17k"),
    ("xrpo", "dapo-1.7b"): ("Qwen/Qwen3-1.7B", 16, 4, 16384, 2e-6, 625, "DAPO-Math-17k"),
}


@pytest.mark.parametrize(("name", "setting"), PAPERS)
def test_a_setting_is_the_run_of_the_paper(name, setting):
    model, problems, n, tokens, rate, steps, table = PAPERS[name, setting]
    recipe = load_recipe(name, setting=setting)
    assert (recipe.model, recipe.train.problems, recipe.explore[0].n) == (model, problems, n)
    assert (recipe.sample.max_tokens, recipe.learn.lr, recipe.train.steps) == (tokens, rate, steps)
    assert table in recipe.task.train_data
    assert (recipe.policy.dtype, recipe.learn.gradient_checkpointing) == ("bfloat16", True)
    assert load_recipe(name, ["model=./weights"], setting).model == "./weights"


@pytest.mark.parametrize("name", [info.name for info in list_recipes()])
def test_every_recipe_is_a_method_alone_and_runs_countdown_unless_told_otherwise(name):
    """Where a method is tried stands in settings: a recipe that named a model could be tried nowhere else."""
    assert load_recipe(name).from_setting == "countdown"
    assert load_recipe(name).task.name == "countdown"
    assert load_recipe(name, setting="paper").from_setting == "paper"
    for file in chain(name):
        assert not {"model", "task", "policy", "sample", "train", "evaluate"} & file.values.keys()


@pytest.mark.parametrize("setting", [info.name for info in list_settings()])
def test_every_setting_serves_a_method_that_says_nothing_of_it(setting, write):
    """Model, task, lengths, learning rate and budget, and nothing of a method."""
    file = read("setting", setting)
    assert not {"explore", "credit", "objective", "reward"} & file.values.keys()
    recipe = load_recipe(write("explore: [{uniform: {n: 8}}]\ncredit: {main: [group_mean]}\n"), setting=setting)
    assert (recipe.explore, recipe.name, recipe.paper) == ([Uniform(n=8)], "mine", "")
    assert recipe.model_fields_set >= {"model", "task", "sample", "learn", "train"}
    assert re.fullmatch(r"[A-Z].{20,110}\.", list_settings()[shipped("setting").index(setting)].summary)


@pytest.mark.parametrize("setting", [info.name for info in list_settings()])
def test_a_setting_with_servers_computes_as_they_do(setting):
    """`outrider serve` takes bfloat16 unless it is told otherwise, and a recipe float32."""
    recipe = load_recipe("grpo", setting=setting)
    assert not getattr(recipe.engine.sampler, "servers", []) or recipe.policy.dtype == "bfloat16"


def test_what_a_setting_says_of_itself_is_no_value_of_a_run(write):
    about = write("extends: frontier\nsummary: Mine.\nrecommended: dapo task.pool=64\n")
    assert load_recipe("grpo", setting=about).learn == load_recipe("grpo", setting="frontier").learn


def test_no_recipe_makes_a_setting_of_a_shipped_ones_name_and_every_one_it_makes_extends_another():
    for name in shipped("recipe"):
        made = [key for file in chain(name) for key in (file.values.get("settings") or {})]
        assert {*made} - {*shipped("setting")} <= {"paper", "released"}


# Which value counts: setting, then each recipe with what it says of the setting, then what is typed.


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda text, name="mine.yaml": Path(name).write_text(text) and name


@pytest.mark.parametrize("name", EXTENDING)
def test_a_recipe_repeats_nothing_of_the_one_that_it_extends(name, write):
    """A value is stated once: without any one that a recipe states, some run of it is another."""
    said = read_yaml(read("recipe", name).text, name)
    inherited = {key for file in chain(name) for key in file.values.get("settings", {})}
    settings = sorted({"countdown"} | {key for key in inherited if said.get("settings", {}).get(key, "inherited")})
    if name == "remax":  # its own length of a response is not that of what grpo says of a search agent
        settings.remove("hotpotqa-3b")
    runs = [load_recipe(name, setting=setting).resolved() for setting in settings]
    for section in said.keys() & {"objective", "credit", "learn", "sample", "train", "evaluate", "reward", "explore"}:
        inner = said[section]
        for key in inner if isinstance(inner, dict) else [None]:
            rest = {k: v for k, v in inner.items() if k != key} if key else None
            less = {**said, section: rest} if rest else {k: v for k, v in said.items() if k != section}
            path = write(dump_yaml({"name": name, **less}))
            try:
                found = [load_recipe(path, setting=setting).resolved() for setting in settings]
            except UserError:  # the rest needs it
                continue
            assert found != runs, f"{section}.{key} is what {said['extends']} says"


@pytest.mark.parametrize(
    ("text", "setting", "lr"),
    [
        ("extends: grpo\nlearn: {lr: 3.0e-4}\n", None, 3e-4),  # what is said holds in every setting
        ("extends: grpo\nlearn: {lr: 3.0e-4}\n", "gsm8k-0.5b", 3e-4),
        ("extends: rloo\nlearn: {lr: 3.0e-4}\n", "paper", 3e-4),  # and over what the extended one says of this one
        ("extends: grpo\nlearn: {lr: 3.0e-4}\nsettings: {countdown: {learn: {lr: 5.0e-4}}}\n", None, 5e-4),
        ("extends: grpo\nlearn: {lr: 3.0e-4}\nsettings: {countdown: {learn: {lr: 5.0e-4}}}\n", "paper", 3e-4),
        ("extends: grpo\nseed: 7\n", None, 1e-4),
        ("extends: grpo\nseed: 7\nsettings: {near: {extends: countdown, learn: {lr: 2.0}}}\n", "near", 2.0),
        ("extends: grpo\nmodel: m\ntask: countdown\n", None, 1e-6),  # a whole run: the default of the section
    ],
)
def test_what_is_nearer_to_the_user_counts(write, text, setting, lr):
    assert load_recipe(write(text), setting=setting).learn.lr == lr
    assert load_recipe(write(text), ["learn.lr=7.0"], setting).learn.lr == 7.0


LAYERS = st.lists(
    st.dictionaries(
        st.sampled_from(["learn.lr", "learn.epochs", "train.problems", "seed", "explore.0.n"]),
        st.integers(1, 9),
        max_size=4,
    ),
    min_size=5,
    max_size=5,
)


@given(LAYERS)
def test_layers_follow_each_other_whatever_they_hold(tmp_path_factory, layers):
    """The oracle: dotted keys into one dictionary, in the order of the docstring."""
    folder = tmp_path_factory.mktemp("layers")
    method = {"explore": [{"uniform": {"n": 1}}], "credit": {"main": ["group_mean"]}}
    layers[0] = {key: value for key, value in layers[0].items() if key != "explore.0.n"}  # nothing of a method
    files = {
        "place.yaml": {"model": "m", "task": "countdown", **layers[0]},
        "base.yaml": {
            **method,
            **layers[1],
            "settings": {"here": {"extends": str(folder / "place.yaml"), **layers[2]}},
        },
        "own.yaml": {**layers[3], "extends": str(folder / "base.yaml"), "settings": {"here": layers[4]}},
    }
    for name, data in files.items():
        (folder / name).write_text(dump_yaml(data))
    recipe = load_recipe(str(folder / "own.yaml"), setting="here")
    expected: dict[str, int] = {}
    for layer in layers:
        expected |= layer
    found = {"learn.lr": recipe.learn.lr, "learn.epochs": recipe.learn.epochs, "train.problems": recipe.train.problems}
    found |= {"seed": recipe.seed, "explore.0.n": recipe.explore[0].n}
    assert {key: found[key] for key in expected} == expected


_NO_TURNS = {  # continue an earlier rollout or train on it again: its environment cannot be brought back
    "hops": {
        "choose-annealed": "have several",
        "pope": "environments",
        "prefix-replay": "environments",
        "prefixrl": "environments",
        "success-replay": "have several",
    },
}


@pytest.mark.parametrize("setting", ["frontier", "hops", "prose", "sparse"])
def test_every_recipe_can_be_tried_in_the_settings_of_a_laptop(setting):
    """What a recipe says of countdown, such as problems that return, holds for another task, too."""
    for info in list_recipes():
        if told := _NO_TURNS.get(setting, {}).get(info.name):
            with pytest.raises(UserError, match=told):
                load_recipe(info.name, setting=setting)
        else:
            recipe = load_recipe(info.name, setting=setting)
            assert recipe.from_setting == setting
            assert recipe.task.pool == load_recipe(info.name).task.pool


def test_a_setting_of_ones_own_serves_every_recipe(write):
    place = write("extends: gsm8k-0.5b\nsummary: mine\nmodel: ./m\ntrain: {steps: 3}\n", "place.yaml")
    for name in ("grpo", "deep-grpo"):
        recipe = load_recipe(name, setting=f"./{place}")
        assert (recipe.model, recipe.train.steps, recipe.train.problems) == ("./m", 3, 64)
        assert (recipe.from_setting, recipe.summary) == ("./place.yaml", load_recipe(name).summary)
    named = load_recipe(write("extends: grpo\nsettings: {place: {extends: place.yaml, seed: 5}}\n"), setting="place")
    assert (named.seed, named.model, named.from_setting) == (5, "./m", "place")


@pytest.mark.parametrize(
    ("text", "setting", "said"),
    [
        ("model: m\n", "gsm8k-0.5b", "mine.yaml: it names its model (m), so it is a whole run and takes no setting"),
        ("seed: 3\n", "gsm8k", "setting gsm8k: no shipped setting, nor one of mine.yaml (did you mean 'gsm8k-7b'?)"),
        ("seed: 3\n", "./none.yaml", "there is no setting file ./none.yaml (known: countdown, "),
        ("seed: 3\n", "released", "setting released: no shipped setting, nor one of mine.yaml (known: countdown, "),
        ("settings: {gsm8k-0.6b: {seed: 3}}\n", None, "mine.yaml: settings.gsm8k-0.6b is no shipped setting (did"),
        ("seed: 3\n", "broken.yaml", "broken.yaml: learn.lrr is not a key (did you mean 'lr'?)"),
        ("seed: 3\n", "empty.yaml", "empty.yaml is empty"),
        ("seed: 3\n", "dotted.yaml", "dotted.yaml: explore.0.n belongs in a recipe, not in a setting"),
        ("seed: 3\n", "method.yaml", "method.yaml: objective belongs in a recipe, not in a setting"),
        ("seed: 3\n", "bare.yaml", "mine.yaml in bare.yaml: model is missing, and 1 more"),
        ("seed: 3\n", "typo.yaml", "typo.yaml: modell is not a key (did you mean 'model'?), and 1 more"),
        ("seed: 3\n", "circle.yaml", "mine.yaml: the setting './circle.yaml' extends itself"),
    ],
)
def test_a_mistake_about_settings_is_one_sentence(write, text, setting, said):
    write("extends: gsm8k-0.5b\nlearn: {lrr: 3}\n", "broken.yaml")
    write("extends: ./circle.yaml\n", "circle.yaml")
    write("extends: gsm8k-0.5b\nobjective: {kl: 0.0}\n", "method.yaml")
    write("extends: gsm8k-0.5b\nexplore.0.n: 3\n", "dotted.yaml")
    write("learn: {lr: 3.0e-4}\n", "bare.yaml")
    write("modell: tiny\ntask: countdown\n", "typo.yaml")
    Path("empty.yaml").touch()
    with pytest.raises(UserError) as refused:
        load_recipe(write("extends: grpo\n" + text), setting=setting)
    assert str(refused.value).startswith(said)


def test_a_configuration_of_0_1_is_read_as_it_was(write):
    """It has the field that was called ``from_profile``, and is a whole run: no setting reaches it."""
    data = load_recipe("deep-grpo", setting="gsm8k-0.5b").resolved()
    older = {("from_profile" if key == "from_setting" else key): value for key, value in data.items()}
    assert "from_profile" in older
    assert load_recipe(write(dump_yaml(older))).resolved() == recipe_of_run(older).resolved() == data
