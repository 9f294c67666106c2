"""Any Hugging Face causal LM from a folder: chat templates, bfloat16, adapters, recomputed layers, whole runs."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from outrider.analyse.policies import open_policy
from outrider.commands.evaluate_command import evaluate_command
from outrider.commands.train_command import train_command
from outrider.config import Evaluate, Recipe, load_options, load_recipe
from outrider.errors import UserError
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.attention import Packed, use_plans
from outrider.model.load import Policy, load_policy, save_policy
from outrider.model.lora import merged
from outrider.model.options import LoraOptions, PolicyOptions, TrainedPolicyOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.record import Problem
from outrider.sample.decoder import PackedDecoder
from outrider.sample.fused import FusedDecoder
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.plain import PlainDecoder
from outrider.sample.ready import ready
from policy_rows import row
from real_models import FAMILIES, make_model
from small import request

PROBLEM = Problem("p", "What is 3 + 4?\n")
LORA = TrainedPolicyOptions(chat=True, lora=LoraOptions(rank=4, alpha=8))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {family: make_model(family, tmp_path_factory.mktemp("real") / family) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_chat_prompt_is_what_the_template_writes(folders: dict[str, str], family: str) -> None:
    """The message loses the line that separates a plain prompt from its response; one token begins the text once."""
    tokenizer = AutoTokenizer.from_pretrained(folders[family])
    for system in (None, "Be brief."):
        options = PolicyOptions(chat=True, system=system)
        ids = load_policy(folders[family], options).encode(PROBLEM)
        turns = ([] if system is None else [("system", system)]) + [("user", "What is 3 + 4?")]
        if family == "qwen2" and system is None:
            turns = [("system", "You are a helpful assistant."), *turns]
        if family == "llama":
            form, text = "<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>", "<|begin_of_text|>"
            start = "<|start_header_id|>assistant<|end_header_id|>\n\n"
        else:
            form, text, start = "<|im_start|>{}\n{}<|im_end|>\n", "", "<|im_start|>assistant\n"
        text += "".join(form.format(*turn) for turn in turns) + start
        assert tokenizer.decode(ids) == text
        assert ids.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]


def test_a_chat_without_a_template_is_refused(tmp_path: Path) -> None:
    folder = make_model("llama", tmp_path / "m")
    (tmp_path / "m" / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match=r"has no chat template, which policy.chat=true would apply$"):
        load_policy(folder, PolicyOptions(chat=True))


def test_options_that_do_not_go_together_are_refused() -> None:
    for override, sentence in (
        ("policy.system=x", "policy: system is a message of the chat template, which chat=true applies"),
        ("policy.export=adapter", "policy: export is adapter, but without lora there is none"),
        ("policy.lora.dropout=0.1", "policy.lora.dropout is not a key"),
        ("policy.dtype=float16", "policy.dtype is .float16., but should be 'float32' or 'bfloat16'"),
    ):
        with pytest.raises(UserError, match=sentence):
            load_recipe("grpo", [override])


# Adapters.


def shaken(policy: Policy, seed: int = 0) -> Policy:
    """With an adapter that changes outputs: at the start it is zero."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return policy


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_starts_as_nothing_and_is_exported_whole_or_merged(
    folders: dict[str, str], tmp_path: Path, family: str
) -> None:
    plain = AutoModelForCausalLM.from_pretrained(folders[family])
    ids = torch.arange(5, 25)[None]
    policy = load_policy(folders[family], LORA)
    trained = {name for name, p in policy.model.named_parameters() if p.requires_grad}
    assert all(".lora_" in name for name in trained)
    assert len(trained) == 2 * 2 * 7  # two layers of seven linear maps, two matrices each
    with torch.no_grad():
        before = plain(ids).logits
        assert torch.equal(policy.model(ids).logits, before)
        want = shaken(policy).model(ids).logits
        assert (want - before).abs().max() > 0.1
        save_policy(policy, tmp_path / "merged", {})
        save_policy(policy._replace(options=LORA.model_copy(update={"export": "adapter"})), tmp_path / "adapter", {})
        whole = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
        by_peft = peft.PeftModel.from_pretrained(plain, tmp_path / "adapter")
        ours = load_policy(str(tmp_path / "adapter"), PolicyOptions(chat=True))
        for model in (whole, by_peft, ours.model, merged(policy.model)):
            assert torch.allclose(model(ids).logits, want, atol=1e-4)
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert ours.encode(PROBLEM).tolist() == policy.encode(PROBLEM).tolist()
    assert whole.generation_config.eos_token_id == plain.generation_config.eos_token_id
    assert whole.config.tie_word_embeddings == (family != "llama")


