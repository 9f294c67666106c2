from pathlib import Path

import pytest

from outrider.config import Evaluate, load_options, load_recipe
from outrider.credit import BASELINES, GroupMean
from outrider.errors import UserError
from outrider.explore import Uniform
from outrider.objective import Clip, TokenMean
from outrider.objective.options import Kl
from outrider.tasks import TASKS

RECIPE = """\
paper: none
model: base:countdown
task: countdown
explore:
  - uniform: {n: 8}
credit:
  main: [group_mean]
"""

SETTINGS = """\
settings:
  small:
    learn: {lr: 0.01, betas: [0.5, 0.6]}
    explore.0.n: 2
  large:
    task: {countdown: {highest: 20}}
    learn: {lr: 0.02}
  wrong:
    learn: {lrr: 0.02}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes x.yaml into an empty working directory, so that sentences name it by that."""
    monkeypatch.chdir(tmp_path)

    def write(text=RECIPE + SETTINGS, old="", new=""):
        assert old in text
        Path("x.yaml").write_text(text.replace(old, new))
        return "x.yaml"

    return write


def sentence(*arguments, **options):
    with pytest.raises(UserError) as caught:
        load_recipe(*arguments, **options)
    return str(caught.value)


# What is wrong in a file.


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("n: 8", "m: 8", "x.yaml: explore.0.uniform.m is not a key (known: n)"),
        ("n: 8", "nn: 8", "x.yaml: explore.0.uniform.nn is not a key (did you mean 'n'?)"),
        ("n: 8", "n: 0", "x.yaml: explore.0.uniform.n is 0, but should be at least 1"),
        ("n: 8", "n: eight", 'x.yaml: explore.0.uniform.n is "eight", but should be a whole number'),
        ("n: 8", "n: '8'", 'x.yaml: explore.0.uniform.n is "8", but should be a number'),
        ("n: 8", "n: true", "x.yaml: explore.0.uniform.n is true, but should be a number"),
        ("n: 8", "n: 1.5", "x.yaml: explore.0.uniform.n is 1.5, but should be a whole number"),
        ("uniform:", "unifrom:", "x.yaml: explore.0: 'unifrom' is not a stage (did you mean 'uniform'?)"),
        ("uniform: {n: 8}", "{}", "x.yaml: explore.0: a stage is a name, or one name with its options"),
        ("{n: 8}", "{n: 8}\n    more: {}", "x.yaml: explore.0: a stage is a name, or one name with its options"),
        ("{n: 8}", "8", "x.yaml: explore.0.uniform is 8, but should be a mapping"),
        ("task: countdown", "task: cuontdown", "x.yaml: task: 'cuontdown' is not a task (did you mean 'countdown'?)"),
        (
            "[group_mean]",
            "[grupmean]",
            "x.yaml: credit.main.0: 'grupmean' is not a credit component (did you mean 'group_mean'?)",
        ),
        ("[group_mean]", "[]", "x.yaml: credit.main is [], but should have at least 1 item, not 0"),
        (
            "[group_mean]",
            "[group_mean, group_mean]",
            "x.yaml: credit.main: a credit chain must have exactly one baseline, but this one has 2 "
            f"(baselines: {', '.join(sorted(BASELINES))})",
        ),
        ("paper: none", "papre: none", "x.yaml: papre is not a key (did you mean 'paper'?)"),
        ("paper: none", "max_tokens: 9", "x.yaml: max_tokens is not a key (did you mean 'sample.max_tokens'?)"),
        ("paper: none", "seed: -1", "x.yaml: seed is -1, but should be at least 0"),
        (
            "paper: none",
            "seed: -1\ntrain: {steps: -1, keep: 0}",
            "x.yaml: seed is -1, but should be at least 0, and 2 more",
        ),
        ("explore:\n  - uniform: {n: 8}\n", "", "x.yaml: explore is missing"),
        ("paper: none", "learn: {lr: .nan}", "x.yaml: learn.lr is NaN, but should be a finite number"),
        ("paper: none", "evaluate: {greedy: yes}", 'x.yaml: evaluate.greedy is "yes", but should be true or false'),
        (
            "paper: none",
            "learn: {schedule: cosin}",
            "x.yaml: learn.schedule is \"cosin\", but should be 'constant', 'cosine' or 'linear'",
        ),
        (
            "paper: none",
            "objective: {aggregate: token_men}",
            "x.yaml: objective.aggregate: 'token_men' is not a way to aggregate (did you mean 'token_mean'?)",
        ),
        (
            "paper: none",
            "objective: {surrogate: {clip: [0.1, 0.2, 0.3]}}",
            "x.yaml: objective.surrogate.clip: a range must have two numbers, [low, high], but this one has 3",
        ),
        (
            "paper: none",
            "objective: {surrogate: {clip: ['0.1', 0.2]}}",
            'x.yaml: objective.surrogate.clip.low is "0.1", but should be a number',
        ),
        ("paper: none", "objective: {kl: yes}", 'x.yaml: objective.kl.coef is "yes", but should be a number'),
        (
            "paper: none",
            "objective: {kl: {reset_every: 9}}",
            "x.yaml: objective.kl: reset_every is 9, but with coef 0 there is no reference to reset",
        ),
        # sections that disagree
        (
            "paper: none",
            "train: {tokens: null}",
            "x.yaml: train: one of steps, tokens and seconds must be set, or the run never ends",
        ),
        (
            "  main: [group_mean]",
            "  main: [group_mean]\n  branch: [group_mean]",
            "x.yaml: credit.branch has no weight in objective.streams (known: main)",
        ),
        (
            "paper: none",
            "objective: {streams: {main: 1, mian: 1}}",
            "x.yaml: objective.streams.mian has no chain in credit (did you mean 'main'?)",
        ),
        (
            "  main: [group_mean]",
            "  branch: [group_mean]\nobjective: {streams: {branch: 1}}",
            "x.yaml: credit has no stream 'main', the one of every rollout from a prompt",
        ),
        (
            "paper: none",
            "objective: {aggregate: {token_mean: {length: 9}}}",
            "x.yaml: objective.aggregate.token_mean.length is not a key (known: denominator)",
        ),
        (
            "paper: none",
            "learn: {minibatches: 5}\ntrain: {problems: 4}",
            "x.yaml: learn.minibatches is 5, but a step has only 4 problems to cut (train.problems)",
        ),
        (
            "paper: none",
            "sample: {temperature: 0}",
            "x.yaml: sample.temperature is 0, but greedy responses to a problem are identical, so none is better",
        ),
        (
            "paper: none",
            "sample: {top_p: 0.9}",
            "x.yaml: sample.top_p is 0.9, but the gradient is that of the whole distribution, "
            "so training needs sample.top_p=1",
        ),
        (
            "paper: none",
            "sample: {top_k: 20}",
            "x.yaml: sample.top_k is 20, but the gradient is that of the whole distribution, "
            "so training needs sample.top_k=0",
        ),
        # the YAML itself
        ("paper: none", "paper: [none", "x.yaml, line 2: expected ',' or ']', but got ':'"),
        ("paper: none", "paper: none\npaper: some", "x.yaml, line 2: 'paper' is given twice"),
        ("{n: 8}", "{n: 8, n: 9}", "x.yaml, line 5: 'n' is given twice"),
        ("paper: none", "? [a]\n: b", "x.yaml, line 1: a key must be a name"),
        (
            "  main: [group_mean]",
            "  main: &c [group_mean]\n  branch: *c",
            "x.yaml, line 8: write the value of *c out, aliases are not read",
        ),
        # settings
        ("  small:", "  smal:", "setting small: no shipped setting, nor one of x.yaml (did you mean 'smal'?)"),
        ("betas", "bettas", "x.yaml: settings.small.learn.bettas is not a key (did you mean 'betas'?)"),
        ("lr: 0.01", "lr: 0", "x.yaml: settings.small.learn.lr is 0, but should be greater than 0"),
        ("  small:", "  small: 3\n  other:", "x.yaml: settings.small must be a mapping of keys to values"),
        (
            "  small:",
            "  small: {extends: 3}\n  o:",
            "x.yaml: settings.small.extends is the name of a setting, not 3",
        ),
        (
            "  small:",
            "  small: {extends: o}\n  o: {extends: small}\n  p:",
            "x.yaml: the setting 'small' extends itself",
        ),
        (
            "explore.0.n: 2",
            "explore.1.n: 2",
            "x.yaml: settings.small.explore.1 does not exist: settings.small.explore has 1 entry, numbered from 0",
        ),
        (
            "explore.0.n: 2",
            "setting: wrong",
            "x.yaml: settings.small.setting is not a key (did you mean 'from_setting'?)",
        ),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_with_its_place(write, old, new, expected):
    text = RECIPE if old in RECIPE else RECIPE + SETTINGS
    assert sentence(write(text, old, new), setting=None if old in RECIPE else "small") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.yaml is empty"),
        ("- 1", "x.yaml must be a mapping of keys to values"),
        ("just text", "x.yaml must be a mapping of keys to values"),
        ("settings: 3", "x.yaml: settings must be a mapping of keys to values"),
        ("profile: a", "x.yaml: profile: a setting is chosen by --setting NAME"),
        ("profiles: {a: {}}", "x.yaml: profiles: they are settings now: settings: {NAME: …}"),
        ("profiles.a.seed: 3", "x.yaml: profiles.a.seed: they are settings now: settings: {NAME: …}"),
        (
            "settings.a.seed: 3",
            "x.yaml: settings.a.seed: write what is under settings as a mapping, settings: {NAME: …}",
        ),
        ("extends: gsm8k-0.5b", "there is no recipe 'gsm8k-0.5b' (it is a setting)"),
        ("setting: a", "x.yaml: setting: a setting is chosen by --setting NAME"),
        (
            "settings: {countdwn: {seed: 3}}",
            "x.yaml: settings.countdwn is no shipped setting (did you mean 'countdown'?), so say which one it extends",
        ),
        ("a: \x07", "x.yaml: unacceptable character #x0007"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(write, text, expected):
    assert sentence(write(text)).startswith(expected)


def test_files_that_cannot_be_read(write, tmp_path):
    write()
    assert sentence("y.yaml").startswith("there is no recipe file y.yaml (known: arpo, ")
    assert sentence("./grqo.yaml") == "there is no recipe file ./grqo.yaml (did you mean 'grpo'?)"
    assert sentence(f"{tmp_path}/") == f"cannot read {tmp_path}/: Is a directory"
    Path("latin.yaml").write_bytes(b"paper: \xe9")
    assert sentence("latin.yaml") == "latin.yaml is not a text file in UTF-8"
    assert sentence("grqo") == "there is no recipe 'grqo' (did you mean 'grpo'?)"


# What is wrong in an override: the sentence starts with it, as typed.


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("explore.0.m=3", "explore.0.uniform.m is not a key (known: n)"),
        ("explore.0.uniform.n=-3", "explore.0.uniform.n is -3, but should be at least 1"),
        ("explore.1.n=3", "explore.1 does not exist: explore has 1 entry, numbered from 0"),
        ("explore.first.n=3", "explore.first does not exist: explore has 1 entry, numbered from 0"),
        ("explore=uniform", 'explore is "uniform", but should be a list'),
        ("lr=1e-4", "lr is not a key (did you mean 'learn.lr'?)"),
        ("train.stepz=3", "train.stepz is not a key (did you mean 'steps'?)"),
        ("train.steps.x=3", 'train.steps is {"x": 3}, but should be a whole number'),
        ("seed=[1", "expected ',' or ']', but got '<stream end>'"),
        ("seed=", "seed is null, but should be a whole number"),
        ("learn.lr.x=3", "learn.lr is 0.01 and has no key 'x'"),
        ("train.trackers.0=x", "train.trackers is not written yet, so write it as a whole (train.trackers=[...])"),
        ("train.tokens=null", "train: one of steps, tokens and seconds must be set, or the run never ends"),
        ("task.countdown.cap=5", "task.countdown: cap (5) must be at least highest (12)"),
    ],
)
def test_a_mistake_in_an_override_names_the_override(write, override, expected):
    assert sentence(write(), ["seed=1", override, "reward.error=0"], setting="small") == f"{override}: {expected}"


