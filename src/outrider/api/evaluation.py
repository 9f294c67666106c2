"""``outrider.evaluate``, a Python function that evaluates one model on held-out problems."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.api.models import name_of_model, write_model
from outrider.api.task_argument import task_of
from outrider.config import Evaluate, load_options
from outrider.config.protocol import protocol as protocol_of
from outrider.measure.evaluation import Evaluation
from outrider.plugins import refuse_main
from outrider.tasks import Suite

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False)
class EvaluationResult(Evaluation):
    """The result of an evaluation, which a notebook displays as a table. For example, pass@8 over all problems is
    ``result.overall.pass_at[8].value``."""

    def plot(self) -> Figure:
        """Plot pass@k against k, with 95 % confidence intervals."""
        from outrider.screen.curves import pass_at_k_figure
        from outrider.screen.notebook import show_figures

        show_figures()
        return pass_at_k_figure(self.to_json())

    def __repr__(self) -> str:
        numbers = ", ".join(f"pass@{k} {found.value:.3f}" for k, found in self.overall.pass_at.items())
        return f"EvaluationResult({self.overall.problems} problems, {numbers})"

    def _repr_html_(self) -> str:
        from outrider.measure.table import as_markdown  # imported here, since a dry run does not need rich

        return f"<pre>{html.escape(as_markdown(self))}</pre>"


def result_of(data: Mapping[str, Any]) -> EvaluationResult:
    """Build an evaluation result from the JSON data that a run folder stores."""
    found = Evaluation.from_json(data)
    return EvaluationResult(**{field.name: getattr(found, field.name) for field in fields(found)})


def all_of_a_suite(options: Evaluate) -> Evaluate:
    """If the task is a benchmark suite and the options do not set the number of problems, evaluate all problems of the
    suite."""
    if not isinstance(options.task, Suite) or "problems" in options.evaluate.model_fields_set:
        return options
    everything = options.evaluate.model_copy(update={"problems": options.task.size})
    return options.model_copy(update={"evaluate": everything})


def evaluate(
    model: Any,
    task: Any,
    *,
    protocol: str | None = None,
    n: int | None = None,
    problems: int | None = None,
    config: Mapping[str, Any] | None = None,
    ranks: int = 1,
    out: str | Path | None = None,
) -> EvaluationResult:
    """Measure a model's pass@k, majority vote and greedy accuracy on held-out problems, with confidence intervals.

    The command ``outrider evaluate`` calls the same code.

    Args:
        model: a folder, a hub name, or one of Outrider's base models, such as ``"base:countdown"``. A pair ``(model,
            tokenizer)`` from transformers is also accepted, and is written to ``data/`` next to ``out``.
        task: a task object, or what a recipe would contain under ``task``, such as ``"countdown"`` or ``{"table":
            {…}}``.
        protocol: the paper whose sampling options and metrics to use: ``"dr-grpo"``, ``"dars"``, ``"xrpo"`` or
            ``"still"``.
        n: samples per problem.
        problems: number of held-out problems; a suite uses all of its problems by default.
        config: option values by dotted key, such as ``{"sample.max_tokens": 96}``.
        ranks: number of processes; 0: one per core.
        out: folder for the rollouts, the metrics and a table of the results; None: no files are written.

    Raises:
        UserError: an argument is invalid, or ``out`` is not empty.

    >>> import outrider
    >>> few = {"n": 2, "problems": 2}
    >>> found = outrider.evaluate("base:countdown", "countdown", **few)  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    base:countdown on held-out countdown ...
    >>> found.overall.problems, sorted(found.overall.pass_at)
    (2, [1, 2])
    """
    from outrider.commands.evaluate_command import evaluate_command  # imported here, since it imports PyTorch
    from outrider.runs.folder import RunFolder

    data = {"model": name_of_model(model), "task": task_of(task), **protocol_of(protocol)}
    given = {key: value for key, value in {"n": n, "problems": problems}.items() if value is not None}
    data["evaluate"] = {**data.get("evaluate", {}), **given}
    options = all_of_a_suite(load_options(Evaluate, data, config or {}, "evaluate"))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "evaluation" if out is None else Path(out)
        refuse_main(options, ranks)
        if isinstance(model, tuple):
            written = write_model(model, Path(scratch) if out is None else place.parent / "data")
            options = options.model_copy(update={"model": written})
        evaluate_command(options, place, ranks)
        return result_of(RunFolder(place).evaluations()[0])
