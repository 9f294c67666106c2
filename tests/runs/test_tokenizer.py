"""Which tokenizer reads a run, and which models have theirs on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from outrider.model.places import local_tokenizer, model_folder
from outrider.runs.tokenizer import tokenizer_of

BASE = Path(model_folder("base:countdown")) / "tokenizer.json"


def test_the_exported_tokenizer_comes_before_that_of_the_model(tmp_path: Path) -> None:
    assert tokenizer_of(tmp_path, None, local_tokenizer) is None
    assert tokenizer_of(tmp_path, "no-one/no-such-model", local_tokenizer) is None
    found = tokenizer_of(tmp_path, "base:countdown", local_tokenizer)
    assert found is not None
    (tmp_path / "model").mkdir()
    shutil.copy(Path(model_folder("base:prose")) / "tokenizer.json", tmp_path / "model")
    exported = tokenizer_of(tmp_path, "base:countdown", local_tokenizer)
    assert exported is not None
    assert exported.get_vocab_size() != found.get_vocab_size()


def test_a_model_in_the_cache_of_the_hub_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache's layout: a file of refs names the snapshot."""
    repository = tmp_path / "models--someone--tiny"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    shutil.copy(BASE, snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(tmp_path))
    assert local_tokenizer("someone/tiny") == snapshot / "tokenizer.json"
    assert local_tokenizer("someone/other") is None


def test_a_base_that_is_not_made_yet_has_the_tokenizer_that_it_is_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    assert local_tokenizer("base:smollm2") is None  # of a GGUF file that was not converted
    assert local_tokenizer("base:nothing") is None