def test_where_several_overrides_may_be_at_fault_all_are_named(write):
    expected = (
        "train.tokens=null train.keep=3: train: one of steps, tokens and seconds must be set, or the run never ends"
    )
    assert sentence(write(), ["train.tokens=null", "seed=1", "train.keep=3"]) == expected


@pytest.mark.parametrize("override", ["train.steps", "=3", "train..steps=3", ""])
def test_an_override_has_a_key_and_a_value(write, override):
    expected = f"an override is written key=value, as in train.steps=200, not {override!r}"
    assert sentence(write(), [override]) == expected


def test_a_fixed_mistake_is_not_blamed_and_a_later_one_is(write):
    path = write(old="n: 8", new="n: 0")
    assert load_recipe(path, ["explore.0.n=3"]).explore == [Uniform(n=3)]
    assert sentence(path, ["explore.0.n=-1", "explore=[{uniform: {n: -2}}]"]).startswith(
        "explore=[{uniform: {n: -2}}]: "
    )


# What overrides and settings mean.


def test_overrides_are_yaml_values_at_dotted_keys(write):
    recipe = load_recipe(
        write(),
        [
            "learn.lr=1e-4",
            "explore.0.n=3",
            "explore.0.uniform.n=16",  # the same place in full: the last one counts
            "credit.main.0.std=false",  # into a bare name
            "train.tokens=1_000",
            "train.steps=7",
            "objective.surrogate.clip=[0.2, 0.28]",
            "objective.aggregate.token_mean.denominator=with_signal",
            "objective.kl=0.001",
            "model=/a folder/of mine",
            "paper=no",
        ],
    )
    assert recipe.learn.lr == 0.0001
    assert recipe.explore == [Uniform(n=16)]
    assert recipe.credit == {"main": [GroupMean(std=False)]}
    assert (recipe.train.tokens, recipe.train.steps) == (1000, 7)
    assert recipe.objective.surrogate == Clip(low=0.2, high=0.28)
    assert recipe.objective.aggregate == TokenMean(denominator="with_signal")
    assert recipe.objective.kl == Kl(coef=0.001)
    assert (recipe.model, recipe.paper) == ("/a folder/of mine", "no")