def test_an_adapter_depends_on_its_seed_alone(folders: dict[str, str]) -> None:
    one, same, other = (
        {n: p for n, p in load_policy(folders["qwen2"], LORA, seed).model.named_parameters() if "lora_A" in n}
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)


def test_adapters_that_cannot_be_had_are_refused(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def asking(*targets: str) -> TrainedPolicyOptions:
        return TrainedPolicyOptions(lora=LoraOptions(targets=list(targets)))

    with pytest.raises(UserError, match="has no linear layer 'q_poj' to adapt \\(did you mean 'q_proj'"):
        load_policy(folders["qwen2"], asking("q_poj"))
    with pytest.raises(UserError, match="has no linear layer 'lm_head' to adapt"):
        load_policy(folders["llama"], asking("lm_head"))  # sampler and learner apply the head themselves
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UserError, match=r"^policy.lora needs the package peft: pip install 'outrider\[lora\]'$"):
        load_policy(folders["qwen2"], LORA)


def test_the_reference_of_an_adapter_is_its_first_state_alone(folders: dict[str, str]) -> None:
    policy = load_policy(folders["qwen2"], LORA)
    use_plans(policy.model)
    learner = LocalLearner(policy.model, LearnOptions(lr=0.1), PolicyLoss(ObjectiveOptions(kl=0.1), 16))
    first = learner.logprobs(rows())
    adapter = [parameter for name, parameter in policy.model.named_parameters() if ".lora_" in name]
    assert sum(kept.nbytes for kept in learner.reference) == sum(parameter.nbytes for parameter in adapter) > 0
    metrics = [learner.update(rows()).metrics["kl_reference"] for _ in range(3)]
    assert metrics[0] == pytest.approx(0.0, abs=1e-7)
    assert metrics[2] > 1e-4, "the policy moved, and its reference did not"
    for parameter, kept in zip(adapter, learner.reference, strict=True):
        parameter.data.copy_(kept)
    assert all(np.array_equal(a, b) for a, b in zip(first, learner.logprobs(rows()), strict=True))


# Types of numbers, and memory.


def rows(n: int = 3) -> list:
    made = []
    for i in range(n):
        one = row([1.0 - i] * (4 + i), group=f"g{i}")
        ids = np.arange(20 * i + 5, 20 * i + 9 + i, dtype=np.int32)
        made.append(replace(one, context_ids=np.arange(9, 20, dtype=np.int32), token_ids=ids))
    return made


def learner_of(policy: Policy, dtype: torch.dtype = torch.float32, **options: object) -> LocalLearner:
    use_plans(policy.model)
    objective = ObjectiveOptions(surrogate={"unclipped": {}}, kl=0.0, aggregate="token_mean")
    return LocalLearner(policy.model, LearnOptions(**options), PolicyLoss(objective, 16), dtype=dtype)


