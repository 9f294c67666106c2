"""The estimate of a run in sentences."""

import pytest

from outrider.cli import main
from outrider.config import load_recipe
from outrider.estimate.estimate import estimate, lacking, layout_of
from outrider.estimate.memory import Layout, most_rollouts
from outrider.model.places import local_config
from outrider.processes.devices import RUNS_AT_ONCE, Devices


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


def test_a_dry_run_says_it_in_comments(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    words = ["--setting", "gsm8k-0.5b", "model=base:countdown", "engine.sampler=local", "--dry-run"]
    assert main(["train", "deep-grpo", *words]) == 0
    shown = capsys.readouterr().out
    assert "# at most 4,608 rollouts and 3,538,944 generated tokens a step (64 problems, 768 tokens" in shown
    assert "GiB at its peak for 448,128 parameters: libraries 0.50, weights" in shown
    assert "#   while it samples: KV cache" in shown
    assert "#   while it learns: activations" in shown
    assert "GiB of this machine, with" in shown
    (tmp_path / "again.yaml").write_text(shown)
    assert load_recipe(str(tmp_path / "again.yaml")).train.problems == 64
    assert main(["train", "dapo", "--setting", "paper", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "and what refill adds" in shown
    assert "# memory: Qwen/Qwen2.5-32B has no config.json on this machine, so there is no estimate" in shown
    recipe = load_recipe("grpo")
    assert estimate(recipe, {"num_local_experts": 8})[1].endswith(
        "is not a dense decoder of a known kind, so there is no estimate"
    )


def lines(monkeypatch: pytest.MonkeyPatch, devices: Devices | None, *overrides: str) -> list[str]:
    monkeypatch.setattr("outrider.estimate.estimate.find_devices", lambda: devices)
    return estimate(load_recipe("grpo", list(overrides)), local_config("base:countdown"))


def test_each_gpu_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    told = lines(monkeypatch, Devices(8, 80 << 30, "a card", host=False))
    assert told[1].startswith("memory of each GPU, about ")
    assert told[-1].startswith("fits the 80.0 GiB of a card, with 7")
    assert not any("share" in line for line in told)


def test_processes_of_a_host_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    told = lines(monkeypatch, Devices(1, 80 << 30, "this machine", host=True), "train.ranks=3")
    assert told[1].startswith("memory of each process, about ")
    assert told[-2].startswith("3 processes share the host's memory: ")


def test_a_system_that_does_not_say_how_much_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, None)[-1] == "the memory of this system is unknown"


def test_servers_are_told_what_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes ask at most 30 of it at a time each, and never more than its half of the step's 256."""
    servers = "engine.sampler={vllm: {servers: ['http://a:1', 'http://b:1'], in_flight: 30}}"
    told = lines(monkeypatch, Devices(1, 80 << 30, "this machine", host=True), "train.ranks=2", servers)
    (said,) = (line for line in told if "vLLM" in line)
    assert said.startswith("each vLLM server, in addition: weights 0.00 in float32, and ")
    assert said.endswith("for the KV cache of 60 concurrent rollouts")
    assert not any("while it samples" in line for line in told)
    assert "for the KV cache of 128 concurrent rollouts" in next(
        line for line in lines(monkeypatch, None, servers.replace("30", "640")) if "vLLM" in line
    )


def test_vllm_inside_the_run_is_told_what_it_needs_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    told = lines(monkeypatch, Devices(1, 80 << 30, "a card", host=False), "engine.sampler={vllm: {memory: 0.25}}")
    (said,) = (line for line in told if "vLLM" in line)
    assert said.startswith("vLLM takes 0.25 of that memory in addition, and needs: weights 0.00 in float32, and ")
    assert said.endswith("of 256 concurrent rollouts")
    assert told[-1].startswith("fits the 80.0 GiB of a card, with 59.")


def test_shares_are_those_of_the_processes_that_there_will_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """As launched, and as torchrun has launched."""
    shared = "engine={learner: fsdp2, sampler: {vllm: {servers: ['http://a:1']}}}"
    recipe, cards = load_recipe("grpo", [shared, "train.ranks=4"]), Devices(8, 80 << 30, "a card", host=False)
    assert layout_of(recipe, cards) == Layout(4, sharded=True, gpu=True)
    monkeypatch.setenv("WORLD_SIZE", "16")
    assert layout_of(load_recipe("grpo", [shared]), cards) == Layout(16, sharded=True, gpu=True)
    assert layout_of(load_recipe("grpo", ["engine.learner=local"]), cards) == Layout(16, gpu=True)


def test_what_lies_beside_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process reads the whole model before it keeps a share; with offload it keeps that too."""
    monkeypatch.setattr("outrider.estimate.estimate.host_share", lambda: 1 << 30)
    cards = Devices(2, 80 << 30, "a card", host=False)
    engine = "engine={{learner: {{fsdp2: {{offload: {}}}}}, sampler: {{vllm: {{servers: ['http://a:1']}}}}}}"
    for offload in ("true", "false"):
        told = lines(monkeypatch, cards, engine.format(offload), "train.ranks=2")
        (said,) = (line for line in told if line.startswith("the host's memory"))
        assert ("and keeps weights" in said) == (offload == "true")
        assert said.endswith("; 2 of them need 1.0 of 1.0 GiB, too much")
    assert not any("host" in line for line in lines(monkeypatch, cards, "train.ranks=2"))


def test_responses_of_a_step_count_against_the_share_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bench of three runs holds three steps of responses at once."""
    recipe = load_recipe("grpo", ["explore=[{uniform: {n: 1}}]", "sample.max_tokens=1000"])
    step = recipe.train.problems * (2_000 + 16 * 1000)
    monkeypatch.setattr("outrider.processes.devices.host_memory", lambda: 2 * step)
    assert lacking(recipe, None) is None
    monkeypatch.setenv(RUNS_AT_ONCE, "3")
    assert "whose responses alone take" in (lacking(recipe, None) or "")


def test_more_processes_than_gpus_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = Devices(2, 80 << 30, "a card", host=False)
    assert "8 processes need one GPU each, and this machine has 2" in lines(monkeypatch, cards, "train.ranks=8")
    monkeypatch.setenv("WORLD_SIZE", "8")  # on several machines
    assert not any("need one GPU each" in line for line in lines(monkeypatch, cards))


def test_names_that_are_not_counted_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    told = lines(monkeypatch, None, "policy.lora={targets: [q_proj, c_attn]}")
    assert any(line.startswith("policy.lora.targets: the estimate counts q_proj, k_proj") for line in told)
    assert not any("targets" in line for line in lines(monkeypatch, None, "policy.lora={targets: [q_proj]}"))


def test_a_quantised_model_has_no_estimate() -> None:
    config = dict(local_config("base:countdown") or {}, quantization_config={"quant_method": "gptq", "bits": 4})
    assert estimate(load_recipe("grpo"), config)[1].endswith("so there is no estimate")
