"""The tables of docs/memory.md: estimates for Qwen2.5 in four sizes, and measurements.

Usage: ``python tools/memory_page.py``. Nothing is loaded or downloaded: the sizes are those of the models' config.json
on the hub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.config import Recipe, load_recipe
from outrider.estimate.auto import choose, with_values
from outrider.estimate.decoder_shape import DecoderShape, shape_of
from outrider.estimate.estimate import layout_of
from outrider.estimate.fits import GIB, Setup, needed
from outrider.estimate.memory import Layout, memory
from outrider.model.places import local_config
from outrider.processes.devices import Devices

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/memory.md"
MEASURED = ROOT / "benchmarks/results/memory.json"
KIND = "qwen2"
CARDS = (24, 40, 80)  # GiB
ONE, SHARES = Layout(gpu=True), Layout(8, sharded=True, gpu=True)

MODELS = {  # hidden_size, intermediate_size, num_hidden_layers, attention and key-value heads, vocab_size, tied
    "30M": (288, 768, 15, 9, 3, 49_152, True),
    "135M": (576, 1536, 30, 9, 3, 49_152, True),
    "0.5B": (896, 4864, 24, 14, 2, 151_936, True),
    "1.5B": (1536, 8960, 28, 12, 2, 151_936, True),
    "3B": (2048, 11_008, 36, 16, 2, 151_936, True),
    "7B": (3584, 18_944, 28, 28, 4, 152_064, False),
    "32B": (5120, 27_648, 64, 40, 8, 152_064, False),
}
PAGE_MODELS = ("0.5B", "1.5B", "7B", "32B")
SETTING = ["policy.dtype=bfloat16", "sample.max_tokens=1024", "sample.rows=256", "train.problems=64", "explore.0.n=8"]
SETTING += ["learn.micro_tokens=16384", "objective.kl=0"]
SERVERS = ["engine={learner: fsdp2, sampler: {vllm: {servers: ['http://127.0.0.1:8000']}}}"]
ADAPTER = "policy.lora={rank: 16}"
RECOMPUTED = "learn.gradient_checkpointing=true"


AUTO_SETTING = ["sample.max_tokens=512", "train.problems=64", "explore.0.n=8", "objective.kl=0"]
MACHINES = {
    "a CPU, 8 GiB": Devices(1, 8 * GIB, "", host=True),
    "a CPU, 24 GiB": Devices(1, 24 * GIB, "", host=True),
    "a GPU of 24 GiB": Devices(1, 24 * GIB, "", host=False),
    "a GPU of 80 GiB": Devices(1, 80 * GIB, "", host=False),
}


def config_of(name: str) -> dict[str, Any]:
    """What the estimate reads of a model's config.json."""
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    sizes = dict(zip((*keys, "vocab_size", "tie_word_embeddings"), MODELS[name], strict=True))
    return sizes | {"model_type": KIND, "max_position_embeddings": 32_768}


AUTO_MODELS = {
    "`base:countdown`, 0.4 M": local_config("base:countdown") or {},
    "`base:prose`, 1.5 M": local_config("base:prose") or {},
    "30M, half of SmolLM2's layers and width": config_of("30M") | {"model_type": "llama"},
    "SmolLM2-135M": config_of("135M") | {"model_type": "llama"},
    **{f"Qwen2.5 {name}": config_of(name) for name in ("0.5B", "1.5B", "3B", "7B")},
}


def shape(name: str) -> DecoderShape:
    """Of a model, by its name here."""
    found = shape_of(config_of(name))
    assert found is not None
    return found


def cases() -> Iterator[tuple[str, str, str, list[str]]]:
    """Model, what is trained, whether activations are recomputed, and the options for it."""
    for name in PAGE_MODELS:
        for trained, chosen in (("all", []), ("adapter", [ADAPTER])):
            for layers, kept in (("kept", []), ("recomputed", [RECOMPUTED])):
                yield name, trained, layers, [*SETTING, *chosen, *kept]