def gradient(learner: LocalLearner) -> torch.Tensor:
    learner._accumulate([learner.loss.prepare(rows())])
    return torch.cat([p.grad.reshape(-1) for p in learner.parameters])


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_bfloat16_is_near_float32_and_keeps_steps_that_it_could_not_hold(folders: dict[str, str], family: str) -> None:
    """A step of 1e-6 is less than half a unit in the last place of bfloat16 for every weight above 5e-4."""
    exact, low = (learner_of(load_policy(folders[family]), d, lr=1e-6) for d in (torch.float32, torch.bfloat16))
    for one, other in zip(exact.logprobs(rows()), low.logprobs(rows()), strict=True):
        assert one.dtype == other.dtype == np.float32
        assert 1e-5 < np.abs(one - other).max() < 0.2
    want, got = gradient(exact), gradient(low)
    assert got.dtype == torch.float32
    assert 0.97 < torch.nn.functional.cosine_similarity(want, got, dim=0) < 1.0
    before = [p.detach().clone() for p in low.parameters]
    low.update(rows())
    moved = torch.cat([(p - b).reshape(-1) for p, b in zip(low.parameters, before, strict=True)])
    large = torch.cat([b.reshape(-1) for b in before]).abs() > 0.01
    assert (moved[large] != 0).float().mean() > 0.5
    pairs = zip(low.parameters, before, strict=True)
    rounded = torch.cat([(p.bfloat16() != b.bfloat16()).reshape(-1) for p, b in pairs])
    assert rounded[large].float().mean() < 0.01  # what a policy of bfloat16 weights would have kept of it


@pytest.mark.parametrize("path", ["fused", "packed", "plain"])
def test_the_sampler_in_bfloat16_is_near_the_learner(folders: dict[str, str], path: str) -> None:
    policy = load_policy(folders["qwen2"], PolicyOptions(dtype="bfloat16"))
    assert policy.model.dtype is torch.float32
    sampler = LocalSampler(ready(policy, path)[0], SampleOptions(max_tokens=12))
    assert type(sampler.decoder) is {"fused": FusedDecoder, "packed": PackedDecoder, "plain": PlainDecoder}[path]
    drawn = sampler.sample([request("p", [5, 6, 7], n=4), request("q", [8, 9], n=4)])
    exact = learner_of(load_policy(folders["qwen2"]))
    asked = [replace(row([0.0]), context_ids=r.prompt_ids, token_ids=r.token_ids, mode=r.mode) for r in drawn]
    gaps = np.concatenate([r.logprobs_T - want for r, want in zip(drawn, exact.logprobs(asked), strict=True)])
    assert 1e-5 < np.abs(gaps).max() < 0.3


def test_an_adapter_over_frozen_bfloat16_learns_in_float32(folders: dict[str, str]) -> None:
    policy = load_policy(folders["qwen3"], LORA.model_copy(update={"dtype": "bfloat16"}))
    assert {p.dtype for p in policy.model.parameters() if not p.requires_grad} == {torch.bfloat16}
    assert {p.dtype for p in policy.model.parameters() if p.requires_grad} == {torch.float32}
    learner = learner_of(shaken(policy), torch.bfloat16, lr=1e-6)
    before = [p.detach().clone() for p in learner.parameters]
    assert np.isfinite(learner.update(rows()).metrics["grad_norm"])
    assert all((p != b).any() for p, b in zip(learner.parameters, before, strict=True))
    assert len(LocalSampler(policy, SampleOptions(max_tokens=4)).sample([request("p", [5, 6], n=2)])) == 2


@pytest.mark.parametrize("lora", [False, True])
def test_recomputed_layers_run_twice_and_give_the_same_gradient(
    folders: dict[str, str], monkeypatch: pytest.MonkeyPatch, lora: bool
) -> None:
    def policy() -> Policy:
        return shaken(load_policy(folders["qwen2"], LORA)) if lora else load_policy(folders["qwen2"])

    want = gradient(learner_of(policy()))
    calls = []
    attend = Packed.attend
    monkeypatch.setattr(Packed, "attend", lambda *a, **k: calls.append(1) or attend(*a, **k))
    learner = learner_of(policy(), gradient_checkpointing=True)
    assert torch.equal(gradient(learner), want)
    assert len(calls) == 2 * 2
    assert not any(m.training for m in learner.model.modules())
    calls.clear()
    learner.logprobs(rows())
    assert len(calls) == 2
    LocalSampler(Policy(learner.model, policy().tokenizer), SampleOptions(max_tokens=4)).sample(
        [request("p", [5, 6], n=2)]
    )


