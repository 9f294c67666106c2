"""The folder through which weights reach an engine: whose it is, who may read it, and what is left of it."""

from __future__ import annotations

import fcntl
import os
import platform
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from outrider.errors import UserError
from outrider.model.load import load_policy
from outrider.model.weights_file import named_weights, write_weights
from outrider.sample.synced_weights import SyncedWeights


def random_model(tie_word_embeddings: bool) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, tie_word_embeddings=tie_word_embeddings))


def handed(parent: Path) -> SyncedWeights:
    return SyncedWeights(str(parent), lambda make: make())


def left_by_a_killed_run(parent: Path) -> Path:
    killed = (
        "import os, sys; from outrider.sample.synced_weights import SyncedWeights; "
        "weights = SyncedWeights(sys.argv[1], lambda make: make()); print(weights.write(lambda folder: None)); "
        "sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    run = subprocess.run([sys.executable, "-c", killed, str(parent)], capture_output=True, text=True, check=False)
    assert Path(run.stdout.strip()).is_dir(), run.stderr
    return Path(run.stdout.strip())


def test_what_a_killed_run_left_is_removed_and_what_a_run_uses_stays(tmp_path: Path) -> None:
    left = left_by_a_killed_run(tmp_path)
    (tmp_path / "other").mkdir()
    first = handed(tmp_path)
    assert first.notices == [f"removed {left}, which a killed run had left"]
    used = first.write(lambda folder: None)
    second = handed(tmp_path)
    assert second.notices == []
    assert {path.name for path in tmp_path.iterdir()} == {used.name, "other"}
    for weights in (first, second):
        weights.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_what_another_machine_uses_stays_though_nothing_tells_of_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on file systems that several machines share and whose locks are each machine's own."""
    here = platform.node()
    for there in ("other", here[:-1], f"{here}2", "*"):
        monkeypatch.setattr(platform, "node", lambda there=there: there)
        folder = left_by_a_killed_run(tmp_path)
        theirs = folder.rename(folder.with_name(folder.name.replace(here, there)))
        monkeypatch.undo()
        assert handed(tmp_path).notices == []
        assert theirs.is_dir()
    monkeypatch.setattr(platform, "node", lambda: "*")
    assert len(handed(tmp_path).notices) == 1, "its own alone, whatever its name"


def test_without_locks_nothing_is_removed_and_everything_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    mine = handed(tmp_path)
    folder = mine.write(lambda folder: None)
    assert folder.is_dir()
    monkeypatch.undo()
    assert handed(tmp_path).notices == []
    assert folder.is_dir()
    mine.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o077, 0o700)])
def test_whoever_the_user_lets_read_files_may_read_weights(tmp_path: Path, umask: int, mode: int) -> None:
    """A server may be another user's."""
    before = os.umask(umask)
    try:
        folder = handed(tmp_path).write(partial(write_weights, load_policy("base:countdown").model))
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == mode
    assert stat.S_IMODE((folder / "model.safetensors").stat().st_mode) == mode & 0o666


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_head_goes_over_under_its_own_name_though_it_is_the_embedding(
    tmp_path: Path, tied: bool, dtype: torch.dtype | None
) -> None:
    """vLLM keeps a copy of a tied head, which it does not renew when the embedding alone is given."""
    model = random_model(tie_word_embeddings=tied)
    assert (model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()) == tied
    write_weights(model, tmp_path, dtype)
    written = load_file(tmp_path / "model.safetensors")
    assert written.keys() == {*model.state_dict(), "lm_head.weight"}
    for name, tensor in model.state_dict().items():
        assert torch.equal(written[name], tensor.to(dtype or tensor.dtype)), name
    assert torch.equal(written["lm_head.weight"], written["model.embed_tokens.weight"]) == tied
    in_memory = dict(named_weights(model, dtype))
    assert in_memory.keys() == written.keys()
    assert all(torch.equal(written[name], tensor) for name, tensor in in_memory.items())


@pytest.mark.parametrize(
    ("parent", "said"),
    [("/proc", r"weights cannot be written to /proc \("), ("/nowhere/at/all", "/nowhere/at/all is no folder")],
)
def test_a_place_that_cannot_be_written_is_a_sentence(parent: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^engine.sampler.vllm.folder: {said}"):
        handed(Path(parent)).write(lambda folder: None)
