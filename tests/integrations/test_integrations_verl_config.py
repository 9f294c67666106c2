"""``outrider verl-config``: what verl is told, and what is refused. Where verl is installed, its own configuration is
decides which keys are right."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
import yaml

from outrider.cli import main
from outrider.config import list_recipes, load_recipe, read_yaml
from outrider.errors import UserError
from outrider.integrations.verl_config import recipe_of, recipe_text, verl_settings
from outrider.integrations.verl_config_command import load_for_verl, verl_yaml
from outrider.integrations.verl_denominators import denominators_of
from outrider.objective import SURROGATES
from outrider.objective.ratio import TokenRatios

STEPS = ["train.steps=10", "train.tokens=null"]
ACTOR = "actor_rollout_ref.actor"


def recipe(name: str, *overrides: str):
    return load_for_verl(name, [*STEPS, *overrides], None)


def method(name: str, *overrides: str) -> dict:
    return verl_settings(recipe(name, *overrides)).method


@pytest.mark.parametrize(
    ("name", "rows"), [("grpo", 8), ("dars-hw", 32), ("deep-grpo", 16), ("xrpo", 8), ("dars-pivots", 40)]
)
def test_a_step_of_the_most_rows_is_one_optimizer_batch(name, rows) -> None:
    """Verl's mini-batch is ``ppo_mini_batch_size * rollout.n`` rows. By hand: DARS-HW has at most 32 per problem,
    DEEP-GRPO 8 roots and 256 branches over 32 problems."""
    told = method(name)
    assert told["actor_rollout_ref.rollout.n"] == rows
    assert told[f"{ACTOR}.ppo_mini_batch_size"] == told["data.train_batch_size"] == 32


@pytest.mark.parametrize(
    ("name", "override", "said"),
    [
        ("attnrl", "", "needs the policy's attention"),
        ("forking-tokens", "learn.minibatches=1", "objective.select"),
        ("entropy-shaping", "", "entropy of every sampled token"),
        ("arpo", "", "entropy of every sampled token"),
        ("dapo", "", "no maximum of rollouts per step"),
        ("grpo", "objective.entropy.target=0.5", "objective.entropy.target"),
        ("grpo", "policy.lora={rank: 8}", "policy.lora=null"),
        ("grpo", "objective.kl={coef: 0.1, mask_without_signal: true}", "mask_without_signal"),
        ("grpo", "objective.kl={coef: 0.1, reset_every: 3}", "reset_every"),
        ("grpo", "learn.minibatches=4", "learn.minibatches=1"),
        ("grpo", "learn.deterministic=true", "learn.deterministic=false"),
        ("grpo", "learn.compile=true", "learn.compile=false"),
        ("grpo", "learn.schedule=cosine", "only a constant one"),
        ("grpo", "learn.weight_decay=0.1", "learn.decay=all"),
        ("dars-hw-breadth", "learn.warmup=5 updates", "counts updates"),
        ("grpo", "train.steps=null train.seconds=5", "train.steps=200"),
        ("grpo", "train.tokens=1000", "train.tokens=null"),
        ("grpo", "train.seconds=5", "train.seconds=null"),
        ("grpo", "train.evaluate_at=[0.5]", "train.evaluate_at="),
        ("deep-grpo", "objective.kl=0.001", "objective.kl.coef=0"),
        ("xrpo", "objective={aggregate: sequence_mean, kl: 0.001}", "objective.kl.coef=0"),
        ("dars-hw", "objective.entropy.bonus=0.001", "objective.entropy.bonus=0"),
        ("grpo", "objective.correction={truncate: {level: geometric}}", "geometric"),
        ("grpo", "objective.correction={mask: {level: token}}", "mask.low is 0"),
    ],
)
def test_unsupported_recipe_is_refused_in_one_sentence(name, override, said) -> None:
    overrides = override.split(" train") if override.startswith("train") else [override] if override else []
    if len(overrides) == 2:
        overrides[1] = "train" + overrides[1]
    with pytest.raises(UserError, match=said) as refused:
        verl_settings(recipe(name, *overrides))
    assert str(refused.value).startswith("verl does not support this recipe: ")
    assert "\n" not in str(refused.value)


def test_every_shipped_recipe_is_carried_or_refused() -> None:
    """Never a traceback, in Countdown; and the three of the acceptance are carried."""

    def refusal(name: str) -> str:
        try:
            verl_settings(load_for_verl(name, [*STEPS, "learn.minibatches=1"], None))
        except UserError as refused:
            return str(refused)
        return ""

    said = {shipped.name: refusal(shipped.name) for shipped in list_recipes()}
    assert all(sentence.startswith("verl does not support this recipe: ") for sentence in said.values() if sentence)
    carried = {name for name, sentence in said.items() if not sentence}
    assert {"grpo", "dars-hw", "deep-grpo", "dars-pivots", "xrpo", "xrpo-deep", "treerl", "gspo"} <= carried
    assert not {"dapo", "greso", "attnrl", "forking-tokens", "clip-cov", "kl-cov"} & carried


@pytest.mark.parametrize(
    ("name", "overrides", "mode", "weighted"),
    [
        ("deep-grpo", [], "token-sum", True),
        ("dars-hw", [], "token-sum", True),
        ("grpo", ["objective.kl=0.04"], "token-mean", False),
        ("xrpo", ["objective.kl=0.04"], "token-mean", False),  # steps of any size: verl counts the tokens it has
        ("grpo", ["objective={kl: 0.04, aggregate: sequence_mean}"], "seq-mean-token-mean", False),
        ("dr-grpo", ["objective.entropy.bonus=0.01"], "seq-mean-token-sum-norm", False),
    ],
)
def test_denominators_are_those_of_the_recipe(name, overrides, mode, weighted) -> None:
    found = denominators_of(recipe(name, *overrides))
    assert (found.mode, found.weighted) == (mode, weighted)
    assert found.full == mode.startswith("seq")


@pytest.mark.parametrize("name", SURROGATES)
def test_a_surrogate_is_homogeneous_in_the_advantages_of_a_row(name) -> None:
    """Which is why the weights of the loss may travel in the advantages: a factor of each row's is one of its loss."""
    generator = torch.Generator().manual_seed(1)
    lengths = [5, 3]
    log_ratio = torch.randn(8, generator=generator, dtype=torch.float64) * 0.5
    advantages = torch.randn(8, generator=generator, dtype=torch.float64)
    factor = torch.tensor([0.01] * 5 + [3.0] * 3, dtype=torch.float64)
    logprobs, live = -torch.rand(8, generator=generator, dtype=torch.float64), torch.ones(8, dtype=torch.bool)

    def gain(advantages):
        told = TokenRatios(log_ratio, logprobs, advantages, live, lengths, -logprobs, logprobs[:, None])
        return SURROGATES[name]().gain(told)[0]

    torch.testing.assert_close(gain(advantages * factor), gain(advantages) * factor)


