"""What the estimate of memory counts, against what really is stored and kept."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import memory_main
import numpy as np
import pytest
import torch

from outrider.bench.child import PRELOAD
from outrider.config import Recipe, load_recipe
from outrider.estimate import memory as estimated
from outrider.estimate.decoder_shape import DecoderShape, shape_of
from outrider.estimate.memory import Layout, Memory, activations, memory
from outrider.learn.recompute import recompute_layers
from outrider.model.attention import use_plans
from outrider.model.device import DTYPES, products_in
from outrider.model.forward import own_hidden
from outrider.model.head import CHUNK, GPU_CHUNKS
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions
from outrider.processes.warm import warm_processes
from outrider.sample.decoder import PackedDecoder
from outrider.sample.fused import FusedDecoder
from outrider.sample.store import Store
from policy_rows import row
from small import random_model

FAMILIES = ["qwen2", "qwen3", "llama"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_exactly(family: str, tied: bool) -> None:
    model = random_model(family, tie_word_embeddings=tied)
    shape = shape_of(model.config.to_dict())
    assert shape is not None
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert shape.layer_parameters == sum(p.numel() for p in model.get_decoder().layers[0].parameters())
    if tied:
        for targets in ("all-linear", ["q_proj", "down_proj"]):
            adapted = random_model(family)
            add_adapter(adapted, LoraOptions(rank=3, targets=targets), 0)
            trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
            assert 3 * shape.layers * sum(a + b for a, b in shape.adapted(targets)) == trained


def kept_bytes(
    family: str, dtype: str, layers: int, recomputed: bool, adapter: bool, shared: bool = False
) -> tuple[float, DecoderShape]:
    """Bytes that autograd keeps for each token, weights and their copies excluded; and the model's shape."""
    model = random_model(family, hidden_size=64, intermediate_size=160, num_hidden_layers=layers, head_dim=16)
    if adapter:
        model = model.to(DTYPES[dtype])
        add_adapter(model, LoraOptions(rank=1), 0)
    use_plans(model)
    if recomputed:
        recompute_layers(model)
    ids = np.arange(32, dtype=np.int32) % 30
    contexts = [ids[:8] if shared else (ids[:8] + i) % 30 for i in range(8)]
    rows = [replace(row([1.0] * 32), context_ids=context, token_ids=ids) for context in contexts]
    weights = {tuple(p.shape) for p in model.parameters()} | {tuple(p.shape[::-1]) for p in model.parameters()}
    storages: dict[int, tuple[int, torch.Tensor]] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        if tuple(x.shape) not in weights:
            storages[x.untyped_storage().data_ptr()] = (x.untyped_storage().nbytes(), x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), products_in(DTYPES[dtype], torch.device("cpu")):
        own_hidden(model, rows)
    shape = shape_of(model.config.to_dict())
    assert shape is not None
    # as a micro-batch counts: a context that is shared, and for each other row a quarter of it
    tokens = 8 * 32 + 8 + 7 * 2 if shared else 8 * 40
    return sum(size for size, _ in storages.values()) / tokens, shape


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("adapter", [False, True])
def test_activations_are_what_autograd_keeps(family: str, dtype: str, adapter: bool) -> None:
    two, shape = kept_bytes(family, dtype, 2, False, adapter)
    four, _ = kept_bytes(family, dtype, 4, False, adapter)
    told = activations(shape, 4 if dtype == "float32" else 2, adapter)
    assert told == pytest.approx((four - two) / 2, rel=0.03)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_shared_context_takes_no_more_than_a_micro_batch_counts_for_it(dtype: str) -> None:
    two, shape = kept_bytes("qwen2", dtype, 2, False, False, shared=True)
    four, _ = kept_bytes("qwen2", dtype, 4, False, False, shared=True)
    told = activations(shape, 4 if dtype == "float32" else 2, False)
    assert 0.8 * told < (four - two) / 2 < 1.03 * told


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_recomputed_layers_keep_their_inputs(dtype: str) -> None:
    four, shape = kept_bytes("qwen2", dtype, 4, True, False)
    recomputed = (four - kept_bytes("qwen2", dtype, 2, True, False)[0]) / 2
    assert recomputed == pytest.approx(4 * shape.width, rel=0.01)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("options", ["", "dtype: bfloat16", "lora: {rank: 2}", "lora: {rank: 2, targets: [o_proj]}"])
def test_the_samplers_copy_is_what_the_fused_decoder_holds(family: str, tied: bool, options: str) -> None:
    model = random_model(family, hidden_size=64, tie_word_embeddings=tied)
    shape = shape_of(model.config.to_dict())
    recipe = load_recipe("grpo", [f"policy={{{options}}}"])
    if recipe.policy.lora is not None:
        add_adapter(model, recipe.policy.lora, 0)
    decoder = FusedDecoder(model, DTYPES[recipe.policy.dtype])
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    held = [x for layer in decoder._layers for x in layer if x is not None] + [decoder._embedding, decoder._head]
    own = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in held}
    copied = sum(size for at, size in own.items() if at not in weights)
    assert memory(recipe, shape, family).held["sampler's copy"] == pytest.approx(copied, rel=0.02)