def test_a_mapping_is_merged_a_list_replaced_and_a_name_means_defaults(write):
    path = write(old="task: countdown", new="task: {countdown: {highest: 9, cap: 49}}")

    def load(*overrides):
        return load_recipe(path, overrides)

    assert load("task.countdown={cap: 30}").task == TASKS["countdown"](highest=9, cap=30)
    assert load("task=countdown").task == TASKS["countdown"]()
    assert load("explore=[uniform, {uniform: {n: 4}}]").explore == [Uniform(), Uniform(n=4)]
    assert load("explore=[uniform, {uniform: {n: 4}}]", "explore.1.n=5").explore == [Uniform(), Uniform(n=5)]
    assert load("learn={lr: 0.5}", "learn={epochs: 2}").learn.model_dump(include={"lr", "epochs"}) == {
        "lr": 0.5,
        "epochs": 2,
    }


def test_a_component_written_as_a_whole_replaces_one_of_the_same_name(write):
    """Whoever writes ``task={table: …}`` cannot see the options of the recipe's own table, and means none of them."""
    path = write(old="task: countdown", new="task: {countdown: {highest: 9, cap: 49}}")

    def load(*overrides):
        return load_recipe(path, overrides)

    assert load("task={countdown: {cap: 30}}").task == TASKS["countdown"](cap=30)
    assert load("task={countdown: }").task == TASKS["countdown"]()
    assert load("task={countdown: {cap: 30}}", "task.cap=31", "task.countdown.highest=7").task == TASKS["countdown"](
        cap=31, highest=7
    )
    dapo = load_recipe("dapo", ["task={table: {heldout_data: a.jsonl}}"], setting="paper").task
    assert dapo == TASKS["table"](heldout_data="a.jsonl")
    assert load("objective={aggregate: {token_mean: {}}}").objective.aggregate == TokenMean()
    Path("mine.yaml").write_text("extends: dapo\ntask: {table: {heldout_data: a.jsonl}}\n")
    assert load_recipe("mine.yaml", setting="paper").task == TASKS["table"](heldout_data="a.jsonl")


