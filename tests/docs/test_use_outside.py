"""What the page about use outside shows runs, block after block; those about verl where it is installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/use-outside.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(blocks: list[str]) -> None:
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_the_page_runs_on_arrays() -> None:
    blocks = [block for block in BLOCKS if "verl" not in block]
    assert len(blocks) == 2
    run(blocks)


@pytest.mark.skipif(find_spec("verl") is None, reason="needs verl: docs/use-outside.md")
def test_the_page_runs_in_verl() -> None:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn

    blocks = [block for block in BLOCKS if "verl" in block]
    assert len(blocks) == 1
    run(blocks)
    assert get_adv_estimator_fn("half_praise")
    assert get_adv_estimator_fn("graded_maxrl")
    assert get_policy_loss_fn("clip_higher")