def test_what_verl_does_otherwise_is_said_in_the_file() -> None:
    """A model of a long context, greedy evaluation and a KL: each is a line; none is without its cause."""
    said = "\n".join(verl_settings(recipe("grpo", "objective.kl=0.1", "model=nobody/unknown")).notes)
    assert "prompts have at most 2048 tokens" in said
    assert "greedy" in said
    assert "10 nats" in said
    assert "plain sum" not in said
    short = "\n".join(verl_settings(recipe("grpo", "evaluate.greedy=false")).notes)
    assert not any(part in short for part in ("2048", "greedy", "10 nats"))
    assert "plain sum" in short
    assert verl_settings(recipe("grpo")).running["data.max_prompt_length"] == 256 - 96  # all of its context


def test_the_old_policy_is_the_samplers_only_if_the_recipe_says_so() -> None:
    prefix = "algorithm.rollout_correction."
    for override, expected in (
        ("", (False, "token", 2.0)),  # another engine draws, so the difference is corrected
        ("objective.correction=null", (True, None, 2.0)),
        ("objective.correction=recompute", (False, None, 2.0)),
        ("objective.correction={truncate: {level: sequence, cap: 3}}", (False, "sequence", 3.0)),
        ("objective.correction={mask: {level: token, low: 0.5, high: 5}}", (False, "token", "0.5_5.0")),
    ):
        told = method("grpo", *([override] if override else []))
        found = tuple(told[prefix + key] for key in ("bypass_mode", "rollout_is", "rollout_is_threshold"))
        assert found == expected, override


def test_a_recipe_survives_its_way_through_omegaconf() -> None:
    """A prompt may hold what OmegaConf would interpolate."""
    given = recipe("grpo", "summary=what ${is} \\${this}")
    text = recipe_text(given)
    assert "${" not in text
    assert recipe_of(text) == given


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"name": "grpo", "gone": 1}'])
def test_what_is_no_recipe_is_one_sentence(text) -> None:
    """A file that was not written by this version of the command."""
    with pytest.raises(UserError, match=r"^data\.outrider holds no recipe \(.*outrider verl-config$"):
        recipe_of(text)


