"""Rollouts as a table to read."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from outrider.record import incorrect
from outrider.train.show import rollout_table
from runs import rollout


def text_of(table: object, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rollouts_are_shown_with_their_judgement_and_harmless_text() -> None:
    wrong = replace(
        rollout(0),
        text="\x1b[2J3+4=8 [bold]",
        prefix_text="1+2=3;",
        verdict=incorrect(detail="3+4 is 7"),
        reward=math.nan,
        advantage=-0.25,
        unused="unscorable",
    )
    output = text_of(rollout_table([wrong], 5, {"p": "1 2 3 4>8:"}))
    for part in (
        *("1 of 1 rollouts", "1 2 3 4>8:", r"1+2=3;\x1b[2J3+4=8 [bold]", "incorrect", "3+4 is 7"),
        *("reward NaN, advantage -0.25", "2 tokens, stop", "unused: unscorable"),
    ):
        assert part in output
    assert "\x1b" not in output
    bare = text_of(rollout_table([rollout(0)], 5))
    assert "no verdict" in bare
    assert "reward —" in bare
    assert "advantage" not in bare


@given(total=st.integers(0, 40), n=st.integers(0, 12))
def test_shown_rollouts_are_spread_over_all(total: int, n: int) -> None:
    many = [replace(rollout(0), problem_id=f"problem-{i}.") for i in range(total)]
    output = text_of(rollout_table(many, n))
    found = [i for i in range(total) if f"problem-{i}." in output]
    assert len(found) == min(n, total)
    gaps = np.diff([*found, total])
    assert not found or (found[0] == 0 and gaps.max() - gaps.min() <= 1)
