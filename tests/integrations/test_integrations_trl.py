"""Credit inside TRL's GRPOTrainer, on a CPU. What needs TRL is skipped without it: ``make environments`` has it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import trl_cases as cases

from outrider.config import list_recipes, load_recipe
from outrider.credit.arrays import chain_of
from outrider.errors import UserError
from outrider.integrations.trl import CreditGRPOTrainer, grpo_config
from outrider.integrations.trl_chain import CarriedChain

needs_trl = pytest.mark.skipif(find_spec("trl") is None, reason="needs trl, as `make environments` installs it")

CHAINS = {
    "group_mean": ["group_mean"],
    "without std": [{"group_mean": {"std": False}}],
    "leave_one_out, polarity": ["leave_one_out", {"polarity": {"positive": 0.5}}],
    "maxrl": ["maxrl"],
    "reinforce_pp": ["reinforce_pp"],
    "passk": [{"passk": {"k": 2}}],
    "overlong": [{"overlong": {"max_tokens": 16, "buffer": 12}}, "group_mean"],
    "position": ["group_mean", {"position": {"first_step": 1}}],
    "novelty": ["group_mean", "novelty"],
    "perplexity": ["group_mean", {"perplexity": {"weight": 0.1}}],
    "entropy_advantage": ["group_mean", "entropy_advantage"],
    "both": ["group_mean", "perplexity", "entropy_advantage"],
}
READ = {"novelty": {"logprobs"}, "perplexity": {"logprobs"}, "entropy_advantage": {"entropies"}}
READ |= {"both": {"logprobs", "entropies"}}


def trained(folder: Path, rows: Any, changes: dict[str, Any] | None = None, **options: Any) -> Any:
    """A trainer after its steps; rows for one generation batch, or a list for each of several."""
    script = rows if isinstance(rows[0], list) else [rows]
    trainer = cases.Scripted(script, cases.config(folder, **(changes or {})), **options)
    trainer.train()
    assert not trainer.script
    return trainer


# advantages


@needs_trl
@pytest.mark.parametrize("name", CHAINS)
def test_the_loss_is_given_the_advantages_of_outriders_own_groups(name, tmp_path):
    """Ragged completions, tool output, unscorable ones; rows are shuffled and cut into micro-batches on the way."""
    rows = cases.drawn(3, 12)
    assert any(row.reward is None for row in rows)
    assert any(any(row.tool) for row in rows)
    trainer = trained(tmp_path, rows, chain=CHAINS[name])
    expected = cases.by_outrider(chain_of(CHAINS[name]), rows, read=trainer.read)
    assert sum(advantages_T.any() for advantages_T in expected) >= 6
    assert cases.largest_difference(trainer.seen, rows, expected) <= 1e-6
    assert trainer.read.keys() == READ.get(name, set())


@needs_trl
@pytest.mark.parametrize("each", [1, 2], ids=["by an own pass", "as TRL computed them"])
def test_chains_read_the_numbers_of_the_model_at_the_sampling_temperature(each, tmp_path):
    """With several optimizer steps for a generation batch TRL computes log-probabilities itself."""
    rows = cases.drawn(5, 12)
    changes = {"gradient_accumulation_steps": 2 // each, "steps_per_generation": 2, "max_steps": each}
    trainer = trained(tmp_path, rows, changes, chain=CHAINS["novelty"] if each == 2 else CHAINS["both"])
    for name, values_BT in trainer.read.items():
        for row, values_T in zip(rows, values_BT.numpy(), strict=True):
            own_T = cases.policy_numbers(row)[name]
            np.testing.assert_allclose(values_T[: len(own_T)], own_T, atol=1e-5)


@needs_trl
def test_a_row_without_verdict_or_token_gets_zero_and_changes_no_sibling(tmp_path):
    """The first group: a success, two failures, and a success that is truncated, so that TRL masks it; its mean is
    1 / 3 and not 1 / 2. The second: one without a verdict, and one whose tokens are all a tool's."""
    end, length = 2, 5
    rewards = [1.0, 0.0, 0.0, 1.0, None, 1.0, 0.0, 1.0]
    rows = [
        cases.Completion([1, 4], [3 + i, *[9] * (length - 2), end], [False] * length, r) for i, r in enumerate(rewards)
    ]
    rows[3] = rows[3]._replace(ids=[6, 9, 9, 9, 9])
    rows[7] = rows[7]._replace(tool=[True] * length)
    changes = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "mask_truncated_completions": True}
    trainer = trained(tmp_path, rows, changes, chain=[{"group_mean": {"std": False}}])
    found = {ids[0] - 3: advantages_T for ids, advantages_T in trainer.seen}
    firsts = [found[i][0] for i in range(8)]
    assert firsts == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0, 0, 0.5, -0.5, 0])
    assert all((advantages_T == advantages_T[0]).all() for advantages_T in found.values())
    [logged] = [entry for entry in trainer.state.log_history if "credit/unscorable" in entry]
    shares = [logged[f"credit/{name}"] for name in ("unscorable", "masked", "zero_advantage")]
    assert shares == [1 / 8, 2 / 8, 3 / 8]