# Runs.


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("table") / "problems.jsonl"
    lines = [json.dumps({"problem": f"What is {i} + 4?", "answer": str(i + 4)}) for i in range(9)]
    file.write_text("\n".join(lines))
    file.with_name("heldout.jsonl").write_text('{"problem": "What is 20 + 4?", "answer": "24"}\n')
    return file


def recipe(folder: str, table: Path, *overrides: str) -> Recipe:
    task = {"table": {"train_data": str(table), "heldout_data": str(table.with_name("heldout.jsonl"))}}
    return load_recipe(
        "grpo",
        [f"model={folder}", f"task={json.dumps(task)}", "policy.chat=true", "sample.max_tokens=24", "train.problems=4",
         "reward={correct: 2.0, incorrect: 1.0, unparseable: 0.0}", "train.steps=2", "train.tokens=null",
         "train.ranks=1", "evaluate={problems: 1, n: 1, before: false, after: false}", "objective.kl=0.01",
         "learn.lr=1e-3", *overrides],
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_with_chat_and_adapter_resumes_exactly_and_exports(
    folders: dict[str, str], table: Path, tmp_path: Path, family: str
) -> None:
    lora = "policy.lora={rank: 4, alpha: 8}"
    asked = recipe(folders[family], table, lora, "policy.export=adapter")
    assert train_command(asked, tmp_path / "one") == 0
    if family == "llama":
        short = recipe(folders[family], table, lora, "policy.export=adapter", "train.steps=1")
        assert train_command(short, tmp_path / "two") == 0
        assert train_command(asked, tmp_path / "two", resume=True, force=True) == 0
    runs = ("one", "two") if family == "llama" else ("one",)
    last = [load_file(tmp_path / run / "checkpoints/step-00000002/weights.safetensors") for run in runs]
    assert all(".lora_" in name for name in last[0])
    assert all(torch.equal(last[0][name], last[-1][name]) for name in last[0])
    assert any(last[0][name].abs().max() > 0 for name in last[0] if "lora_B" in name)
    base = AutoModelForCausalLM.from_pretrained(folders[family])
    by_peft = peft.PeftModel.from_pretrained(base, tmp_path / "one/model").merge_and_unload()
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        ours = open_policy(tmp_path / "one", "step-2").model  # routed through plans
        use = copy.deepcopy(merged(ours))
        use.set_attn_implementation("eager")
        assert torch.allclose(by_peft(ids).logits, use(ids).logits, atol=1e-5)
    environment = json.loads((tmp_path / "one/environment.json").read_text())
    assert environment["engine"].endswith("float32, attention by sdpa")


def test_a_run_in_bfloat16_with_recomputed_layers_is_evaluated_by_the_same_options(
    folders: dict[str, str], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")  # else the evaluation starts a process per core
    low = recipe(folders["qwen2"], table, "policy.dtype=bfloat16", "learn.gradient_checkpointing=true", "train.steps=1")
    assert train_command(low, tmp_path / "run") == 0
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run/model").dtype is torch.float32
    asked = load_options(
        Evaluate,
        {"model": str(tmp_path / "run/model"), "task": low.resolved()["task"], "evaluate": {"problems": 1, "n": 2}},
        ["policy.chat=true", "policy.dtype=bfloat16", "sample.max_tokens=8", 'sample.stop=["a", "e"]'],
        "evaluate",
    )
    assert evaluate_command(asked, tmp_path / "evaluated") == 0