def row(recipe: Recipe, sizes: DecoderShape, layout: Layout) -> list[str]:
    """GiB by part, the peak, and the GPUs that it fits."""
    taken = memory(recipe, sizes, KIND, layout)
    learning = dict(taken.phases["learns"])
    sampling = taken.phases.get("samples")
    activations = learning.pop("activations")
    states = sum(size for part, size in taken.held.items() if part != "sampler's copy")
    parts = [states, taken.held.get("sampler's copy"), sum(sampling.values()) if sampling else None, activations]
    need = needed(Setup(recipe, layout), sizes, KIND, Devices(1, 0, "", host=False))
    fits = [str(card) for card in CARDS if need <= card * GIB]
    counted = [_gib(size) for size in [*parts, sum(learning.values())] if size is not None]
    return [*counted, f"**{_gib(need)}**", ", ".join(fits) or "none"]


def table(layout: Layout) -> str:
    """All cases with this layout."""
    more = ["sampler's copy", "sampling"] if layout == ONE else []
    head = ["Qwen2.5", "trained", "layers", "weights, gradients, AdamW", *more, "activations", "head and others"]
    rows = [[*head, "peak", "fits GPUs of"], ["---"] * (5 + len(more) + 3)]
    for name, trained, layers, options in cases():
        recipe = load_recipe("dr-grpo", options if layout == ONE else [*options, *SERVERS])
        rows.append([name, trained, layers, *row(recipe, shape(name), layout)])
    return _lines(rows)


def measured() -> str:
    """Estimates and measurements, from the results of the benchmark."""
    rows = [["case", "model", "estimated, MiB", "measured, MiB", "ratio"], ["---"] * 5]
    for case in json.loads(MEASURED.read_text())["cases"]:
        rows.append([str(case[key]) for key in ("case", "model", "estimated", "measured", "ratio")])
    return _lines(rows)


def measured_auto() -> str:
    """What a run would say and what its process takes, with the values that ``auto`` chooses for made-up machines."""
    keys = ("estimated", "measured", "ratio", "said", "resident")
    rows = [["model, machine", "estimated, MiB", "measured, MiB", "ratio", "printed by the run, MiB", "resident, MiB"]]
    rows.append(["---", *["---:"] * 5])
    for case in json.loads(MEASURED.read_text())["auto"]:
        rows.append([case["case"].removeprefix("auto, "), *(str(case.get(key, "")) for key in keys)])
    return _lines(rows)


def chosen() -> str:
    """The values of ``auto``: rows, tokens of a micro-batch, whether layers are recomputed; and the GiB needed."""
    rows = [["model", *MACHINES], ["---"] * (len(MACHINES) + 1)]
    for name, config in AUTO_MODELS.items():
        rows.append([name, *(_chosen(config, devices) for devices in MACHINES.values())])
    return _lines(rows)


def _chosen(config: Mapping[str, Any], devices: Devices) -> str:
    recipe = load_recipe(
        "dr-grpo", [*AUTO_SETTING, *(["train.ranks=1"] if devices.host else ["policy.dtype=bfloat16"])]
    )
    recipe = with_values(recipe, choose(recipe, config, devices=devices).values)
    sizes = shape_of(config)
    assert sizes is not None
    need = needed(Setup(recipe, layout_of(recipe, devices)), sizes, str(config["model_type"]), devices, evaluating=True)
    if need > devices.size:
        return "does not fit"
    recomputed = ", recomputed" if recipe.learn.recomputes else ""
    return f"{recipe.sample.rows}; {recipe.learn.micro_tokens}{recomputed}; {_gib(need)}"


def blocks() -> Mapping[str, str]:
    """The text between each pair of marks of the page."""
    return {
        "auto": chosen(),
        "one": table(ONE),
        "eight": table(SHARES),
        "measured": measured(),
        "measured_auto": measured_auto(),
    }


def page(old: str) -> str:
    """The page with its blocks as they are now."""
    for name, text in blocks().items():
        marks = rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)"
        old, found = re.subn(marks, lambda match, text=text: match[1] + text + match[2], old, flags=re.DOTALL)
        assert found == 1, f"{PAGE} has no marks for {name!r}"
    return old


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"


def _lines(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
