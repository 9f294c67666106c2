"""``outrider.evaluate``: measure one model on held-out problems, from Python."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.config import Evaluate, load_options
from outrider.config.protocol import protocol as protocol_of
from outrider.plugins import refuse_main

if TYPE_CHECKING:
    from outrider.measure.evaluation import Evaluation


def evaluate(
    model: str | Path,
    task: Any,
    *,
    protocol: str | None = None,
    n: int | None = None,
    problems: int | None = None,
    config: Mapping[str, Any] | None = None,
    ranks: int = 1,
    out: str | Path | None = None,
) -> Evaluation:
    """Measure a model on held-out problems, and return the numbers: pass@k, majority, greedy, with their intervals.

    The command ``outrider evaluate`` calls the same code.

    Args:
        model: a folder, a name on the hub, or ``base:<name>``.
        task: a task, or one as a recipe names it: ``"countdown"``, ``{"table": {…}}``.
        protocol: sample and count as a paper does: dr-grpo, dars, xrpo, still.
        n: samples per problem.
        problems: held-out problems.
        config: values by dotted key, as ``{"sample.max_tokens": 96}``.
        ranks: processes; 0: one per core.
        out: keep rollouts, numbers and table in this folder.

    Raises:
        UserError: a mistake in an argument; ``out`` is not empty.
    """
    from outrider.commands.evaluate_command import evaluate_command  # not at the top: it imports PyTorch
    from outrider.measure.evaluation import Evaluation
    from outrider.runs.folder import RunFolder

    data = {"model": str(model), "task": task, **protocol_of(protocol)}
    given = {key: value for key, value in {"n": n, "problems": problems}.items() if value is not None}
    data["evaluate"] = {**data.get("evaluate", {}), **given}
    options = load_options(Evaluate, data, config or {}, "evaluate")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "evaluation" if out is None else Path(out)
        refuse_main(options, ranks)
        evaluate_command(options, place, ranks)
        return Evaluation.from_json(RunFolder(place).evaluations()[0])
