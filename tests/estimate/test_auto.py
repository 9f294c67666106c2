"""``auto``: the fastest values that fit, for models of 0.4 M to 7 B on made-up machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.cli import main
from outrider.config import Recipe, load_recipe, recipe_of_run
from outrider.errors import UserError
from outrider.estimate import auto
from outrider.estimate.auto import auto_keys, choose, with_values
from outrider.estimate.decoder_shape import shape_of
from outrider.estimate.estimate import layout_of
from outrider.estimate.fits import GIB, Setup, needed
from outrider.learn.options import MICRO_TOKENS
from outrider.model.places import local_config
from outrider.processes.devices import Devices
from outrider.sample.options import ROWS, SHARE


def config(layers: int, width: int, inner: int, heads: int, keys: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "qwen2",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        **more,
    }


MODELS = {
    "0.4M": local_config("base:countdown"),
    "1.5M": local_config("base:prose"),
    "30M": config(8, 384, 1024, 6, 6, 32000),
    "135M": config(30, 576, 1536, 9, 3, 49152, model_type="llama"),
    "0.5B": config(24, 896, 4864, 14, 2, 151936),
    "1.5B": config(28, 1536, 8960, 12, 2, 151936),
    "3B": config(36, 2048, 11008, 16, 2, 151936),
    "7B": config(28, 3584, 18944, 28, 4, 152064, tie_word_embeddings=False),
}
LAPTOP = Devices(1, int(23.5 * GIB), "this machine", host=True)
MACHINES = {
    "laptop of 8 GiB": Devices(1, 8 * GIB, "this machine", host=True),
    "laptop of 23.5 GiB": LAPTOP,
    "workstation of 256 GiB": Devices(1, 256 * GIB, "this machine", host=True),
    "card of 24 GiB": Devices(1, 24 * GIB, "a card", host=False),
    "card of 80 GiB": Devices(1, 80 * GIB, "a card", host=False),
    "card of 141 GiB": Devices(1, 141 * GIB, "a card", host=False),
}
LOW = ["policy.dtype=bfloat16"]


def recipe(*overrides: str) -> Recipe:
    return load_recipe("grpo", ["sample.max_tokens=500", "train.problems=64", *overrides])


def need(one: Recipe, model: dict[str, Any], devices: Devices) -> int:
    shape = shape_of(model)
    assert shape is not None
    return needed(Setup(one, layout_of(one, devices)), shape, str(model["model_type"]), devices, evaluating=True)


@pytest.mark.parametrize("size", MODELS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("low", [[], LOW])
def test_whatever_can_fit_fits(size: str, machine: str, low: list[str]) -> None:
    model, devices, asked = MODELS[size], MACHINES[machine], recipe(*low)
    chosen = choose(asked, model, devices=devices)
    found = with_values(asked, chosen.values)
    assert not auto_keys(found)
    assert chosen.sentence is not None
    assert all(f"{key}=" in chosen.sentence for key in auto_keys(asked))
    smallest = {"learn.gradient_checkpointing": True, "learn.micro_tokens": 1, "sample.rows": 1}
    ranks = {} if not devices.host else {"train.ranks": 1}
    fits = need(found, model, devices) <= devices.size
    assert fits == (need(with_values(asked, smallest | ranks), model, devices) <= devices.size)
    if fits and need(with_values(asked, smallest), model, devices) <= 0.9 * devices.size:
        assert need(found, model, devices) <= 0.9 * devices.size


@pytest.mark.parametrize("size", MODELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_faster_fits(size: str, machine: str) -> None:
    """One step back on either ladder takes more than nine tenths, unless the values are the first already."""
    model, devices, asked = MODELS[size], MACHINES[machine], recipe(*LOW)
    found = with_values(asked, choose(asked, model, devices=devices).values)
    if need(found, model, devices) > 0.9 * devices.size:
        return
    most = 4096 if devices.host else MICRO_TOKENS
    rows, learn = found.sample.most_rows, found.learn
    faster = [{"sample.rows": 2 * rows}] if rows < 1024 else []
    if learn.tokens_of_a_pass < most:
        larger = next(size for i in range(15, -1, -1) if (size := most >> i) > learn.tokens_of_a_pass)
        faster.append({"learn.micro_tokens": larger})
    if learn.recomputes:
        faster.append({"learn.gradient_checkpointing": False, "learn.micro_tokens": 2048})
    assert all(need(with_values(found, values), model, devices) > 0.9 * devices.size for values in faster)


def test_a_small_model_keeps_the_values_that_the_shipped_settings_had() -> None:
    chosen = choose(load_recipe("grpo"), MODELS["0.4M"], devices=LAPTOP)
    assert chosen.values == {
        "sample.rows": 1024, "learn.gradient_checkpointing": False, "learn.micro_tokens": 4096
    }  # fmt: skip


def test_given_values_stay() -> None:
    asked = recipe("learn.micro_tokens=3000", "sample.rows=7")
    assert choose(asked, MODELS["135M"], devices=LAPTOP).values.keys() == {"learn.gradient_checkpointing"}
    asked = recipe("learn.micro_tokens=3000", "sample.rows=7", "learn.gradient_checkpointing=false")
    assert choose(asked, MODELS["7B"], devices=LAPTOP) == ({}, None)


def test_fewer_processes_only_where_their_number_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.estimate.estimate.usable_cores", lambda: [*range(8)])
    small = Devices(1, 14 * GIB, "this machine", host=True)
    assert choose(recipe(), MODELS["135M"], devices=small).values["train.ranks"] in (1, 2, 4)
    assert "train.ranks" not in choose(recipe("train.ranks=8"), MODELS["135M"], devices=small).values
    assert "train.ranks" not in choose(recipe(), MODELS["0.4M"], devices=LAPTOP).values


def test_vllm_takes_what_it_needs_and_leaves_the_learner_its_share() -> None:
    asked = recipe(*LOW, "engine.sampler=vllm")
    for machine in ("card of 24 GiB", "card of 80 GiB", "card of 141 GiB"):
        devices = MACHINES[machine]
        found = with_values(asked, choose(asked, MODELS["0.5B"], devices=devices).values)
        assert need(found, MODELS["0.5B"], devices) <= 0.9 * devices.size
        assert 0.05 <= found.engine.sampler.share <= 0.9  # type: ignore[union-attr]
    small, large = (
        choose(asked, MODELS[size], devices=MACHINES["card of 141 GiB"]).values["engine.sampler.memory"]
        for size in ("0.5B", "3B")
    )
    assert small < large


def test_without_a_model_or_memory_to_look_at_values_are_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    want = {"sample.rows": ROWS, "learn.micro_tokens": MICRO_TOKENS, "learn.gradient_checkpointing": False}
    assert choose(recipe(), None, devices=LAPTOP) == (want, None)
    monkeypatch.setattr(auto, "find_devices", lambda: None)
    asked = recipe("engine.sampler=vllm")
    assert choose(asked, MODELS["135M"]) == (want | {"engine.sampler.memory": SHARE}, None)


def test_a_resumed_run_keeps_what_it_was_begun_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "grpo", "train.problems=2", "explore.0.n=2", "sample.max_tokens=8", "train.ranks=1",
               "evaluate.before=false", "evaluate.after=false", f"--out={tmp_path / 'run'}"]  # fmt: skip
    assert main([*command, "train.steps=1", "learn.micro_tokens=512"]) == 0
    told = capsys.readouterr()
    assert "auto: sample.rows=1024" in told.out + told.err
    assert main([*command, "train.steps=2", "--resume", "--force"]) == 0  # forced for the steps
    told = capsys.readouterr()
    assert "train.steps: 1 -> 2" in told.out + told.err
    assert "micro_tokens" not in told.out + told.err
    kept = (tmp_path / "run" / "config.yaml").read_text()
    assert "micro_tokens: 512" in kept
    assert "rows: 1024" in kept


def test_the_share_of_servers_elsewhere_is_not_chosen_and_older_runs_with_them_are_read() -> None:
    asked = recipe("engine.sampler={vllm: {servers: ['http://127.0.0.1:1']}}")
    found = with_values(asked, choose(asked, MODELS["0.5B"], devices=MACHINES["card of 80 GiB"]).values)
    data = found.resolved()
    assert recipe_of_run(data).engine == found.engine
    data["engine"]["sampler"]["vllm"]["memory"] = 0.5  # the default of 0.2, which a run's configuration states
    assert recipe_of_run(data).engine.sampler.share == 0.5  # type: ignore[union-attr]
    with pytest.raises(UserError, match="memory applies to in-process vLLM"):
        recipe("engine.sampler={vllm: {servers: ['http://127.0.0.1:1'], memory: 0.4}}")