def test_an_engine_is_no_choice(capsys) -> None:
    assert main(["verl-config", "grpo", "engine.learner=fsdp2"]) == 2
    assert "verl is the engine" in capsys.readouterr().err


def test_the_command_writes_a_new_file(tmp_path, capsys) -> None:
    out = tmp_path / "verl.yaml"
    assert main(["verl-config", "dars-hw", *STEPS, "--out", str(out)]) == 0
    assert out.read_text().startswith("# Experimental: no training with verl was run.")
    told = read_yaml(out.read_text(), str(out))
    assert told["trainer"]["total_training_steps"] == 10
    assert json.loads(told["data"]["outrider"])["explore"][1]["rebalance"]["n_max"] == 32
    capsys.readouterr()
    assert main(["verl-config", "dars-hw", *STEPS, "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["verl-config", "dars-hw", "train.steps=5"]) == 2  # Countdown's budget is in tokens
    assert "train.tokens=null" in capsys.readouterr().err


@pytest.fixture(scope="module")
def composed(tmp_path_factory):
    """Verl's whole configuration under ours."""
    pytest.importorskip("verl")
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    def make(name: str, *overrides: str):
        folder = tmp_path_factory.mktemp("config")
        (folder / "recipe.yaml").write_text(verl_yaml(recipe(name, *overrides)))
        with initialize_config_dir(str(folder), version_base=None):
            config = compose("recipe", overrides=["hydra.searchpath=[pkg://verl.trainer.config]"])
        OmegaConf.resolve(config)
        return config

    return make


@pytest.mark.parametrize(
    ("name", "overrides"),
    [("grpo", ["objective.kl=0.04"]), ("dars-hw", ["learn.warmup=3 steps"]), ("deep-grpo", ["policy.dtype=bfloat16"])],
)
def test_every_key_is_one_of_verls_and_passes_its_checks(composed, name, overrides) -> None:
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    config = composed(name, *overrides)
    with initialize_config_module("verl.trainer.config", version_base=None):
        defaults = compose("ppo_trainer")
    settings = verl_settings(recipe(name, *overrides))
    # the last is a field of a dataclass of verl's alone, which the section is made into below
    manager = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
    ours = {"data.outrider", manager, *(key for key in settings.method if key.startswith("ray_kwargs"))}
    for key, value in {**settings.running, **settings.method}.items():
        place, _, last = key.rpartition(".")
        assert key in ours or last in OmegaConf.to_container(OmegaConf.select(defaults, place)), key
        assert OmegaConf.select(config, key) == value, key
    assert not need_critic(config)
    assert need_reference_policy(config) == ("kl" in "".join(overrides))
    validate_config(config, need_reference_policy(config), use_critic=False)
    for section in ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm"):
        omega_conf_to_dataclass(OmegaConf.select(config, section))


def test_verls_own_command_reads_the_file(tmp_path) -> None:
    """``main_ppo --cfg job`` prints the configuration that it would train with."""
    pytest.importorskip("verl")
    (tmp_path / "deep.yaml").write_text(verl_yaml(recipe("deep-grpo")))
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(tmp_path), "--config-name", "deep"]
    done = subprocess.run(
        [*command, "--cfg", "job", "--resolve"], capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    told = yaml.safe_load(done.stdout[done.stdout.index("actor_rollout_ref:") :])
    assert told["algorithm"]["adv_estimator"] == told["actor_rollout_ref"]["actor"]["policy_loss"]["loss_mode"]
    assert recipe_of(told["data"]["outrider"]) == recipe("deep-grpo")


def test_the_learning_rate_warms_up_as_ours_does(composed) -> None:
    from verl.utils.torch_functional import get_cosine_schedule_with_warmup

    optim = composed("grpo", "learn.warmup=4 steps")["actor_rollout_ref"]["actor"]["optim"]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = get_cosine_schedule_with_warmup(
        optimizer, optim.lr_warmup_steps, 10, optim.min_lr_ratio, optim.num_cycles, zero_indexed_step=False
    )
    rates = []
    for _ in range(10):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    learn = load_recipe("grpo", ["learn.warmup=4 steps"]).learn
    assert rates == pytest.approx([learn.warm(step, step) for step in range(10)])