def test_kv_cache_of_a_wave() -> None:
    """All responses of a step in one wave, as long as the context allows; the prompts that they continue; and a layer
    twice, of the two that there are."""
    model = random_model("qwen3", hidden_size=32)
    use_plans(model)
    recipe = load_recipe("grpo", ["explore.0.n=2", "train.problems=3", "sample.max_tokens=900"])
    told = memory(recipe, shape_of(model.config.to_dict()), "qwen3").phases["samples"]["KV cache"]
    held = 0
    for rows in (3, 6, 6 // 2):
        store = Store(torch.zeros(rows, dtype=torch.int64), 128, 2)
        with torch.no_grad():
            PackedDecoder(model).forward(torch.zeros(rows, 128, dtype=torch.int64), store)
        held += sum(x.untyped_storage().nbytes() for x in [*store.keys, *store.values])
    assert told == held


def test_a_stage_without_a_bound_is_counted_as_full_waves() -> None:
    """An upper bound: what it asks for at once is its own matter."""
    shape = shape_of(random_model("qwen3", hidden_size=32).config.to_dict())

    def draws(name: str) -> int:
        recipe = load_recipe(name, ["explore.0.n=2", "train.problems=3", "sample.rows=50"])
        return memory(recipe, shape, "qwen3").phases["samples"]["draws"]

    assert 6 * draws("dapo") == 50 * draws("grpo")  # grpo never has more than 2 x 3 rows


def parts(*overrides: str, layout: Layout = estimated.ALONE) -> tuple[Memory, DecoderShape]:
    shape = shape_of(random_model("llama", hidden_size=64).config.to_dict())
    asked: Recipe = load_recipe("grpo", ["objective.kl=0.1", *overrides])
    return memory(asked, shape, "llama", layout), shape


def test_what_an_adapter_and_low_numbers_save() -> None:
    (whole, shape), (low, _) = parts(), parts("policy.dtype=bfloat16")
    (lora, _) = parts("policy={dtype: bfloat16, lora: {rank: 2}}")
    assert whole.held["weights"] == low.held["weights"] == 4 * shape.parameters
    assert lora.held["sampler's copy"] == 0
    assert lora.held["weights"] == 2 * shape.parameters + lora.held["gradients"]
    assert lora.held["AdamW"] == 2 * lora.held["gradients"] < whole.held["AdamW"] / 4
    less = parts("learn.gradient_checkpointing=true")[0].phases["learns"]
    assert less["activations"] < whole.phases["learns"]["activations"]


def test_what_shards_divide() -> None:
    alone, shape = parts()
    eight, _ = parts(layout=Layout(8, sharded=True))
    for part in ("weights", "gradients", "AdamW", "reference model"):
        assert eight.held[part] == -(-alone.held[part] // 8)
    assert eight.held["sampler's copy"] == alone.held["sampler's copy"]
    assert eight.phases["learns"]["activations"] == alone.phases["learns"]["activations"]
    assert eight.phases["learns"]["gathered layers"] == 4 * (shape.outside + 3 * shape.layer_parameters)
    low, _ = parts("policy.dtype=bfloat16", layout=Layout(8, sharded=True))
    assert low.phases["learns"]["products' copies"] == 0
    away, _ = parts(layout=Layout(8, sharded=True, offload=True))
    assert away.host == {part: size for part, size in eight.held.items() if part != "sampler's copy"}
    assert away.peak == eight.peak - sum(away.host.values())


def test_a_server_takes_keys_values_and_the_copy() -> None:
    alone, _ = parts("engine.sampler={vllm: {servers: ['http://127.0.0.1:8000']}}")
    assert "samples" not in alone.phases
    assert "sampler's copy" not in alone.held


def test_a_sampling_process_has_the_weights_once_more_and_samples_while_the_learner_learns() -> None:
    (alone, shape), (apart, _) = parts(), parts("train.lag=1")
    assert sum(apart.held.values()) == sum(alone.held.values()) + 4 * shape.parameters
    [both] = apart.phases.values()
    assert sum(both.values()) == sum(sum(phase.values()) for phase in alone.phases.values())


def test_the_largest_chunk_is_the_heads() -> None:
    assert (estimated.CHUNK, estimated.GPU_CHUNKS) == (CHUNK, GPU_CHUNKS)


@pytest.mark.parametrize(
    ("chunks_of_a_gpu", "recomputed", "gib"), [(False, False, 23.82), (False, True, 9.48), (True, False, 25.02)]
)
def test_the_estimate_is_what_an_h100_took(chunks_of_a_gpu: bool, recomputed: bool, gib: float) -> None:
    """PyTorch's own count of an optimizer step of Qwen2.5 0.5B, by ``benchmarks/gpu.py``; docs/log.md, 2026-11-26."""
    half = DecoderShape(151_936, 24, 896, 4864, 896, 128, True, 0, True, 2048)
    asked = load_recipe(
        "grpo",
        [
            "objective.kl=0",
            "policy.dtype=bfloat16",
            "sample.max_tokens=1024",
            "learn.micro_tokens=9216",
            f"learn.gradient_checkpointing={str(recomputed).lower()}",
        ],
    )
    told = memory(asked, half, "qwen2", Layout(gpu=chunks_of_a_gpu))
    learner = sum(told.held.values()) - told.held["sampler's copy"] + sum(told.phases["learns"].values())
    assert learner / 2**30 == pytest.approx(gib, rel=0.03)


@pytest.mark.skipif(sys.platform != "linux", reason="resident sizes are read from /proc")
@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(["policy.lora={rank: 16}", "objective.kl=0.1"], marks=pytest.mark.slow),
    ],
)
def test_the_estimate_is_what_a_process_takes(options: list[str], tmp_path: Path) -> None:
    """Within 15 %, as ``benchmarks/memory.py`` measures larger models."""
    out = tmp_path / "told"
    process = warm_processes(*PRELOAD).Process(target=memory_main.measure, args=(tuple(options), out))
    process.start()
    process.join()
    assert process.exitcode == 0
    told = json.loads(out.read_text().splitlines()[-1])
    assert told["ratio"] == pytest.approx(1.0, abs=0.15), told
