"""What was bought with entropy: success against entropy along training."""

from __future__ import annotations

from outrider.report.content import Figure
from outrider.report.data import RunData
from outrider.report.sections.seen import ask, known, series


def exchange(run: RunData, mean: str) -> list[Figure]:
    """Success of training over ``mean``, the SQL of the mean entropy, one point per bin of steps."""
    found = ask(
        run,
        f"SELECT upto, {mean} AS entropy, avg(success) AS success FROM seen GROUP BY upto HAVING count(success) > 0 "
        "ORDER BY upto",
    )
    if len(found["upto"]) < 3 or not known(found["entropy"]):
        return []
    hover = [f"step {at}" for at in found["upto"].tolist()]
    points = [series("training", found["entropy"], found["success"], hover=hover)]
    note = "Success in training, on the problems of each step."
    title = "What entropy was exchanged for"
    return [Figure("entropy-exchange", title, "points", "nats per token", "success", points, note=note)]
