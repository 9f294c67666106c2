"""The picture of a run: what is drawn where, from whatever there is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.measure.evaluation import evaluate
from outrider.record import Problem, correct, incorrect
from outrider.screen.curves import _smooth, curves_figure
from runs import python, rollout
from unpainted import draw_curves


def evaluation(*pass_at: float | None) -> dict[str, object]:
    """As ``Evaluation.to_json`` writes it: text keys, null for NaN."""
    intervals = {
        str(2**i): {"value": p, "low": None if p is None else p - 0.1, "high": None if p is None else p + 0.1}
        for i, p in enumerate(pass_at)
    }
    return {"schema_version": 1, "overall": {"pass_at": intervals}}


def test_curves_put_evaluations_at_the_tokens_of_their_step() -> None:
    rows = [{"step": s, "tokens": 1000.0 * s, "reward": 0.1 * s, "entropy": 1 / s} for s in range(1, 5)]
    figure = curves_figure(rows, {0: evaluation(0.2, 0.3), 2: evaluation(0.5, None), 4: evaluation(0.4, 0.6)})
    reward, entropy, shares, pass_at_k = figure.axes
    (points,) = reward.containers
    assert points.lines[0].get_xdata().tolist() == [0, 2000, 4000]
    assert points.lines[0].get_ydata().tolist() == [0.2, 0.5, 0.4]
    assert entropy.lines[0].get_ydata().tolist() == [1, 1 / 2, 1 / 3, 1 / 4]
    assert [t.get_text() for t in shares.texts] == ["no data"]
    before, after = pass_at_k.lines
    assert (before.get_label(), after.get_label()) == ("before", "after 4k tokens")
    assert before.get_xydata().tolist() == [[1, 0.2], [2, 0.3]]
    assert after.get_xydata().tolist() == [[1, 0.4], [2, 0.6]]


def test_curves_of_a_real_evaluation() -> None:
    """The names that the picture reads are those that the measure writes."""
    problems = [Problem(id=str(i), prompt="") for i in range(4)]
    verified = [
        replace(rollout(0), problem_id=p.id, member=i, verdict=correct() if i <= int(p.id) else incorrect())
        for p in problems
        for i in range(4)
    ]
    written = evaluate(problems, verified, resamples=50).to_json()
    (line,) = curves_figure([], {0: written}).axes[3].lines
    assert line.get_xydata().tolist()[0] == [1, (1 + 2 + 3 + 4) / 16]
    assert line.get_xydata().tolist()[-1] == [4, 1.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("rows", "evaluations"),
    [
        ([], {}),
        ([], {0: evaluation(0.5)}),
        ([{"step": 1, "tokens": 10.0, "reward": math.nan, "entropy": math.nan}], {1: evaluation(None)}),
        ([{"step": 1, "tokens": 10.0, "solved": 0.1, "mixed": 0.2, "unsolved": 0.7}], {}),
        ([{"step": s, "tokens": 9.0 * s, "reward": math.inf, "solved": math.nan} for s in range(1, 99)], {}),
    ],
)
def test_curves_are_drawn_from_whatever_there_is(
    tmp_path: Path, rows: list[dict[str, float]], evaluations: dict[int, dict[str, object]]
) -> None:
    draw_curves(rows, evaluations, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curves.png"]


# around the lengths at which the window grows
@given(
    st.sampled_from([0, 1, 39, 40, 79, 80, 81]).flatmap(
        lambda n: st.lists(st.none() | st.floats(-9, 9), min_size=n, max_size=n)
    )
)
def test_the_running_mean_is_that_of_the_known_neighbours(values: list[float | None]) -> None:
    y = np.array([math.nan if v is None else v for v in values])
    half = len(y) // 40
    for i, smooth in enumerate(_smooth(y)):
        near = [v for v in values[max(i - half, 0) : i + half + 1] if v is not None]
        assert math.isnan(smooth) if values[i] is None else smooth == pytest.approx(sum(near) / len(near), abs=1e-9)


def test_drawing_leaves_no_global_state_and_needs_no_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from outrider.screen.curves import curves_figure; "
        "curves_figure([], {}); print([m for m in sys.modules if m in ('matplotlib.pyplot', 'torch')])"
    )
    output, errors = python(program).communicate()
    assert output.strip() == "[]", errors