@needs_trl
def test_the_table_of_completions_has_the_mean_advantage_of_each_row(tmp_path):
    rows = cases.drawn(3, 12)
    trainer = trained(tmp_path, rows, chain=CHAINS["entropy_advantage"])
    expected = cases.by_outrider(chain_of(CHAINS["entropy_advantage"]), rows, read=trainer.read)
    means = [a_T[~np.array(row.tool)].mean() for a_T, row in zip(expected, rows, strict=True)]
    assert list(trainer._logs["advantages"]) == pytest.approx(means, abs=1e-6)


@needs_trl
def test_the_step_of_a_component_counts_generation_batches(tmp_path):
    """Two passes over each of two batches are four optimizer steps; k falls from 3 to 2 in the second batch, and would
    be 1 in the third."""
    chain = [{"annealed_passk": {"first": 3, "last": 1, "steps": 3}}]
    script = [cases.drawn(seed, 12, unscorable=0) for seed in (2, 3)]
    trainer = trained(tmp_path, script, {"num_iterations": 2, "max_steps": 4}, chain=chain)
    for step, rows in enumerate(script, 1):
        expected = cases.by_outrider(chain_of(chain), rows, step=step)
        for other_step in {1, 2, 3} - {step}:
            other = cases.by_outrider(chain_of(chain), rows, step=other_step)
            assert any(np.abs(a - b).max() > 0.1 for a, b in zip(expected, other, strict=True))
        first = trainer.seen[24 * (step - 1) :][:12]
        assert cases.largest_difference(first, rows, expected) <= 1e-6


@needs_trl
def test_evaluation_has_groups_of_its_own_size(tmp_path):
    """8 rows in groups of 2; TRL's table has room for the 12 rows of a generation batch."""
    rows = cases.drawn(4, 8, unscorable=0)
    args = cases.config(tmp_path, per_device_eval_batch_size=8, num_generations_eval=2)
    trainer = cases.Scripted([rows], args, chain=["leave_one_out"])
    trainer.evaluate(trainer.train_dataset.select(range(4)))
    expected = cases.by_outrider(chain_of(["leave_one_out"]), rows, size=2)
    assert cases.largest_difference(trainer.seen, rows, expected) <= 1e-6
    means = [a_T[~np.array(row.tool)].mean() for a_T, row in zip(expected, rows, strict=True)]
    assert list(trainer._logs["advantages"]) == pytest.approx(means, abs=1e-6)


