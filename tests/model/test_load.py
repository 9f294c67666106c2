"""Loading policies: the shipped base, ordinary folders, and every way in which a folder can be none."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import pre_tokenizers, processors
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
)
from transformers.utils import logging

from outrider.errors import UserError
from outrider.model.attention import use_plans
from outrider.model.load import Policy, load_policy, lost_characters, save_policy
from outrider.model.options import PolicyOptions
from outrider.model.places import model_folder
from outrider.model.tiny import character_tokenizer, tiny_policy
from outrider.record import Problem, SampleRequest, group_id
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.tasks.countdown import Countdown
from small import random_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model folder."""
    where = tmp_path / "model"
    save_policy(Policy(random_model("llama"), character_tokenizer()), where, {"step": 3})
    return where


def test_the_shipped_base_is_small_ordinary_and_as_good_as_its_card_says() -> None:
    where = Path(model_folder("base:countdown"))
    assert sum(f.stat().st_size for f in where.iterdir()) < 2_000_000
    model = AutoModelForCausalLM.from_pretrained(where)
    assert sum(p.numel() for p in model.parameters()) == 448_128
    assert model.config.model_type == "qwen2"
    assert model.config.hidden_size // model.config.num_attention_heads == 32
    problem = Countdown().heldout(1)[0]
    assert (
        AutoTokenizer.from_pretrained(where)(problem.prompt)["input_ids"]
        == load_policy("base:countdown").encode(problem).tolist()
    )


def test_the_shipped_base_solves_about_a_fifth_of_the_heldout_samples() -> None:
    """Measured 0.22 on 300 problems; 60 problems of 8 samples stray by about 0.05."""
    policy = load_policy("base:countdown")
    use_plans(policy.model)
    task = Countdown()
    requests = [
        SampleRequest(problem, n=8, prompt_ids=policy.encode(problem), group_id=group_id(0, problem))
        for problem in task.heldout(60)
    ]
    rollouts = LocalSampler(policy, SampleOptions(max_tokens=96, rows=512)).sample(requests)
    problems = {r.problem.id: r.problem for r in requests}
    share = sum(task.verify(problems[r.problem_id], r.text, not r.truncated).success for r in rollouts) / len(rollouts)
    assert 0.1 < share < 0.35


def test_saved_and_loaded_is_the_same(folder: Path) -> None:
    policy = load_policy(str(folder))
    original = random_model("llama")
    assert all(torch.equal(a, b) for a, b in zip(policy.model.parameters(), original.parameters(), strict=True))
    assert not policy.model.training
    with pytest.raises(UserError, match="exists; choose another folder"):
        save_policy(policy, folder, {})


def change_weights(folder: Path, change) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def without_layer_1(weights: dict[str, torch.Tensor]) -> None:
    for name in [name for name in weights if ".layers.1." in name]:
        del weights[name]