@pytest.mark.parametrize(
    ("override", "place", "name", "whole"),
    [
        ("task.gym.dataset=chain_sum", "task", "countdown", "{gym: {dataset: chain_sum}}"),
        (
            "task.table.verifier.math.tolerance=0.1",
            "task",
            "countdown",
            "{table: {verifier: {math: {tolerance: 0.1}}}}",
        ),
        ("task.table={heldout_data: a.jsonl}", "task", "countdown", "{table: {heldout_data: a.jsonl}}"),
        ("task.gym=", "task", "countdown", "{gym: null}"),
        ("explore.0.refill.n=4", "explore.0", "uniform", "{refill: {n: 4}}"),
        ("objective.surrogate.sapo.positive=0.1", "objective.surrogate", "clip", "{sapo: {positive: 0.1}}"),
    ],
)
def test_a_key_into_another_component_says_what_to_write_instead(write, override, place, name, whole):
    """Not ``task.countdown.gym is not a key (known: cap, highest, pool, seed, sizes)``, which helps nobody."""
    path = write(RECIPE, "task: countdown", "task: countdown\nobjective: {surrogate: {clip: {}}}")
    [other] = [word for word in override.partition("=")[0].split(".") if word in whole][:1]
    expected = f"{place} is {name!r}, which has no {other!r}; to replace it, write it as a whole: "
    assert sentence(path, [override]) == f"{override}: {expected}'{place}={whole}'"


def test_another_task_replaces_the_one_in_the_file(write):
    other = next(name for name in TASKS if name != "countdown")
    path = write(old="task: countdown", new="task: {countdown: {highest: 9}}")
    assert f"task.{other}." in sentence(path, [f"task={{{other}: {{highest: 9}}}}"])  # and not countdown's `highest`


