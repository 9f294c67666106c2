"""The estimate of memory (`outrider train … --dry-run`) against what processes really take.

For each case a process of its own, or two, as `outrider train` starts them: a random model of realistic shape draws
one wave of responses behind prompts of 512 tokens, learns from some of them, and hands its weights over, twice.
``measured``: the largest resident size beside that of the loaded libraries, of the process that takes most.
``estimated``: :func:`outrider.estimate.memory.memory` for the same recipe. ``ratio``: of estimated to measured.

The cases of ``auto`` take the values that :mod:`outrider.estimate.auto` chooses for a made-up machine, twice. ``said``:
what the run would print, :func:`outrider.estimate.fits.needed`. ``resident``: the largest resident size of the whole
process over five steps of other lengths each, whose allocator is left as it is; it should be at most what was said.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import torch
from _machine import forget_the_peak, keep, status, trimmed
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from outrider.config import Recipe, load_recipe
from outrider.estimate.auto import choose, with_values
from outrider.estimate.decoder_shape import DecoderShape, shape_of
from outrider.estimate.estimate import layout_of
from outrider.estimate.fits import GIB, Setup, needed
from outrider.estimate.memory import PROMPT, Memory, memory
from outrider.model.device import DTYPES
from outrider.model.load import Policy
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions
from outrider.model.tiny import character_tokenizer, tiny_policy
from outrider.processes.devices import Devices
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record import Problem, SampleRequest
from outrider.record.row import WeightedRow, imitation_row
from outrider.sample.ready import ready
from outrider.train.engines import open_learner, open_sampler

_MMAP_THRESHOLD = -3  # of mallopt(3)

KINDS = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}


class Sizes(NamedTuple):
    """Of a model."""

    layers: int
    width: int
    inner: int
    heads: int
    keys: int
    vocabulary: int
    tied: bool


SMALL = Sizes(8, 512, 1408, 8, 2, 16_000, True)
MEDIUM = Sizes(12, 768, 2048, 12, 4, 50_000, False)
WIDE = Sizes(4, 896, 4864, 14, 2, 151_936, True)
COUNTDOWN = Sizes(3, 128, 256, 4, 2, 512, True)  # base:countdown, whose 32 tokens would soon draw the end
PROSE = Sizes(4, 192, 384, 6, 3, 653, True)  # base:prose
SMOLLM2 = Sizes(30, 576, 1536, 9, 3, 49_152, True)
HALF_BILLION = Sizes(24, 896, 4864, 14, 2, 151_936, True)  # Qwen2.5-0.5B


class Case(NamedTuple):
    """A model, and what of a recipe changes its memory.

    Attributes:
        trained: rows that are learned from; the others are only sampled.
        machine: GiB of the made-up machine that ``auto`` chooses for; 0: every value is given.
    """

    name: str
    kind: str
    sizes: Sizes
    options: tuple[str, ...] = ()
    problems: int = 2
    samples: int = 4
    trained: int = 8
    machine: int = 0

    @property
    def recipe(self) -> Recipe:
        if self.machine:
            return self._auto()
        usual = [
            f"train.ranks={1 + (SHARED in self.options)}",
            "sample.max_tokens=64",
            "learn.micro_tokens=2304",
            "evaluate.before=false",
        ]
        plan = [f"train.problems={self.problems}", f"explore.0.n={self.samples}", "sample.rows=1024"]
        return load_recipe("dr-grpo", [*usual, *plan, *self.options])

    def _auto(self) -> Recipe:
        """With the values that are chosen for the machine."""
        plan = ["train.problems=64", "explore.0.n=8", "sample.max_tokens=64", "objective.kl=0", "train.ranks=1"]
        recipe = load_recipe("dr-grpo", [*plan, *self.options])
        config = model_of(self, "meta").config.to_dict()
        return with_values(recipe, choose(recipe, config, devices=self.devices).values)

    @property
    def devices(self) -> Devices:
        """The made-up machine."""
        return Devices(1, self.machine * GIB, "a made-up machine", host=True)

    def sized(self) -> Case:
        """One full wave and three full passes of the chosen values; other cases as they are."""
        if not self.machine:
            return self
        recipe = self.recipe
        rows = min(recipe.sample.most_rows, 512)
        samples = min(8, rows)
        trained = 3 * max(1, recipe.learn.tokens_of_a_pass // (PROMPT + recipe.sample.max_tokens))
        return self._replace(problems=rows // samples, samples=samples, trained=trained)


LOW, RECOMPUTED, KL = "policy.dtype=bfloat16", "learn.gradient_checkpointing=true", "objective.kl=0.1"
LORA = "policy.lora={rank: 16}"
ALONE = "engine.sampler={vllm: {servers: ['http://127.0.0.1:1']}}"
SHARED = "engine={learner: fsdp2, sampler: {vllm: {servers: ['http://127.0.0.1:1']}}}"
WAVE = ("sample.max_tokens=128", "learn.micro_tokens=640")
SHORT_WAVE = ("sample.max_tokens=32", "learn.micro_tokens=640")  # low products take long on most CPUs
CASES = [
    Case("full", "qwen2", MEDIUM),
    Case("full, bfloat16", "qwen3", MEDIUM, (LOW,)),
    Case("full, recomputed layers", "qwen3", MEDIUM, (RECOMPUTED,)),
    Case("full, bfloat16, recomputed layers, KL", "llama", MEDIUM, (LOW, RECOMPUTED, KL)),
    Case("full, tied, small", "qwen2", SMALL),
    Case("adapter, KL", "llama", MEDIUM, (LORA, KL)),
    Case("adapter, bfloat16", "qwen2", MEDIUM, (LORA, LOW)),
    Case("adapter, bfloat16, recomputed layers, 0.5B", "qwen2", HALF_BILLION, (LORA, LOW, RECOMPUTED), 1, 4, 4),
    Case("KV cache of one batch", "qwen2", SMALL, WAVE, 4, 64, 2),
    Case("KV cache of one batch, bfloat16", "llama", SMALL, (LOW, *SHORT_WAVE), 4, 64, 2),
    Case("learner only", "qwen2", MEDIUM, (ALONE,)),
    Case(
        "learner only, bfloat16, recomputed layers, 0.5B",
        "qwen2",
        HALF_BILLION,
        (ALONE, LOW, RECOMPUTED),
        1,
        4,
        4,
    ),
    Case("two replicated ranks", "qwen2", SMALL, ("train.ranks=2",)),
    Case("two sharded ranks", "qwen2", MEDIUM, (SHARED,)),
    Case("two sharded ranks, bfloat16, recomputed layers, KL", "qwen3", MEDIUM, (SHARED, LOW, RECOMPUTED, KL)),
    Case(
        "two sharded ranks, bfloat16, recomputed layers, large vocabulary",
        "qwen2",
        WIDE,
        (SHARED, LOW, RECOMPUTED),
        1,
        4,
        4,
    ),
    Case("two sharded ranks, adapter, bfloat16, KL", "llama", MEDIUM, (SHARED, LORA, LOW, KL)),
]
AUTO = [
    Case(f"auto, {name}, {machine} GiB", kind, sizes, machine=machine)
    for name, kind, sizes, machine in [
        ("0.4 M", "qwen2", COUNTDOWN, 8),
        ("1.5 M", "qwen2", PROSE, 8),
        ("31 M", "qwen2", SMALL, 8),
        ("31 M", "qwen2", SMALL, 16),
        ("135 M", "llama", SMOLLM2, 8),
        ("135 M", "llama", SMOLLM2, 16),
        ("0.5 B", "qwen2", HALF_BILLION, 16),
    ]
]


def model_of(case: Case, device: str = "cpu") -> PreTrainedModel:
    config, model = KINDS[case.kind]
    torch.manual_seed(0)
    sizes = case.sizes
    with torch.device(device):
        made: PreTrainedModel = model(
            config(
                vocab_size=sizes.vocabulary,
                hidden_size=sizes.width,
                intermediate_size=sizes.inner,
                num_hidden_layers=sizes.layers,
                num_attention_heads=sizes.heads,
                num_key_value_heads=sizes.keys,
                head_dim=sizes.width // sizes.heads,
                tie_word_embeddings=sizes.tied,
                max_position_embeddings=4096,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
            )
        )
    return made.eval()


def policy_of(case: Case, recipe: Recipe) -> Policy:
    model = model_of(case)
    if recipe.policy.lora is not None:
        model = model.to(DTYPES[recipe.policy.dtype])
        add_adapter(model, recipe.policy.lora, 0)
    return Policy(model, character_tokenizer(), recipe.policy.model_copy(update={"check": False}))


def requests(case: Case) -> list[SampleRequest]:
    rng = np.random.default_rng(0)
    prompts = rng.integers(3, case.sizes.vocabulary, (case.problems, PROMPT)).astype(np.int32)
    return [
        SampleRequest(Problem(str(i), ""), case.samples, prompt_ids=ids, group_id=str(i))
        for i, ids in enumerate(prompts)
    ]


def rows(case: Case, recipe: Recipe, version: int | None = None) -> list[WeightedRow]:
    """As long as the longest of the wave; with a version of other lengths each, as in a run."""
    rng, own = np.random.default_rng(1 + (version or 0)), recipe.sample.max_tokens
    number = case.trained * max(1, recipe.train.ranks)
    ids = rng.integers(3, case.sizes.vocabulary, (number, PROMPT + own)).astype(np.int32)
    shorter = np.ones(number) if version is None else rng.random(number)
    lengths = np.ceil(own * np.maximum(shorter, 0.25)).astype(int)
    begins = PROMPT - np.ceil(PROMPT * np.maximum(shorter, 0.25)).astype(int)
    return [
        WeightedRow(
            context_ids=row[begin:PROMPT],
            token_ids=row[PROMPT : PROMPT + length],
            old_logprobs_N=np.full(length, -10.0, np.float32),
            advantages_N=np.full(length, 1.0 if i % 2 else -1.0),
            trainable_N=np.ones(length, np.bool_),
            group=str(i // 2),
            seed=i,
        )
        for i, (row, begin, length) in enumerate(zip(ids, begins, lengths, strict=True))
    ]


def _load_libraries(ranks: Ranks, dtype: str) -> None:
    """Whatever a case will import, and what its products keep for themselves."""
    import outrider.learn.sharded  # noqa: F401

    policy = ready(tiny_policy(seed=0))[0]
    add_adapter(policy.model, LoraOptions(), 0)
    recipe = load_recipe("grpo", [f"policy.dtype={dtype}"])
    one_row = imitation_row(np.arange(3, 8, dtype=np.int32), np.arange(3, 8, dtype=np.int32))
    open_learner(recipe, policy, ranks).update([one_row])
    # oneDNN's scratch memory stays; this takes a minute in bfloat16 where a processor has no products of its own for it
    square = torch.zeros(2048, 2048, dtype=DTYPES[dtype])
    square @ square


def measured(ranks: Ranks, case: Case, resident: bool = False) -> float:
    """Megabytes of this process at its peak, beside its libraries unless all that is ``resident`` counts."""
    recipe = case.recipe
    local = "sampler" not in recipe.engine.names()
    if not resident:
        _load_libraries(ranks, recipe.policy.dtype)
    libraries = 0.0 if resident else trimmed()
    policy = policy_of(case, recipe)
    policy = ready(policy, "auto" if local else "packed")[0]
    trimmed()
    forget_the_peak()
    sampler = open_sampler(recipe, policy, ranks) if local else None
    learner = open_learner(recipe, policy, ranks)
    for version in range(5 if resident else 2):
        if sampler is not None:
            sampler.take(version, learner.export)
            sampler.sample(requests(case))
        learner.update(rows(case, recipe, version if resident else None))
    return status("VmHWM") - libraries


def shape_of_case(case: Case) -> DecoderShape:
    shape = shape_of(model_of(case, "meta").config.to_dict())
    assert shape is not None
    return shape


def estimated(case: Case) -> Memory:
    return memory(case.recipe, shape_of_case(case), case.kind, layout_of(case.recipe, None))


def said(case: Case) -> int:
    """Bytes that a run would say it takes."""
    setup = Setup(case.recipe, layout_of(case.recipe, case.devices))
    return needed(setup, shape_of_case(case), case.kind, case.devices)


def one(ranks: Ranks, case: Case, resident: bool = False) -> int:
    if not resident:
        # every tensor a mapping of its own, which goes back when it is freed: what is measured is what is held
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 16)
    largest = max(ranks.gather(lambda: [measured(ranks, case.sized(), resident)]))
    if ranks.main:
        print(json.dumps({"resident": round(largest)} if resident else numbers_of(case, largest)))
    return 0


def numbers_of(case: Case, largest: float) -> dict[str, Any]:
    """The estimate of a case beside what was measured, in megabytes."""
    told = estimated(case)
    peak = round(told.peak / 2**20)
    numbers: dict[str, Any] = {
        "case": case.name,
        "model": f"{case.kind}, {shape_of_case(case).parameters / 1e6:.0f} million parameters",
        "estimated": peak,
        "measured": round(largest),
        "ratio": round(peak / round(largest), 3),
        "parts": {
            part: round(size / 2**20) for parts in (told.held, *told.phases.values()) for part, size in parts.items()
        },
    }
    if not case.machine:
        return numbers
    recipe = case.recipe
    keys = {"rows": recipe.sample.rows, "micro_tokens": recipe.learn.micro_tokens}
    return numbers | keys | {"recomputed": recipe.learn.recomputes, "said": round(said(case) / 2**20)}


def main() -> None:
    if sys.argv[1:]:
        kind, index, *words = sys.argv[1:]
        case = {"case": CASES, "auto": AUTO}[kind][int(index)]
        launch(max(1, case.recipe.train.ranks), one, case, bool(words))
        return
    cases = [in_a_process("case", index) for index in range(len(CASES))]
    auto = [in_a_process("auto", index) | in_a_process("auto", index, "resident") for index in range(len(AUTO))]
    worst = max((case["ratio"] for case in [*cases, *auto]), key=lambda ratio: abs(ratio - 1))
    keep("memory", {"cases": cases, "auto": auto, "worst": worst})


def in_a_process(kind: str, index: int, *words: str) -> dict[str, Any]:
    """The numbers of one case, from a process of its own."""
    command = [sys.executable, __file__, kind, str(index), *words]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(told.strip(), flush=True)
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


if __name__ == "__main__":
    # by its name: other ranks import the function that they run, and this module is not __main__ there
    import memory as by_name

    by_name.main()
