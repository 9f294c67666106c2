"""The simulated engine: against a loop over decoding steps, and the limits of throughput and latency."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_code import STUDIES, study_code

engine = study_code("_simulated_engine")
sys.path.insert(0, str(STUDIES))

import overlap  # noqa: E402 - a study, which finds others beside it


def by_steps(gpu, waiting: list[int]) -> float:
    """Every decoding step by itself; rows join in the order of the requests."""
    now, rows, waiting = 0.0, [], list(waiting)
    while waiting or rows:
        while waiting and len(rows) < gpu.rows:
            rows.append(waiting.pop(0))
        now += gpu.first + len(rows) * gpu.row
        rows = [left - 1 for left in rows if left > 1]
    return now


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5), st.integers(1, 3))
def test_the_time_is_that_of_a_loop_over_decoding_steps(tokens: list[int], rows: int, gpus: int) -> None:
    gpu = engine.Gpu(first=0.7, row=0.2, rows=rows, learn=1.0)
    shares = [tokens[i::gpus] for i in range(gpus)]
    assert engine.drained(gpu, gpus, np.array(tokens)) == pytest.approx(max(by_steps(gpu, share) for share in shares))


def test_lengths_have_their_mean_and_their_limit() -> None:
    drawn = engine.lengths(np.random.default_rng(0), 100_000, 100.0, 10_000, 0.5)
    assert drawn.mean() == pytest.approx(100, rel=0.01)
    assert engine.lengths(np.random.default_rng(0), 1000, 100.0, 120, 0.5).max() == 120


@pytest.mark.parametrize("way", overlap.WAYS)
def test_lag_is_no_faster_than_full_width_and_no_slower_than_in_turn_on_several_gpus(way: str) -> None:
    gpu = engine.calibrated(20_000.0, 256, alone=0.005, rows=256, learn=47_000.0)
    parts = overlap.rounds(way, np.random.default_rng(1), 8 * overlap.PROBLEMS)
    found = overlap.step(gpu, 8, parts, sync=1.0)
    assert found["at full width"] < found["gaps filled"] < found["lag"] < found["in turn"] < found["divided"]
    # by hand, for the best of all divisions: samplers wait for learners without a lag, and for the slower with one
    halves = [
        (sum(engine.drained(gpu, n, part) for part in parts), sum(map(np.sum, parts)) / (47_000.0 * (8 - n)))
        for n in range(3, 8)
    ]
    assert found["divided"] == pytest.approx(min(map(sum, halves)) + 1.0)
    assert found["lag"] == pytest.approx(min(map(max, halves)) + 1.0)
    assert overlap.step(gpu, 1, parts, sync=1.0)["lag"] == overlap.step(gpu, 1, parts, sync=1.0)["in turn"]


def test_rounds_of_one_wave_and_of_three_have_as_many_responses() -> None:
    sizes = {way: sum(map(len, overlap.rounds(way, np.random.default_rng(0), 16))) for way in overlap.WAYS}
    assert sizes["one wave"] == sizes["three waves"] == 16 * overlap.N


def test_the_page_on_lag_has_the_seconds_of_the_study() -> None:
    eight = json.loads((STUDIES / "overlap.json").read_text())["8 GPUs"]
    page = (STUDIES.parents[1] / "docs" / "lag.md").read_text()
    for way in ("in turn", "divided", "lag"):
        seconds = " | ".join(f"{eight[name][way]:.1f} s" for name in ("one wave", "three waves", "branches"))
        assert f"| {seconds} |" in page