def change_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def more_tokens(folder: Path, eos: str | None = None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<end>"])
    tokenizer.eos_token = eos or tokenizer.eos_token
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: shutil.rmtree(f), "no such folder"),
        (lambda f: (f / "config.json").unlink(), "holds no config.json"),
        (lambda f: [(f / n).unlink() for n in ("tokenizer.json", "tokenizer_config.json")], "has no tokenizer"),
        (lambda f: (f / "model.safetensors").unlink(), "the weights could not be loaded"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}"), "the weights could not be loaded"),
        (lambda f: change_weights(f, lambda w: w.pop("lm_head.weight")), r"config.json: no lm_head.weight$"),
        (
            lambda f: change_weights(f, without_layer_1),
            r"no model.layers.1.input_\S+, no .*, no .* and 6 more like this$",
        ),
        (
            lambda f: change_config(f, vocab_size=40),
            r"lm_head.weight of shape \[32, \d+\] instead of \[40, \d+\], model",
        ),
        (
            lambda f: change_config(f, quantization_config={"quant_method": "awq"}),
            r"could not be loaded \(\w+ing an? AWQ",
        ),
        (lambda f: more_tokens(f, eos="<end>"), "ends a sequence with token 32, and the model has 32 tokens, so no"),
        (lambda f: (f / "config.json").write_text("{"), "model '"),
        (lambda f: (f / "config.json").write_text('{"model_type": "no-such-model"}'), "model '"),
    ],
)
def test_a_folder_that_is_no_model_is_refused_in_one_sentence(folder: Path, damage, sentence: str) -> None:
    damage(folder)
    with pytest.raises(UserError, match=sentence) as caught:
        load_policy(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prompt_with_a_token_that_the_model_lacks_is_refused(folder: Path) -> None:
    more_tokens(folder)
    policy = load_policy(str(folder))
    ids = policy.encode(Problem("p", "1+2<end>"))
    asked = SampleRequest(Problem("p", ""), n=1, prompt_ids=ids, group_id="g")
    with pytest.raises(
        UserError, match=r"^problem 'p': its context has '<end>', token 32 of the tokenizer, and the mod"
    ):
        LocalSampler(policy, SampleOptions(max_tokens=4)).sample([asked])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_one_sentence_and_no_model_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Safetensors has an exception of its own for what the system refuses."""
    monkeypatch.setattr(
        "transformers.modeling_utils.safe_save_file",
        lambda tensors, path, **options: save_file(tensors, "/dev/full/model", **options),
    )
    with pytest.raises(UserError, match=f"^cannot write m in {tmp_path}: .*; everything written before"):
        save_policy(Policy(random_model("llama"), character_tokenizer()), tmp_path / "m", {})
    assert not (tmp_path / "m").exists()


def test_names() -> None:
    with pytest.raises(UserError, match="'base:countdwn' is not a shipped base \\(did you mean 'countdown'"):
        load_policy("base:countdwn")
    with pytest.raises(UserError, match="not found on the hub, or the hub cannot be reached"):
        load_policy("some-one/some-model-that-is-not-here")


def test_a_hub_that_cannot_be_reached_is_told_at_once(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(
        "transformers.AutoTokenizer.from_pretrained", lambda name: pytest.fail("transformers was asked")
    )
    with pytest.raises(UserError, match="'some-one/not-here': not found on the hub, or the hub cannot be reached"):
        load_policy("some-one/not-here")
    assert caplog.records == []


def test_a_model_that_caps_its_logits_runs_its_own_forward_pass(tmp_path: Path) -> None:
    config = Gemma2Config(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, sliding_window=16, final_logit_softcapping=0.1, initializer_range=1.0,
    )  # fmt: skip
    Gemma2ForCausalLM(config).save_pretrained(tmp_path / "m")
    character_tokenizer().save_pretrained(tmp_path / "m")
    policy, told = ready(load_policy(str(tmp_path / "m")))
    assert policy.path.name == "plain"
    assert told.startswith("Gemma2ForCausalLM on the plain path (its own forward pass and cache, slower than our own)")


def test_attention_that_cannot_be_replaced_is_refused() -> None:
    model = MambaForCausalLM(MambaConfig(vocab_size=32, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(UserError, match="MambaForCausalLM has layers whose attention cannot be replaced"):
        use_plans(model)


def test_a_model_of_another_kind_runs_on_the_generic_path() -> None:
    """GPT-2: learned positions, layer norms, a head of its own."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=32, n_positions=64, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5, eos_token_id=2
    )
    model = GPT2LMHeadModel(config).eval()
    plain = copy.deepcopy(model)
    use_plans(model)
    policy = Policy(model, character_tokenizer())
    problem = Problem("p", "3 4>7:")
    asked = [SampleRequest(problem, n=4, prompt_ids=policy.encode(problem), group_id="g")]
    for rollout in LocalSampler(policy, SampleOptions(max_tokens=12)).sample(asked):
        ids = torch.tensor([[*rollout.prompt_ids.tolist(), *rollout.token_ids.tolist()]])
        with torch.no_grad():
            logps = plain(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1].log_softmax(-1)
        chosen = logps.gather(1, torch.from_numpy(rollout.token_ids).long()[:, None])[:, 0]
        assert abs(rollout.logprobs_T - chosen.numpy()).max() < 1e-5


def test_the_tiny_policy_repeats() -> None:
    a, b, c = tiny_policy(0), tiny_policy(0), tiny_policy(1)
    assert all(torch.equal(x, y) for x, y in zip(a.model.parameters(), b.model.parameters(), strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(a.model.parameters(), c.model.parameters(), strict=True))


@pytest.mark.parametrize("start", ["", "<s> "])
def test_a_prompt_that_loses_something_is_refused(start: str) -> None:
    """Also with a start token: of Countdown's problems, the base of another task reads little else."""
    policy = tiny_policy(0)
    policy.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        f"{start}$A", special_tokens=[("<s>", 1)]
    )
    # in no vocabulary of one token per character
    for prompt, lost in (("ü", "'ü'"), ("3ü+Ab?", "'?', 'b', 'ü'")):
        with pytest.raises(UserError, match=re.escape(f"problem 'p': the tokenizer has no token for {lost} of")):
            policy.encode(Problem("p", prompt))
    if not start:
        with pytest.raises(UserError, match="problem 'p': its prompt has no tokens"):
            policy.encode(Problem("p", "\u200d"))