@needs_trl
def test_two_processes_compare_groups_that_they_share(tmp_path):
    """12 rows, six in each process, so that the second of three groups has two rows in each; the batch is all 12."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", cases.__file__]
    done = subprocess.run([*words, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2)]
    rows = [row for rank in range(2) for row in cases.drawn(rank, cases.ROWS_OF_ONE)]
    read = {"logprobs": [values_T for rank in ranks for values_T in rank["read"]["logprobs"]]}
    expected = cases.by_outrider(chain_of(cases.CHAIN_OF_TWO), rows, read=read)
    widths = [len(rank["seen"][0][1]) for rank in ranks]
    assert widths[0] != widths[1]
    for rank, begin in zip(ranks, (0, cases.ROWS_OF_ONE), strict=True):
        own = slice(begin, begin + cases.ROWS_OF_ONE)
        assert cases.largest_difference(rank["seen"], rows[own], expected[own]) <= 1e-6
    means = [a_T[~np.array(row.tool)].mean() for a_T, row in zip(expected, rows, strict=True)]
    for rank in ranks:
        assert rank["logged"] == pytest.approx(means, abs=1e-6)


@needs_trl
def test_three_steps_of_the_shipped_base_with_a_recipe(tmp_path):
    """Drawn by TRL. benchmarks/trl_credit.py has thirty, after which the policy solves more."""
    trainer = cases.countdown(tmp_path, load_recipe("ppl"), steps=3, rows=64)
    before = [parameter.clone() for parameter in trainer.model.parameters()]
    trainer.train()
    assert len(trainer.differences) == 3
    assert max(trainer.differences) <= 1e-6
    assert min(trainer.credited) >= 8
    assert [entry["reward"] for entry in trainer.state.log_history if "reward" in entry] != [0, 0, 0]
    assert not all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


# success


@needs_trl
def test_success_is_read_off_a_threshold_if_one_is_given(tmp_path):
    """Rewards of 0.7 and 0.2: 0.7 succeeds at 0.7, though in float32, TRL's, it is less than 0.7."""
    rows = cases.drawn(6, 12, right=0.7, wrong=0.2)
    trainer = trained(tmp_path, rows, chain=["maxrl"], success_at=0.7)
    expected = cases.by_outrider(chain_of(["maxrl"]), rows, success_from=0.7)
    assert sum(advantages_T.any() for advantages_T in expected) >= 6
    assert cases.largest_difference(trainer.seen, rows, expected) <= 1e-6


def carried(verdicts: Any = None, success: float = 1.0) -> CarriedChain:
    return CarriedChain(
        chain_of(["group_mean"]), (), **({"verdicts": verdicts, "success": success} if verdicts else {})
    )


def test_rewards_that_are_no_verdicts_are_refused():
    nan = float("nan")
    for rewards in ([1.0, 0.0, nan], [1.0, -1.0, nan]):
        assert carried().succeeds(np.float32(rewards)).tolist() == [True, False, False]
    for rewards, strange in (([1.0, 0.5], 0.5), ([1.0, 0.0, -1.0], -1.0)):
        with pytest.raises(UserError, match=rf"reward {strange}, and .* \[0.0, 1.0\] or \[-1.0, 1.0\]: .*success_at"):
            carried().succeeds(np.float32(rewards))
    of_recipe = carried((frozenset({0.1, -0.3}),), 0.1)
    assert of_recipe.succeeds(np.float32([0.1, -0.3])).tolist() == [True, False]
    with pytest.raises(
        UserError, match=r"has the reward 0\.0"
    ):  # a recipe that punishes failures, a function that does not
        of_recipe.succeeds(np.float32([0.1, 0.0]))


@needs_trl
def test_rewards_are_those_of_the_recipes_verdicts(tmp_path):
    """w-reinforce has no baseline: with 0 for a failure in place of -1 it would learn nothing from failures."""
    recipe = load_recipe("w-reinforce", ["explore.0.n=4", "reward={incorrect: -0.3, unparseable: -0.3}"])
    values = grpo_config(recipe)
    rows = cases.drawn(7, 12, wrong=-0.3)
    trainer = trained(tmp_path, rows, values, recipe=recipe)
    expected = cases.by_outrider(recipe.credit["main"], rows)
    assert {round(float(a_T.sum()), 6) < 0 for a_T in expected} == {True, False}
    assert cases.largest_difference(trainer.seen, rows, expected) <= 1e-6
    with pytest.raises(UserError, match=r"has the reward 0\.0, and rewards of verdicts are \[-0\.3, 1\.0\]"):
        trained(tmp_path, cases.drawn(7, 12, wrong=0.0), values, recipe=recipe)


