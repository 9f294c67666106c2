"""Models in GGUF files: the weights, the tokenizer and the ends are the file's, and mistakes are one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from outrider.errors import UserError
from outrider.model.gguf_file import SOURCE, folder_of_gguf, precision_of
from outrider.model.load import load_policy, save_policy
from outrider.model.options import PolicyOptions
from outrider.model.places import local_config, local_tokenizer, model_folder
from outrider.record import Problem

gguf = pytest.importorskip("gguf", reason="needs the package gguf")
if tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 23):
    pytest.skip("the extra gguf needs transformers 5.23", allow_module_level=True)

SHAPE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": 128}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}<e>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"


def characters() -> list[str]:
    """The 256 bytes as GPT-2's vocabulary writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    tokens = {"vocab_size": 260, "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": True}
    made = LlamaForCausalLM(
        LlamaConfig(**SHAPE, **HEADS, **tokens, rope_parameters={"rope_type": "default", "rope_theta": 5e4})
    )
    for parameter in made.parameters():  # larger than the start of training, so that attention is not uniform
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """The rows of a projection in llama.cpp's order, whose rotary pairs are neighbours and not half a head apart."""
    rows = weight.shape[0] // heads
    return weight.reshape(heads, 2, rows // 2, -1).swapaxes(1, 2).reshape(weight.shape)


NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def written(
    file: Path, source: LlamaForCausalLM, quantised: bool = False, without: str = "", architecture: str = "llama"
) -> Path:
    """The model as llama.cpp writes it, or without one tensor, or labelled as another architecture."""
    writer = gguf.GGUFWriter(str(file), architecture)
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(HEADS["num_attention_heads"])
    writer.add_head_count_kv(HEADS["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(5e4)
    writer.add_vocab_size(260)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "<e>", *characters(), "th", "the"])
    writer.add_token_types([3, 3, *[1] * 258])  # 3: control
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    state = {name: tensor.numpy() for name, tensor in source.state_dict().items()}

    def add(name: str, weight: np.ndarray) -> None:
        if name == without:
            return
        if quantised and weight.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weight)

    add("token_embd.weight", state["model.embed_tokens.weight"])
    add("output_norm.weight", state["model.norm.weight"])
    for layer in range(SHAPE["num_hidden_layers"]):
        for theirs, ours in NAMES.items():
            weight = state[f"model.layers.{layer}.{theirs}.weight"]
            if ours in ("attn_q", "attn_k"):
                heads = HEADS["num_attention_heads" if ours == "attn_q" else "num_key_value_heads"]
                weight = interleaved(weight, heads)
            add(f"blk.{layer}.{ours}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(("quantised", "apart"), [(False, 1e-4), (True, 0.5)])
def test_its_model_is_the_one_that_was_written(tmp_path: Path, quantised: bool, apart: float) -> None:
    source = model()
    name = str(written(tmp_path / "tiny.gguf", source, quantised))
    policy = load_policy(name, PolicyOptions(chat=True))
    ids = torch.arange(2, 60).remainder(258)[None]
    with torch.no_grad():
        found, expected = (m(ids).logits.log_softmax(-1) for m in (policy.model, source))
    assert (found - expected).abs().max() < apart
    assert policy.encode(Problem("p", "the\nsame é", "")).tolist()[1:3] == [259, 2 + characters().index("Ċ")]
    assert policy.tokenizer.eos_token_id == 1
    assert "".join(policy.token_texts(policy.encode(Problem("p", "the same", "")))) == "<s>the same<e><s>"
    kind, bits = ("Q8_0", "8.6") if quantised else ("F32", "32.0")
    said = precision_of(model_folder(name))
    assert said == f"weights from tiny.gguf ({kind}, {bits} bits per weight), converted to float32"


def test_it_is_made_once_and_what_a_run_exports_is_an_ordinary_folder(tmp_path: Path, cache: Path) -> None:
    name = str(written(tmp_path / "tiny.gguf", model()))
    assert local_tokenizer(name) is None  # nobody waits for a conversion to look at a run
    policy = load_policy(name)
    (folder,) = (entry for entry in cache.iterdir() if entry.suffix != ".lock")
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert model_folder(name) == str(folder)
    assert (local_config(name) or {})["num_hidden_layers"] == 2
    assert local_tokenizer(name) == folder / "tokenizer.json"
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    save_policy(policy, tmp_path / "exported", {})
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), policy.model.parameters(), strict=True))
    assert AutoTokenizer.from_pretrained(tmp_path / "exported")("the")["input_ids"] == [259]
    assert not (tmp_path / "exported" / SOURCE).exists()
    assert "quantization_config" not in json.loads((tmp_path / "exported" / "config.json").read_text())


