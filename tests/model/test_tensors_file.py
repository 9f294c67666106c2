"""Weights are written one tensor at a time, and safetensors reads what was written."""

from __future__ import annotations

import ctypes
import gc
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from outrider.errors import UserError
from outrider.model.lora import adapter_outputs, add_adapter, merged
from outrider.model.options import LoraOptions
from outrider.model.tensors_file import pending, write_tensors
from outrider.model.weights_file import write_weights
from sharded_mains import status
from small import random_model


def test_safetensors_reads_what_was_written(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kinds = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8]
    shapes = [(3, 5), (), (0, 4), (7,), (2, 3, 4)]
    tensors = {f"{kind} {shape}": (100 * torch.randn(shape)).to(kind) for kind in kinds for shape in shapes}
    tensors |= {"truth": torch.tensor([True, False, True]), "transposed": torch.randn(3, 4).T, "é\n": torch.ones(1)}
    tensors["sliced"] = torch.randn(9)[::2]
    write_tensors(tmp_path / "file", {name: pending(tensor) for name, tensor in tensors.items()})
    read = load_file(tmp_path / "file")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor), name


def test_a_full_disk_is_a_sentence() -> None:
    with pytest.raises(UserError, match="No space left"):
        write_tensors(Path("/dev/full"), {"a": pending(torch.zeros(1 << 20))})


@pytest.mark.parametrize(
    ("lora", "dtype"),
    [
        (False, None),
        (True, torch.bfloat16),
        pytest.param(True, None, marks=pytest.mark.slow),
        pytest.param(False, torch.bfloat16, marks=pytest.mark.slow),
    ],
)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the largest memory anew")
def test_handing_weights_over_copies_one_tensor_at_a_time(
    lora: bool, dtype: torch.dtype | None, tmp_path: Path
) -> None:
    """Rounded, an adapter added, a tied head written twice: of 100 MB less than a tenth is there once more."""
    model = random_model("qwen2", hidden_size=512, intermediate_size=2048, num_hidden_layers=8)
    if lora:
        add_adapter(model, LoraOptions(rank=4), 0)
        for half in adapter_outputs(model).values():
            torch.nn.init.normal_(half)
    wanted = {name: t.to(dtype or t.dtype) for name, t in merged(model).state_dict().items()}
    write_weights(model, tmp_path, dtype)
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        assert torch.equal(tensor, wanted.pop(name)), name
    assert not wanted
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # or copies find room in what the comparison above has freed
    Path("/proc/self/clear_refs").write_text("5")  # the kernel begins a new maximum
    before, own = status("VmRSS"), sum(p.nbytes for p in model.parameters())
    write_weights(model, tmp_path, dtype)
    assert own > 90e6
    assert status("VmHWM") - before < 0.1 * own


def test_a_large_model_is_exported_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from outrider.model.load import Policy, load_policy, save_policy
    from outrider.model.tiny import character_tokenizer

    monkeypatch.setattr("outrider.model.load._FILE", "20KB")
    model = random_model("qwen2")
    save_policy(Policy(model, character_tokenizer()), tmp_path / "out", {})
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    again = load_policy(str(tmp_path / "out")).model.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in model.state_dict().items())
