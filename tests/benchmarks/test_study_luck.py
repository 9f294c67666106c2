"""``benchmarks/studies/luck.py``: what is right by chance alone, against drawing."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from outrider.record import Problem

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


def test_a_policy_that_knows_nothing_is_as_good_by_chance_and_one_that_knows_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers are one of ten, so 64 blind samples find one with 1 - 0.9^64; one policy of a level knows half."""
    monkeypatch.syspath_prepend(str(STUDIES))
    study = importlib.import_module("luck")
    draw = np.random.default_rng(0)
    problems = [Problem(f"{level}/{i}", "?", answer=i % 10, level=level) for level in "23" for i in range(40)]
    blind = {problem.id: [str(n) for n in draw.integers(10, size=64)] for problem in problems}
    for problem in problems:
        if problem.level == "2":
            blind[problem.id][:32] = [str(problem.answer)] * 32
    found = study.by_level(problems, blind)
    assert found["3"]["pass@1"] == pytest.approx(found["3"]["pass@1 by chance"], abs=0.02)
    assert found["3"]["pass@8 by chance"] == pytest.approx(1 - 0.9**8, abs=0.02)
    assert found["2"]["pass@1"] == pytest.approx(0.55, abs=0.02)
    # of 39 others three have the same answer, and to these what is known is right too
    assert found["2"]["pass@1 by chance"] == pytest.approx(0.05 + 0.5 * 3 / 39, abs=0.01)
    assert found["2"]["most common answer"] == 0.1