def installed(place: Path, name: str, files: list[str]) -> None:
    """A distribution of these files."""
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_the_file_of_an_installed_package_is_read_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "tiny_model").mkdir(parents=True)
    written(site / "tiny_model" / "tiny.gguf", model())
    (site / "tiny_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    installed(site, "tiny-model", ["tiny_model/__init__.py", "tiny_model/tiny.gguf"])
    installed(site, "two-models", ["a.gguf", "b.gguf"])
    installed(site, "no-model", ["a.py"])
    monkeypatch.syspath_prepend(str(site))
    assert Path(folder_of_gguf("package:tiny-model")).is_dir()
    for name, said in (
        ("two-models", "two-models has 2 of them: name one by its path, as in "),
        ("no-model", "expected a package with one GGUF file, but no-model has none"),
        ("tiny-modl", "no package 'tiny-modl' is installed (did you mean 'tiny-model'?)"),
    ):
        with pytest.raises(UserError) as found:
            model_folder(f"package:{name}")
        assert said in str(found.value)


def test_what_is_no_model_is_named(tmp_path: Path, cache: Path) -> None:
    whole = written(tmp_path / "tiny.gguf", model()).read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.gguf").write_bytes(b"no model")
    (tmp_path / "big-00001-of-00002.gguf").write_bytes(whole)
    written(tmp_path / "gap.gguf", model(), without="blk.1.ffn_up.weight")
    written(tmp_path / "norm.gguf", model(), without="output_norm.weight")
    for other in ("gemma3", "phi3", "mamba", "clip"):
        written(tmp_path / f"{other}.gguf", model(), architecture=other)
        with pytest.raises(UserError, match=f"model '.*{other}.gguf': "):
            load_policy(str(tmp_path / f"{other}.gguf"))
    for name, said in (
        ("gap", "gap.gguf lacks weights: no model.layers.1.mlp.up_proj.weight"),
        ("norm", "norm.gguf lacks weights: no model.norm.weight"),
        ("cut", "cannot be read as a model ("),
        ("text", "cannot be read as a model ("),
        ("absent", "no such file"),
        ("big-00001-of-00002", "is one of several parts; join them"),
    ):
        with pytest.raises(UserError) as found:
            load_policy(str(tmp_path / f"{name}.gguf"))
        assert said in str(found.value)
        assert str(found.value).count("\n") == 0
    assert not [entry for entry in cache.iterdir() if entry.suffix != ".lock"]


def test_files_beside_it_change_nothing(tmp_path: Path, cache: Path) -> None:
    """Transformers would take another model's tokenizer and settings from the folder of the file."""
    source = model()
    base = Path(model_folder("base:countdown"))
    (tmp_path / "mixed").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (tmp_path / "mixed" / name).write_bytes((base / name).read_bytes())
    (tmp_path / "mixed" / "adapter_config.json").write_text('{"base_model_name_or_path": "some/where"}')
    policy = load_policy(str(written(tmp_path / "mixed" / "tiny.gguf", source)))
    assert policy.tokenizer("the")["input_ids"] == [259]
    assert policy.tokenizer.eos_token_id == 1
    assert [entry.name for entry in cache.iterdir() if entry.suffix != ".lock"] == [
        Path(policy.model.name_or_path).name
    ]


def test_a_folder_that_is_called_like_a_file_is_a_folder_and_best_of_n_is_no_part(tmp_path: Path) -> None:
    folder = tmp_path / "model.gguf"
    save_policy(load_policy("base:countdown"), folder, {})
    assert model_folder(str(folder)) == str(folder)
    assert Path(model_folder(str(written(tmp_path / "best-of-n.GGUF", model())))).is_dir()