# recipes as TRL's configuration


def test_lengths_temperature_and_passes_are_those_of_the_recipe():
    changes = ["explore.0.n=5", "sample.temperature=0.8", "sample.max_tokens=40", "learn.epochs=3"]
    values = grpo_config(load_recipe("grpo", changes))
    keys = ("num_generations", "temperature", "max_completion_length", "num_iterations")
    assert [values[key] for key in keys] == [5, 0.8, 40, 3]


@pytest.mark.parametrize(
    ("recipe", "overrides", "sentence"),
    [
        ("xrpo", [], r"explore.1 is prioritise, but TRL samples the same number .*chain=recipe.credit\['main'\]"),
        ("choose", [], "explore.0 is choose"),
        ("remax", [], "explore.1 is greedy"),
        ("grpo", ["explore=[{uniform: {n: 4}}, {uniform: {n: 8}}]"], "explore.1 is uniform"),
        ("deep-grpo", ["explore=[uniform]"], "credit.branch is a separate loss stream"),
        ("grpo", ["objective.streams.main=0.5"], "objective.streams.main scales the whole loss"),
        ("forking-tokens", ["learn.minibatches=1"], "objective.select=null"),
        ("grpo", ["objective.correction=recompute"], "objective.correction=null"),
        ("grpo", ["objective.entropy.bonus=0.01"], "objective.entropy.bonus=0"),
        ("grpo", ["objective.entropy.target=0.2"], "target=null"),
        ("reinforce-pp", ["objective.kl={coef: 0.1, estimator: k2}"], "objective.kl.estimator is k2, and TRL's is k3"),
        ("grpo", ["objective.kl={coef: 0.1, mask_without_signal: true}"], "objective.kl.mask_without_signal"),
        ("grpo", ["objective.kl={coef: 0.1, reset_every: 9}"], "objective.kl.reset_every=null"),
        ("grpo", ["sample.stop=[';']"], r"sample.stop=\[\]"),
        ("gspo", [], "learn.minibatches=1"),
        ("grpo", ["objective.aggregate={token_mean: {denominator: with_signal}}"], "objective.aggregate is token_mean"),
        ("dr-grpo", ["objective.aggregate={constant: {length: 7}}"], "objective.aggregate is constant: {length: 7}"),
        ("grpo", ["objective.surrogate={clip: {ratio: sequence_token}}"], "supported are clip and unclipped"),
        ("grpo", ["objective.surrogate={clip: {dual: 1.1}}"], r"clip: {dual: 1.1}, below 1 \+ high"),
        ("cispo", ["learn.minibatches=1", "objective.aggregate=constant"], "cispo with aggregate constant; supported"),
        ("cispo", ["learn.minibatches=1", "objective.surrogate={cispo: [0.5, 4.0]}"], "cispo without low"),
        ("sapo", ["learn.minibatches=1", "objective.aggregate=token_mean"], "sapo with sequence_mean"),
        ("simko", [], "objective.surrogate is simko"),
    ],
)
def test_unsupported_recipe_is_refused_by_its_key(recipe, overrides, sentence):
    with pytest.raises(UserError, match=f"TRL does not support recipe '{recipe}': .*{sentence}") as raised:
        grpo_config(load_recipe(recipe, overrides))
    assert "\n" not in str(raised.value)
    assert ". " not in str(raised.value)


def test_many_shipped_recipes_are_carried_as_they_are():
    carried = []
    for recipe in list_recipes():
        try:
            grpo_config(load_recipe(recipe.name))
        except UserError:
            continue
        carried.append(recipe.name)
    assert {"grpo", "dr-grpo", "ppl", "entropy-shaping", "maxrl", "w-reinforce", "rloo", "reinforce-pp"} <= set(carried)
    page = (Path(__file__).parents[2] / "docs/use-outside.md").read_text()
    assert ", ".join(f"`{name}`" for name in carried) in page


