"""Whether a run fits, and what would make it fit."""

from __future__ import annotations

import re

import pytest

from outrider.config import load_recipe
from outrider.estimate.decoder_shape import DecoderShape
from outrider.estimate.fits import GAPS, GIB, LIBRARIES, VLLM_BUFFERS, Setup, needed, verdict
from outrider.estimate.memory import ALONE, Layout, memory
from outrider.processes.devices import Devices

HALF = DecoderShape(151936, 24, 896, 4864, 896, 128, True, 0, True, 32768)  # Qwen2.5-0.5B
SEVEN = DecoderShape(152064, 28, 3584, 18944, 3584, 512, False, 0, True, 32768)  # Qwen2.5-7B
LONG = ["sample.max_tokens=1024", "sample.rows=256", "learn.micro_tokens=16384"]


def setup_of(*overrides: str, layout: Layout = ALONE) -> Setup:
    return Setup(load_recipe("grpo", [*LONG, *overrides]), layout)


def gpu(gib: float) -> Devices:
    return Devices(1, int(gib * GIB), "a card", host=False)


def test_what_fits_is_said_with_what_is_left() -> None:
    setup = setup_of()
    need = needed(setup, HALF, "qwen2", gpu(80)) / GIB
    told = verdict(setup, HALF, "qwen2", gpu(80))
    assert told == f"fits the 80.0 GiB of a card, with {80 - need:.1f} GiB free"


@pytest.mark.parametrize("shape", [HALF, SEVEN])
@pytest.mark.parametrize("gib", [12, 16, 24, 40, 80])
def test_a_remedy_makes_it_fit_and_nothing_smaller_would(shape: DecoderShape, gib: int) -> None:
    """Its words, given to the recipe as a user would, are computed once more."""
    told = verdict(setup_of(), shape, "qwen2", gpu(gib))
    words = re.findall(r"[a-z_]+\.[a-z_]+=(?:\{[^}]*\}|\w+)", told)
    if told.startswith("fits"):
        assert not words
        return
    assert f"more than the {gib}.0 GiB of a card" in told
    if "no option reduces it enough" in told:
        return
    assert words, told
    made = needed(setup_of(*words), shape, "qwen2", gpu(gib))
    assert made <= gib * GIB
    assert re.search(rf" reduces? it to {made / GIB:.1f} GiB$", told)
    for i in range(len(words)):  # each of them is needed
        assert needed(setup_of(*words[:i], *words[i + 1 :]), shape, "qwen2", gpu(gib)) > gib * GIB


def test_what_changes_no_number_comes_first() -> None:
    need = needed(setup_of(), HALF, "qwen2", gpu(80)) / GIB
    assert "; learn.gradient_checkpointing=true reduces it to" in verdict(setup_of(), HALF, "qwen2", gpu(need - 1))


def test_no_remedy_is_said_too() -> None:
    assert "no option reduces it enough" in verdict(setup_of(), SEVEN, "qwen2", gpu(4))


def test_processes_share_a_hosts_memory() -> None:
    host = Devices(1, 1 << 50, "this machine", host=True)
    few = ["learn.gradient_checkpointing=true", "learn.micro_tokens=1024", "sample.rows=16"]
    one, four = (needed(setup_of(*few, layout=Layout(n)), HALF, "qwen2", host) for n in (1, 4))
    assert four >= 4 * one
    tight = Devices(1, int(1.1 * one), "this machine", host=True)
    assert "; train.ranks=1 reduces it to" in verdict(setup_of(*few, layout=Layout(4)), HALF, "qwen2", tight)


def test_a_sampling_process_loads_the_libraries_once_more() -> None:
    host = Devices(1, 1 << 50, "this machine", host=True)

    def libraries(lag: int) -> float:
        """What is needed besides weights, caches, passes and the allocator's gaps, in GiB."""
        setup = setup_of(f"train.lag={lag}")
        taken = memory(setup.recipe, HALF, "qwen2", ALONE)
        gaps = GAPS * (taken.peak - sum(taken.held.values()))
        return (needed(setup, HALF, "qwen2", host) - taken.peak - gaps) / GIB

    assert libraries(1) == pytest.approx(2 * libraries(0))
    assert libraries(0) > 0


def test_shares_on_the_gpus_that_there_are() -> None:
    """7 B in full on cards of 80 GiB: the least number of them that can."""
    eight = Devices(8, 80 * GIB, "a card", host=False)
    low = ["policy.dtype=bfloat16", "learn.gradient_checkpointing=true"]
    told = verdict(setup_of(*low), SEVEN, "qwen2", eight)
    found = re.search(r"; engine\.learner=fsdp2 train\.ranks=(\d) beside vLLM servers reduces it to ([\d.]+) GiB", told)
    assert found is not None, told
    number, gib = int(found[1]), float(found[2])
    servers = "engine={learner: fsdp2, sampler: {vllm: {servers: ['http://a:1']}}}"

    def on(shares: int) -> int:
        return needed(setup_of(*low, servers, layout=Layout(shares, sharded=True)), SEVEN, "qwen2", eight)

    assert round(on(number) / GIB, 1) == gib <= 80
    assert number == 2 or on(number // 2) > 80 * GIB


def test_how_many_gpus_would_do() -> None:
    huge = DecoderShape(152064, 64, 5120, 27648, 5120, 1024, False, 0, True, 32768)  # Qwen2.5-32B
    told = verdict(setup_of("policy={dtype: bfloat16, lora: {rank: 8}}"), huge, "qwen2", gpu(24))
    found = re.search(r"no option reduces it enough here; (\d+) such GPUs are enough: engine\.learner=fsdp2", told)
    assert found is not None, told
    assert int(found[1]) >= 4  # 65 GB of weights in bfloat16


def test_vllm_beside_the_learner_takes_its_share() -> None:
    alone, beside = (
        needed(setup_of(f"engine.sampler={{vllm: {{{options}}}}}"), HALF, "qwen2", gpu(80))
        for options in ("servers: ['http://a:1']", "memory: 0.25")
    )
    assert beside - alone == 20 * GIB


def test_sleeping_vllm_and_an_update_need_their_memory_in_turn() -> None:
    def need(options: str) -> int:
        return needed(setup_of(f"engine.sampler={{vllm: {{{options}}}}}"), HALF, "qwen2", gpu(80))

    alone = need("servers: ['http://a:1']")
    held = sum(memory(setup_of().recipe, HALF, "qwen2", ALONE).held[part] for part in ("weights", "gradients", "AdamW"))
    small, large = need("memory: 0.1, sleep: true"), need("memory: 0.8, sleep: true")
    assert small == alone + VLLM_BUFFERS < need("memory: 0.1")
    assert large == held + 64 * GIB + LIBRARIES < need("memory: 0.8")
    # entropies of rollouts are computed by the learner while vLLM is awake
    awake = setup_of("engine.sampler={vllm: {memory: 0.8, sleep: true}}", "objective.entropy.target=0.2")
    assert needed(awake, HALF, "qwen2", gpu(80)) == need("memory: 0.8")