def test_a_tokenizer_of_bytes_leaves_nothing_out() -> None:
    from transformers import Qwen2Tokenizer

    whole = Qwen2Tokenizer(
        vocab={byte: i for i, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]
    )
    assert lost_characters(whole, "Ab 7?\n∑ ü 漢字 👩\u200d🔬 \x00") == []
    assert lost_characters(tiny_policy(0).tokenizer, "12 b\u0301 \n+<s>A") == ["b"], "a special token is one"
    assert lost_characters(whole, "") == []


@pytest.fixture(params=[True, False])
def bars(request: pytest.FixtureRequest) -> bool:
    """Whether whoever imports us wants the bars of transformers."""
    switch = {True: logging.enable_progress_bar, False: logging.disable_progress_bar}
    before = logging.is_progress_bar_enabled()
    switch[request.param]()
    yield request.param
    switch[before]()


def test_weights_come_and_go_without_a_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str], bars: bool) -> None:
    save_policy(load_policy("base:countdown"), tmp_path / "model", {})
    load_policy(str(tmp_path / "model"))
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == bars, "what others have chosen is theirs"


def test_a_system_prompt_that_loses_something_is_refused() -> None:
    """The tokenizer reads all messages, not the user's last alone."""
    policy = tiny_policy(0)
    policy.tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    asked = Problem("p", "3", messages_before=({"role": "user", "content": "é"}, {"role": "assistant", "content": "1"}))
    for problem, options, lost in (
        (Problem("p", "3"), PolicyOptions(chat=True, system="ü"), "'ü'"),
        (asked, PolicyOptions(chat=True), "'é'"),
    ):
        with pytest.raises(UserError, match=f"problem 'p': the tokenizer has no token for {lost} of its prompt"):
            policy._replace(options=options).encode(problem)


THINKS = (
    "{% for m in messages %}({{ m.content }}){% endfor %}{% if add_generation_prompt %}"
    "{% if enable_thinking is defined and not enable_thinking %}-{% else %}+{% endif %}{{ mark }}{% endif %}"
)


def test_arguments_of_the_chat_template_reach_it_wherever_it_is_applied(tmp_path: Path) -> None:
    policy = tiny_policy(0)
    policy.tokenizer.chat_template = THINKS
    save_policy(policy, tmp_path / "m", {})
    for arguments, end in (
        ({}, "+"),
        ({"enable_thinking": False}, "-"),
        ({"enable_thinking": False, "mark": "="}, "-="),
    ):
        opened = load_policy(str(tmp_path / "m"), PolicyOptions(chat=True, chat_template_kwargs=arguments))
        assert "".join(opened.token_texts(opened.encode(Problem("p", "3")))) == f"(3){end}"
        assert opened.prompt_end == f"){end}"
        assert "".join(opened.token_texts(opened.observation("4"))).endswith(f"(4){end}")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("enable_thinkin", "did you mean 'enable_thinking'?"),
        ("tokenize", "known: enable_thinking, mark"),
        ("messages", "known: enable_thinking, mark"),
    ],
)
def test_an_argument_that_the_chat_template_does_not_read_is_refused(tmp_path: Path, name: str, hint: str) -> None:
    policy = tiny_policy(0)
    policy.tokenizer.chat_template = THINKS
    save_policy(policy, tmp_path / "m", {})
    with pytest.raises(UserError) as found:
        load_policy(str(tmp_path / "m"), PolicyOptions(chat=True, chat_template_kwargs={name: False}))
    assert str(found.value) == f"policy.chat_template_kwargs: the template does not read {name!r} ({hint})"


@pytest.mark.parametrize("tag", ["{% break %}", "{% continue %}", "{% generation %}x{% endgeneration %}"])
def test_tags_that_transformers_knows_are_read(tmp_path: Path, tag: str) -> None:
    policy = tiny_policy(0)
    policy.tokenizer.chat_template = "{% for m in messages %}({{ m.content }}){{ mark }}" + tag + "{% endfor %}"
    save_policy(policy, tmp_path / "m", {})
    load_policy(str(tmp_path / "m"))
    opened = load_policy(str(tmp_path / "m"), PolicyOptions(chat=True, chat_template_kwargs={"mark": "="}))
    assert "".join(opened.token_texts(opened.encode(Problem("p", "3")))).startswith("(3)=")
    with pytest.raises(UserError, match=r"does not read 'raise_exception' \(known: mark\)"):
        load_policy(str(tmp_path / "m"), PolicyOptions(chat=True, chat_template_kwargs={"raise_exception": 1}))