SURROGATES = [
    {"clip": [0.2, 0.28]},
    {"clip": {"low": 0.2, "high": 0.28, "dual": 3.0}},
    {"clip": {"low": 0.2, "high": 0.28, "ratio": "sequence"}},
    {"clip": {"low": 1.0, "high": 0.1}},
    "unclipped",
    {"unclipped": {"ratio": "sequence"}},
]
OBJECTIVES = [{"surrogate": s, "aggregate": a} for s in SURROGATES for a in ("token_mean", "sequence_mean", "constant")]
OBJECTIVES += [
    {"surrogate": {"cispo": [None, 3.0]}, "aggregate": "token_mean"},
    {"surrogate": {"sapo": {"tau_positive": 1.2, "tau_negative": 2.0}}, "aggregate": "sequence_mean"},
    {"surrogate": {"clip": [0.2, 0.2]}, "aggregate": "token_mean", "kl": 0.1},
]


@needs_trl
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_trl_has_the_loss_of_the_recipe_with_an_advantage_for_each_token(objective):
    from compare import WIDTH, largest
    from compare.losses import Scored, by_trl, ours

    overrides = {f"objective.{key}": value for key, value in objective.items()} | {"sample.max_tokens": WIDTH}
    values = grpo_config(load_recipe("grpo", overrides))
    keys = {"loss_type", "importance_sampling_level", "epsilon_high", "delta", "beta", "use_bias_correction_kl"}
    keys |= {"sapo_temperature_pos", "sapo_temperature_neg"}
    options = {"use_bias_correction_kl": True, "epsilon_low": values.get("epsilon", 0.2)}  # TRL's defaults
    options |= {key: values[key] for key in keys & values.keys()}
    data = Scored.of(0, per_row=False)
    (their_loss, their_gradient), (our_loss, our_gradient) = by_trl(data, **options), ours(objective, data)
    assert their_loss == pytest.approx(our_loss, abs=1e-6)
    assert largest(their_gradient, our_gradient) <= 1e-6
    assert our_gradient.abs().max() > 1e-3


@needs_trl
@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_trl_takes_one_advantage_for_each_token_as_one_for_each_row(loss_type, level):
    from compare import largest
    from compare.losses import Scored, by_trl

    data = Scored.of(1)
    options = {"loss_type": loss_type, "importance_sampling_level": level}
    (by_token, gradient), (by_row, expected) = (
        by_trl(data._replace(advantages=a), **options) for a in (data.advantages, data.advantages[:, 0])
    )
    assert by_token == pytest.approx(by_row, abs=1e-9)
    assert largest(gradient, expected) <= 1e-9


@needs_trl
def test_vespo_and_the_off_policy_mask_tell_the_tokens_of_a_completion_apart_by_sign():
    """The reason for their refusal: both are meant for whole completions."""
    from trl import GRPOTrainer

    mixed, log_ratio, ones = torch.tensor([[1.0, -1.0]]), torch.tensor([[0.5, 0.5]]), torch.ones(1, 2)
    [weights] = GRPOTrainer.get_gamma_weights(mixed, log_ratio, ones, None).tolist()
    assert weights[0] != weights[1]
    kept = GRPOTrainer.get_off_policy_mask(mixed, -log_ratio, log_ratio, ones, off_policy_threshold=0.1)
    assert kept.tolist() == [[1.0, 0.0]]


# what a trainer refuses


