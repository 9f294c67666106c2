"""Plots success against entropy over training, with a fitted curve."""

from __future__ import annotations

import numpy as np

from outrider.measure.blocks import IntervalBounds
from outrider.measure.exchange import Exchange, fit_exchange
from outrider.report.content import CellValue, Figure, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import known, query, series

_CURVE = 40  # number of points at which the fitted curve is plotted


def exchange(run: RunData, mean: str, name: str) -> tuple[list[Figure], list[TableBlock]]:
    """Plot training success over entropy, with one point per bin of steps, and the fitted curve.

    ``mean`` is SQL for the mean entropy, and ``name`` is the entropy's name, such as "estimated entropy". Both lists
    are empty if there are fewer than three points.
    """
    columns = query(
        run,
        f"SELECT upto, {mean} AS entropy, avg(success) AS success FROM seen GROUP BY upto HAVING count(success) > 0 "
        "ORDER BY upto",
    )
    if len(columns["upto"]) < 3 or not known(columns["entropy"]):
        return [], []
    hover = [f"step {upto}" for upto in columns["upto"].tolist()]
    points = [series("training", columns["entropy"], columns["success"], hover=hover)]
    law = fit_exchange(columns["entropy"], columns["success"], resamples=500)
    note = "Training success, on the problems of each step."
    if law.identified:
        at = np.linspace(law.lowest, law.highest, _CURVE)
        curve = np.array([law.at(entropy).value for entropy in at])
        points.append(series("R = b - a exp(H)", at, np.where((curve >= 0) & (curve <= 1), curve, np.nan)))
        note += f" The fitted curve explains {100 * law.explained:.0f} % of the variance."
    else:
        note += f" No curve is drawn: {law.why_not}."
    title = f"Success against {name}"
    figure = Figure("entropy-exchange", title, "points", "nats per token", "success", points, note=note, percent="y")
    return [figure], [_table(law, name)] if law.identified else []


def _table(law: Exchange, name: str) -> TableBlock:
    estimates = {"a": law.a, "b": law.b, "b - a: success at zero entropy": _as_success(law.ceiling)}
    note = (
        f"Extrapolated by {law.lowest:.2g} nats. The 95 % intervals cover the noise around the curve, not an error of "
        "its form. Any two quantities that both drift fit the curve well."
    )
    if law.ceiling.value > 1 or law.ceiling.value < 0:
        note = (
            f"The fitted curve reaches {law.ceiling.value:.3g} at zero entropy, which is not a success rate, so the "
            f"curve does not hold that far; {_as_success(law.ceiling).value:.0f} is shown. {note}"
        )
    elif _as_success(law.ceiling) != law.ceiling:
        note = f"The interval of success at zero entropy is clipped to [0, 1]. {note}"
    if not law.holds:
        note = f"The interval of a includes 0 or less: success does not rise significantly as entropy falls. {note}"
    body: list[list[CellValue]] = [
        [name, *(float(end) for end in (b.value, b.low, b.high))] for name, b in estimates.items()
    ]
    title = f"Fit of R = b - a exp(H), where H is the {name}"
    return TableBlock("entropy-law", title, ["", "value", "from", "to"], body, note)


def _as_success(bounds: IntervalBounds) -> IntervalBounds:
    """Clip a number and its interval to [0, 1], the range of a success rate.

    >>> _as_success(IntervalBounds(1.2, 0.9, 1.5))
    IntervalBounds(value=1.0, low=0.9, high=1.0)
    """
    return IntervalBounds(*(min(max(end, 0.0), 1.0) if end == end else end for end in bounds))