def test_a_setting_of_the_file_lies_over_its_values_and_under_the_overrides(write):
    path = write()
    plain, small, large = (load_recipe(path, setting=name) for name in (None, "small", "large"))
    assert (plain.learn.lr, plain.explore[0].n, plain.from_setting) == (1e-6, 8, None)
    assert (small.learn.lr, small.explore[0].n, small.from_setting) == (0.01, 2, "small")
    assert small.learn.betas == (0.5, 0.6)
    assert (large.learn.lr, large.explore[0].n, large.task.highest) == (0.02, 8, 20)
    assert load_recipe(path, ["learn.lr=3.0"], "large").learn.lr == 3.0
    assert load_recipe(path).name == "x"


def test_a_setting_reaches_a_list_by_its_position(write):
    path = write(old="explore.0.n: 2", new="explore:\n      - uniform: {n: 5}")
    assert load_recipe(path, ["explore.0.n=6"], "small").explore == [Uniform(n=6)]
    assert load_recipe(path, setting="small").explore == [Uniform(n=5)]


def test_as_many_minibatches_as_problems_are_fine(write):
    assert load_recipe(write(), ["train.problems=4", "learn.minibatches=4"]).learn.minibatches == 4


def test_an_evaluation_may_truncate_and_be_greedy():
    asked = load_options(
        Evaluate,
        {"model": "base:countdown", "task": "countdown"},
        ["sample.top_p=0.9", "sample.top_k=5", "sample.temperature=0"],
        "evaluate",
    )
    assert (asked.sample.top_p, asked.sample.top_k, asked.sample.temperature) == (0.9, 5, 0)


# Identity.


def test_the_fingerprint_follows_what_decides_a_run_and_nothing_else(write):
    path = write()
    recipe = load_recipe(path, setting="small")
    for same in ("train.save_every=7", "train.keep=9", "train.trackers=[]", "paper=other", "name=other"):
        assert load_recipe(path, [same], "small").fingerprint() == recipe.fingerprint()
        assert recipe.difference(load_recipe(path, [same], "small")) == []
    changes = {
        "learn.lr=0.5": ["learn.lr: 0.01 -> 0.5"],
        "explore=[uniform, uniform]": ["explore.0.uniform.n: 2 -> 8", "explore.1.uniform.n: absent -> 8"],
        "seed=3": ["seed: 0 -> 3"],
        "reward.timeout=0": ["reward.timeout: null -> 0.0"],
        "train.tokens=2_000_000": ["train.tokens: 1600000 -> 2000000"],
    }
    for override, lines in changes.items():
        other = load_recipe(path, [override], "small")
        assert recipe.difference(other) == lines
        assert other.fingerprint() != recipe.fingerprint()


def test_the_order_of_streams_is_no_difference(write):
    path = write(RECIPE, "[group_mean]", "[group_mean]\n  branch: [group_mean]")
    one, other = (
        load_recipe(path, [f"objective.streams={s}"]) for s in ("{main: 1, branch: 2}", "{branch: 2, main: 1}")
    )
    assert one.difference(other) == []
    assert one.fingerprint() == other.fingerprint()


def test_a_recipe_extends_another_with_its_settings(write):
    path = write("extends: deep-grpo\nlearn: {lr: 3.0e-6}\nsettings: {countdown: {explore: [{uniform: {n: 5}}]}}")
    plain, small = (load_recipe(path, setting=name) for name in ("paper", "countdown"))
    deep = load_recipe("deep-grpo", setting="paper")
    assert plain.difference(deep) == ["learn.lr: 3e-06 -> 1e-06"]
    assert [stage.model_dump() for stage in small.explore] == [{"n": 5}]
    assert (small.credit, small.learn.lr) == (deep.credit, 3e-6)
    assert (small.name, small.from_setting, small.model) == ("x", "countdown", "base:countdown")


def test_a_recipe_cannot_extend_what_is_none(write):
    assert sentence(write("extends: [grpo]")).startswith("x.yaml: extends is the name of another recipe, not ['grpo']")
    assert sentence(write("extends: gropo")).startswith("there is no recipe 'gropo' (did you mean 'grpo'")
    assert "extends is the name of another recipe" in sentence(write("extends: ./x.yaml"))


def test_recipes_that_extend_each_other_are_refused(write):
    Path("y.yaml").write_text("extends: x.yaml\n")
    assert sentence(write("extends: y.yaml")) == "y.yaml: extends is the name of another recipe, not 'x.yaml'"