@needs_trl
@pytest.mark.parametrize(
    ("options", "changes", "sentence"),
    [
        ({}, {}, "takes recipe= or chain=, one of the two"),
        ({"recipe": "grpo", "chain": ["group_mean"]}, {}, "takes recipe= or chain=, one of the two"),
        ({"recipe": "gpro"}, {}, "grpo"),
        ({"recipe": "grpo"}, {"num_generations": 4}, "num_generations is 4, but explore.0.n of recipe 'grpo' has 8"),
        ({"recipe": "grpo"}, {"epsilon": 0.1}, "epsilon is 0.1, but recipe 'grpo' has 0.2: GRPOConfig"),
        ({"recipe": "grpo"}, {"entropy_coef": 0.1}, "entropy_coef is 0.1, but recipe 'grpo' has 0.0"),
        (
            {"recipe": "grpo"},
            {"steps_per_generation": 4},
            "steps_per_generation is 4 and gradient_accumulation_steps is 2",
        ),
        ({"recipe": "xrpo"}, {}, "explore.1 is prioritise"),
        ({"chain": ["novelti"]}, {}, "did you mean 'novelty'?"),
        ({"chain": "group_mean"}, {}, r"a chain must be a list: write \['group_mean'\]"),
        ({"chain": ["greedy"]}, {}, "a stage 'greedy', which TRL does not draw"),
        ({"chain": ["group_mean", "until_box"]}, {}, "until_box needs the text of every token"),
        (
            {"chain": [{"overlong": {"max_tokens": 96, "buffer": 9}}, "group_mean"]},
            {"max_completion_length": 64},
            "max_completion_length is 64, but the chain assumes responses of at most 96 tokens",
        ),
        ({"chain": ["stated_goal"]}, {}, "loss_type is 'dapo', whose denominator .* 'dr_grpo' keeps it"),
        ({"chain": ["group_mean"]}, {"loss_type": "vespo"}, "loss_type is 'vespo'"),
        ({"chain": ["group_mean"]}, {"off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold"),
        (
            {"chain": ["group_mean"]},
            {"multi_objective_aggregation": "normalize_then_sum"},
            "multi_objective_aggregation is 'normalize_then_sum'",
        ),
        ({"chain": ["group_mean"]}, {"scale_rewards": "batch"}, "scale_rewards is 'batch', .* reinforce_pp"),
    ],
)
def test_a_trainer_refuses_before_it_loads_a_model(options, changes, sentence, tmp_path):
    values = grpo_config(load_recipe("grpo")) | {"per_device_train_batch_size": 8, **changes}
    with pytest.raises(UserError, match=sentence) as raised:
        CreditGRPOTrainer("no such model", print, cases.config(tmp_path, **values), **options)
    assert "\n" not in str(raised.value)


@needs_trl
def test_a_trainer_needs_its_configuration():
    with pytest.raises(UserError, match="args is None"):
        CreditGRPOTrainer("no such model", print, chain=["group_mean"])


@needs_trl
def test_chains_that_read_the_model_are_refused_with_images(monkeypatch, tmp_path):
    from trl import GRPOTrainer

    monkeypatch.setattr(GRPOTrainer, "__init__", lambda trainer, *given, **named: setattr(trainer, "_is_vlm", True))
    CreditGRPOTrainer("a model with images", print, cases.config(tmp_path), chain=["group_mean"])
    with pytest.raises(UserError, match="the chain reads entropies and logprobs, which only models of text give here"):
        CreditGRPOTrainer("a model with images", print, cases.config(tmp_path), chain=CHAINS["both"])


@needs_trl
def test_another_trl_is_refused(monkeypatch):
    """A method of another name would be overridden by none, and TRL's own advantages would be trained on."""
    from outrider.integrations import trl

    monkeypatch.setattr(trl, "GRPOTrainer", SimpleNamespace(_calculate_rewards=None))
    with pytest.raises(UserError, match="GRPOTrainer has no _generate_and_score_completions"):
        CreditGRPOTrainer("no such model")


@pytest.mark.skipif(find_spec("trl") is not None, reason="trl is installed")
def test_without_trl_a_trainer_says_how_to_install_it():
    with pytest.raises(UserError, match=r"CreditGRPOTrainer needs TRL: pip install 'trl==1.16.\*'"):
        CreditGRPOTrainer("base:countdown", chain=["group_mean"])
