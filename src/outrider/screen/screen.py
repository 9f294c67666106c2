"""Terminal output of a run on rank 0: progress during the run, and a table and curves at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from rich.console import Console

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.measure.compare import Comparison, compare
from outrider.measure.evaluation import Evaluation
from outrider.measure.table import as_markdown, as_table
from outrider.record.disk import disk_refused, write_atomically
from outrider.runs.folder import RunFolder
from outrider.screen.progress import Progress


class Screen:
    """Shows progress on standard error, and results on standard output. Progress is hidden if ``shown`` is False.

    Args:
        recipe: recipe of the run.
        out: run folder.
        shown: whether to show progress.
        evaluated: function that is called after every evaluation, with the step and the result.
    """

    def __init__(
        self, recipe: Recipe, out: Path, shown: bool, evaluated: Callable[[int, Evaluation], None] | None = None
    ) -> None:
        self._shown, self._out, self._recipe = shown, out, recipe
        self._on_evaluation = evaluated
        train = recipe.train
        # steps come first: since tokens have a default limit, a limit on steps is the user's choice
        limits = {"steps": train.steps, "tokens": train.tokens, "seconds": train.seconds}
        self._limits = {unit: int(limit) for unit, limit in limits.items() if limit is not None}
        self._used = dict.fromkeys(("steps", "tokens", "seconds"), 0)
        self._begun = dict(self._used)
        self._progress = Progress(next(iter(self._limits.values())), next(iter(self._limits)))
        self._share = 0.0
        self._progress.evaluations = self._evaluations_to_come(0.0) + recipe.evaluate.before
        self._evaluating = False

    def __enter__(self) -> Self:
        if self._shown:
            self._progress.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            self._progress.__exit__(*exception)

    def say(self, message: str) -> None:
        """Print a permanent notice."""
        if self._shown:
            self._progress.say(message)

    def phase(self, name: str) -> None:
        """Show the current phase. An evaluation is shown as a single phase, although it also samples and verifies
        responses."""
        # the phases within an evaluation would flicker, and their time would count as training
        if self._shown and not (self._evaluating and name in ("sample", "verify", "gather")):
            self._evaluating = name == "evaluate"
            self._progress.phase(name)

    def resumed(self, step: int, tokens: int, seconds: float) -> None:
        """Count the part of the budget that the run used before it was resumed."""
        self._begun = {"steps": step, "tokens": tokens, "seconds": int(seconds)}
        self._count(self._begun)
        self._count(self._begun)  # again, with an updated share, so that past evaluations do not count as pending

    def stepped(self, metrics: Mapping[str, float], seconds: float) -> None:
        """Count a finished step. ``seconds`` is the total training time so far."""
        steps, tokens = self._used["steps"] + 1, self._used["tokens"] + int(metrics["step_tokens"])
        self._count({"steps": steps, "tokens": tokens, "seconds": int(seconds)})
        if self._shown:
            self._progress.advance(0)
            self._progress.stats(metrics)

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        """Print a line for an evaluation.

        Raises:
            UserError: there are no held-out problems to evaluate.
        """
        overall = evaluation.overall
        if not overall.problems or not overall.pass_at:
            raise UserError(
                f"task {self._recipe.task.name!r} has no held-out problems, so there is nothing to evaluate"
            )
        self._progress.evaluated()
        largest = max(overall.pass_at)
        rates = "  ".join(f"pass@{k} {overall.pass_at[k].value:.3f}" for k in sorted({1, largest}))
        entropy = "" if math.isnan(overall.entropy) else f"  entropy {overall.entropy:.3f}"  # unknown for some engines
        self.say(
            f"step {step}: {rates}  greedy {overall.greedy.value:.3f}{entropy}  ({overall.problems} held-out problems)"
        )
        if self._on_evaluation is not None:
            self._on_evaluation(step, evaluation)

    def _count(self, used: dict[str, int]) -> None:
        """Show the progress towards the limit that will probably end the run. This is the limit with the largest used
        share."""
        self._used = used
        shares = {unit: used[unit] / limit if limit else 1.0 for unit, limit in self._limits.items()}
        unit = max(shares, key=shares.__getitem__)
        # use the previous share, since evaluations that are due after this step are still pending
        self._progress.evaluations = self._evaluations_to_come(self._share)
        self._share = shares[unit]
        self._progress.count_by(self._limits[unit], unit, self._begun[unit], used[unit])

    def _evaluations_to_come(self, share: float) -> float:
        """Return the number of remaining evaluations after the given share of the budget.

        If every N-th step is evaluated, the number is extrapolated from the steps so far.
        """
        train, evaluate = self._recipe.train, self._recipe.evaluate
        to_come = float(evaluate.after) + sum(at > share for at in train.evaluate_at)
        if train.evaluate_every and share:
            to_come += int(self._used["steps"] * (1 - share) / share) // train.evaluate_every
        return to_come

    def report(self, folder: RunFolder) -> None:
        """Print the table of the first and last evaluation, and write the table and the curves to disk."""
        from outrider.screen.curves import draw_curves

        evaluations = folder.evaluations()
        if folder.metrics():
            try:
                draw_curves(folder.metrics(), evaluations, folder.curves)
            except OSError as error:  # matplotlib writes a font cache
                raise disk_refused(folder.curves, error) from error
        console = Console(width=None)
        if evaluations:
            result = _result(evaluations)
            write_atomically(self._out / "table.md", as_markdown(result).encode())
            console.print(as_table(result, title=f"{self._recipe.name} on held-out {self._recipe.task.name}"))
        tokens = folder.metrics()[-1]["tokens"] if folder.metrics() else 0
        console.print(
            f"{len(folder.metrics())} steps, {tokens:,.0f} generated tokens; results are in {self._out}",
            highlight=False,
        )


def _result(evaluations: Mapping[int, dict[str, object]]) -> Evaluation | Comparison:
    first, last = (Evaluation.from_json(evaluations[step]) for step in (min(evaluations), max(evaluations)))
    return compare(first, last) if len(evaluations) > 1 else last
