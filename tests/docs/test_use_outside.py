"""What the page about use outside shows runs, block after block; those about TRL and verl where these are installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/use-outside.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(blocks: list[str]) -> dict:
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_page_runs_on_arrays() -> None:
    blocks = [block for block in BLOCKS if "verl" not in block and "trl" not in block]
    assert len(blocks) == 2
    run(blocks)


@pytest.mark.skipif(find_spec("trl") is None, reason="needs trl: docs/use-outside.md")
def test_the_page_trains_in_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer steps and rows than the page has."""
    [block] = [block for block in BLOCKS if "trl" in block]
    for shown, run_here in (("max_steps=30", "max_steps=2"), ("batch_size=256", "batch_size=32")):
        assert shown in block
        block = block.replace(shown, run_here)
    monkeypatch.chdir(tmp_path)
    names = run([block])
    assert names["trainer"].state.global_step == 2
    assert len(names["trainer"]._logs["advantages"]) == 32


@pytest.mark.skipif(find_spec("verl") is None, reason="needs verl: docs/use-outside.md")
def test_the_page_runs_in_verl() -> None:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn

    blocks = [block for block in BLOCKS if "verl" in block]
    assert len(blocks) == 1
    run(blocks)
    assert get_adv_estimator_fn("half_praise")
    assert get_adv_estimator_fn("graded_maxrl")
    assert get_policy_loss_fn("clip_higher")
