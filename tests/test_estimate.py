"""The estimate of a run, against what really is counted, stored and kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from outrider.cli import main
from outrider.config import Recipe, load_recipe
from outrider.learn.recompute import recompute_layers
from outrider.model.attention import use_plans
from outrider.model.device import DTYPES, products_in
from outrider.model.forward import own_hidden
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions
from outrider.sample.decoder import PackedDecoder
from outrider.sample.store import Store
from outrider.train.estimate import activations, estimate, memory, most_rollouts, shape_of
from policy_rows import row
from small import random_model


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_exactly(family: str, tied: bool) -> None:
    model = random_model(family, tie_word_embeddings=tied)
    shape = shape_of(model.config.to_dict())
    assert shape is not None
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    if tied:
        for targets in ("all-linear", ["q_proj", "down_proj"]):
            adapted = random_model(family)
            add_adapter(adapted, LoraOptions(rank=3, targets=targets), 0)
            trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
            assert 3 * shape.layers * sum(a + b for a, b in shape.adapted(targets)) == trained


def kept_bytes(dtype: str, layers: int, recomputed: bool) -> tuple[float, object]:
    """Bytes that autograd keeps for each token, weights and their copies left out; and the model's shape."""
    model = random_model("qwen2", hidden_size=64, intermediate_size=160, num_hidden_layers=layers)
    use_plans(model)
    if recomputed:
        recompute_layers(model)
    ids = np.arange(32, dtype=np.int32) % 30
    rows = [replace(row([1.0] * 32), context_ids=ids[:8], token_ids=ids) for _ in range(8)]
    weights = {tuple(p.shape) for p in model.parameters()} | {tuple(p.shape[::-1]) for p in model.parameters()}
    storages: dict[int, tuple[int, torch.Tensor]] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        if tuple(x.shape) not in weights:
            storages[x.untyped_storage().data_ptr()] = (x.untyped_storage().nbytes(), x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), products_in(DTYPES[dtype], torch.device("cpu")):
        own_hidden(model, rows)
    return sum(size for size, _ in storages.values()) / (8 * 40), shape_of(model.config.to_dict())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_are_what_autograd_keeps(dtype: str) -> None:
    two, shape = kept_bytes(dtype, 2, False)
    four, _ = kept_bytes(dtype, 4, False)
    assert activations(shape, 4 if dtype == "float32" else 2) == pytest.approx((four - two) / 2, rel=0.08)
    recomputed = (kept_bytes(dtype, 4, True)[0] - kept_bytes(dtype, 2, True)[0]) / 2
    assert recomputed == pytest.approx(4 * shape.width, rel=0.01)


def test_keys_and_values_are_those_of_a_wave() -> None:
    """All responses of a step in one wave, as long as the context allows."""
    model = random_model("qwen3", hidden_size=32)
    use_plans(model)
    recipe = load_recipe("grpo", ["explore.0.n=2", "train.problems=3", "sample.max_tokens=900"])
    told = memory(recipe, shape_of(model.config.to_dict()), "qwen3")["keys and values"]
    store = Store(torch.zeros(6, dtype=torch.int64), 128, 2)
    with torch.no_grad():
        PackedDecoder(model).forward(torch.zeros(6, 128, dtype=torch.int64), store)
    assert told == sum(x.untyped_storage().nbytes() for x in [*store.keys, *store.values])


def test_a_stage_without_a_bound_is_counted_as_full_waves() -> None:
    """An upper bound: what it asks for at once is its own matter."""
    shape = shape_of(random_model("qwen3", hidden_size=32).config.to_dict())

    def keys(name: str) -> int:
        recipe = load_recipe(name, ["explore.0.n=2", "train.problems=3", "sample.rows=50"])
        return memory(recipe, shape, "qwen3")["keys and values"]

    assert 6 * keys("dapo") == 50 * keys("grpo")  # grpo never has more than 2 x 3 rows


def test_the_bound_of_rollouts() -> None:
    def most(name: str, *overrides: str) -> int:
        recipe = load_recipe(name, list(overrides))
        return most_rollouts(recipe.explore, recipe.train.problems)[0]

    assert most("grpo", "train.problems=5") == 5 * 8
    assert most("dars-hw", "train.problems=5", "explore.1.n_max=40") == 5 * 40
    assert most("xrpo", "train.problems=16", "explore.1.total=200") == 200
    assert most("deep-grpo", "train.problems=5", "explore.1.cap=null") == 5 * 8 * (1 + 1 * 8)
    assert most("deep-grpo", "train.problems=5", "explore.1.cap=9") == 5 * 8 + 9
    assert most("treepo", "train.problems=5") == 5 * 16
    assert most("tree-grpo", "train.problems=5") == 5 * (4 + 4 * 2)
    assert most("cures", "train.problems=5") == 5 * 8
    assert most("remax", "train.problems=5") == 5 * (7 + 1)


def test_what_an_adapter_and_low_numbers_save() -> None:
    shape = shape_of(random_model("llama", hidden_size=64).config.to_dict())

    def parts(*overrides: str) -> dict[str, int]:
        asked: Recipe = load_recipe("grpo", ["objective.kl=0.1", *overrides])
        return memory(asked, shape, "llama")

    whole, low, lora = parts(), parts("policy.dtype=bfloat16"), parts("policy={dtype: bfloat16, lora: {rank: 2}}")
    assert whole["weights"] == low["weights"] == 4 * shape.parameters
    assert whole["sampler's copy"] == 2 * low["sampler's copy"]
    assert lora["sampler's copy"] == 0
    assert lora["weights"] == 2 * shape.parameters + lora["gradients"]
    assert lora["AdamW"] == 2 * lora["gradients"] < whole["AdamW"] / 4
    assert parts("learn.gradient_checkpointing=true")["activations"] < whole["activations"]


def test_a_dry_run_says_it_in_comments(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert main(["train", "deep-grpo", "--setting", "gsm8k-0.5b", "model=base:countdown", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "# at most 4,608 rollouts and 3,538,944 generated tokens a step (64 problems, 768 tokens" in shown
    assert "GiB for 448,128 parameters: weights" in shown
    (tmp_path / "again.yaml").write_text(shown)
    assert load_recipe(str(tmp_path / "again.yaml")).train.problems == 64
    assert main(["train", "dapo", "--setting", "paper", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "and what refill adds" in shown
    assert "# memory: Qwen/Qwen2.5-32B has no config.json on this machine, so there is no estimate" in shown
    recipe = load_recipe("grpo")
    assert estimate(recipe, {"num_local_experts": 8})[1].endswith(
        "is no dense decoder that this knows, so there is no estimate"
    )
