"""A run on disk, read from Python: its numbers as frames, its pictures, its model."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.api.frames import pandas
from outrider.api.rewards import given_again
from outrider.config import Recipe, read_yaml, recipe_of_run
from outrider.config.older import config_of_run
from outrider.errors import UserError
from outrider.runs.folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from outrider.api.evaluation import EvaluationResult
    from outrider.api.viewing import Viewer
    from outrider.exporters.export_command import Target
    from outrider.report.content import Finding


class Run:
    """A run folder, finished or still being written. Reading takes no lock, and every property reads anew.

    Frames need pandas (``pip install 'outrider[notebook]'``).

    Attributes:
        path: the run folder.

    Raises:
        UserError: the folder holds no run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = RunFolder.existing(self.path)

    @property
    def recipe(self) -> Recipe:
        """The resolved recipe.

        Raises:
            UserError: a component from outside cannot be imported any more.
        """
        return recipe_of_run(self.config)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, as plain data."""
        found: dict[str, Any] = read_yaml(self._folder.config.read_text("utf-8"), str(self._folder.config))
        return found

    @property
    def _present(self) -> dict[str, Any]:
        """The configuration with the keys of this version."""
        return config_of_run(self.config)

    @property
    def metrics(self) -> DataFrame:
        """One row a step: the numbers of ``metrics.jsonl`` and the seconds of ``timing.jsonl``, by step."""
        frame = pandas().DataFrame
        metrics, timing = frame(self._folder.metrics()), frame(self._folder.timing())
        if metrics.empty:
            return metrics
        return metrics.merge(timing, on="step", how="left") if not timing.empty else metrics

    @property
    def evaluations(self) -> DataFrame:
        """One row for each evaluation: ``step``, pass@k and other numbers with the ends of their 95 % intervals."""
        rows = []
        for step, found in self._folder.evaluations().items():
            overall = found["overall"]
            row: dict[str, Any] = {"step": step, "problems": overall["problems"], "samples": overall["samples"]}
            named = {f"pass@{k}": interval for k, interval in overall["pass_at"].items()}
            for name, interval in {**named, "majority": overall["majority"], "greedy": overall["greedy"]}.items():
                row |= {name: interval["value"], f"{name}_low": interval["low"], f"{name}_high": interval["high"]}
            rows.append(row | {"entropy": overall["entropy"], "truncated": overall["truncated"]})
        return pandas().DataFrame(rows)

    def rollouts(
        self,
        step: int | None = None,
        correct: bool | None = None,
        name: str = "train",
        columns: list[str] | None = None,
    ) -> DataFrame:
        """One row for each rollout.

        Args:
            step: of training; None: all steps.
            correct: only those whose verdict is correct, or is not.
            name: ``train``, or that of an evaluation: ``evaluate``, ``greedy``.
            columns: of ``rollouts/*.parquet``; None: all.

        Raises:
            UserError: a file is damaged, or there are none of that name or step.
            ValueError: an unknown column.
        """
        frame = pandas().DataFrame
        store = self._folder.rollouts
        names = store.names()
        if name not in names:
            raise UserError(f"{self.path} holds no {name} rollouts (there are: {', '.join(names) or 'none'})")
        steps = store.steps(name)
        if step is not None and step not in steps:
            raise UserError(
                f"{self.path} holds no {name} rollouts of step {step!r} (there are: {steps[0]} to {steps[-1]})"
            )
        table = store.table(columns, name, step, None if correct is None else partial(_that_are, correct))
        return frame(table.to_pydict())

    @property
    def findings(self) -> list[Finding]:
        """What a report of the run as it is warns of, worst first: name, sentence, numbers, advice."""
        from outrider.report.report_command import made_of, print_notices

        made, notices = made_of(self.path)
        print_notices(notices)
        return made.findings

    def plot(self) -> Figure:
        """The curves of the run: reward and pass@1, entropy, shares of solved groups, pass@k before and after."""
        from outrider.screen.curves import curves_figure
        from outrider.screen.notebook import show_figures

        show_figures()
        return curves_figure(self._folder.metrics(), self._folder.evaluations())

    def report(self, out: str | Path | None = None) -> Path:
        """Write ``report.html`` into a folder, that of the run by default, and return its place."""
        from outrider.api.reporting import report

        folder = self.path if out is None else Path(out)
        report(self.path, out=folder)
        return folder / "report.html"

    def view(self, port: int = 0) -> Viewer:
        """Browse the rollouts in a web browser, or inside a notebook's cell (extra ``view``).

        Args:
            port: 0 takes any free one.

        Raises:
            UserError: as in :class:`outrider.api.viewing.Viewer`.
        """
        from outrider.api.viewing import Viewer

        return Viewer([self.path], port)

    def export(
        self,
        to: Target,
        out: str | Path | None = None,
        split: str | None = None,
        step: int | None = None,
        project: str | None = None,
    ) -> list[Path]:
        """Write the rollouts for another tool, and return the places; what is excluded is said on standard error.

        Args:
            to: ``"inspect"`` (an ``.eval`` log for each split and step), ``"trackio"`` (traces) or ``"parquet"``.
            out: a folder; by default ``export/TARGET`` in the run, and trackio's own for trackio.
            split: ``train``, ``evaluate`` or ``greedy``; None: all of them.
            step: of training; None: all steps.
            project: of trackio.

        Raises:
            UserError: as in :func:`outrider.exporters.export_command.exported`.
        """
        from outrider.exporters.export_command import exported
        from outrider.exporters.source import ExportChoice
        from outrider.model.places import local_tokenizer
        from outrider.report.report_command import print_notices

        choice = ExportChoice([] if split is None else [split], [] if step is None else [step])
        place = None if out is None else Path(out)
        paths, notices = exported(self.path, to, local_tokenizer, place, choice, project=project)
        print_notices(notices)
        return paths

    def resume(self, config: Mapping[str, Any] | None = None, force: bool = False, reward: Any = None) -> Run:
        """Go on from the last checkpoint, with the run's own configuration and what ``config`` changes.

        Args:
            reward: the reward function, where the run was given one that only its own process had.
        """
        import outrider

        own: dict[str, Any] = {"train.ranks": self.config["train"]["ranks"]}
        if reward is not None:
            own |= given_again(self._present["task"], reward)
        return outrider.train(
            self._folder.config, config={**own, **(config or {})}, out=self.path, resume=True, force=force
        )

    def evaluate(
        self,
        n: int | None = None,
        problems: int | None = None,
        config: Mapping[str, Any] | None = None,
        reward: Any = None,
    ) -> EvaluationResult:
        """Measure the trained policy on the run's held-out problems, sampled as the run samples. Nothing is written.

        Args:
            n, problems: samples for each problem, and how many problems; None: as the run.
            config: values by dotted key of ``sample`` and ``evaluate``, as ``{"sample.temperature": 0.6}``.
            reward: the reward function, where the run was given one that only its own process had.

        Raises:
            UserError: the run has not written its model yet; a mistake in an argument.
        """
        from outrider.api.evaluation import evaluate

        own = {"policy": self._policy, "sample": self._present["sample"], "evaluate": self._present["evaluate"]}
        given = {"evaluate.n": n, "evaluate.problems": problems}
        changes = {key: value for key, value in given.items() if value is not None}
        if reward is not None:
            changes |= given_again(self._present["task"], reward)
        return evaluate(self._trained(), self._present["task"], config={**own, **changes, **(config or {})})

    def generate(
        self, prompts: Sequence[str], n: int = 1, config: Mapping[str, Any] | None = None, seed: int = 0
    ) -> list[list[str]]:
        """``n`` responses of the trained policy to each prompt.

        A prompt is text as a task's problem has it: with ``policy.chat`` it is the user's message.

        Args:
            config: options of sampling, as ``{"temperature": 0.6, "max_tokens": 512}``; others are the run's.

        Raises:
            UserError: the run has not written its model yet; a prompt leaves no room to respond.
        """
        from outrider.api.generation import generate
        from outrider.config import load_options
        from outrider.model.options import PolicyOptions
        from outrider.sample.options import SampleOptions

        sample = load_options(SampleOptions, self._present["sample"], config or {}, "sample")
        policy = PolicyOptions.model_validate(self._policy)
        return generate(str(self._trained()), policy, sample, prompts, n, seed)

    def model(self) -> tuple[Any, Any]:
        """The trained policy and its tokenizer, by transformers.

        Raises:
            UserError: the run has not written its model yet.
        """
        place = self._trained()
        from transformers import AutoModelForCausalLM, AutoTokenizer

        return AutoModelForCausalLM.from_pretrained(place), AutoTokenizer.from_pretrained(place)

    def _trained(self) -> Path:
        """The folder of the trained policy. Raises UserError where it is not written yet."""
        if not (self._folder.model / "config.json").is_file():
            raise UserError(f"{self.path} holds no model yet: it is written at the end of a run")
        return self._folder.model

    @property
    def _policy(self) -> dict[str, Any]:
        """The options of the policy, without those of training it."""
        from outrider.model.options import PolicyOptions

        return {key: value for key, value in self._present["policy"].items() if key in PolicyOptions.model_fields}

    def __fspath__(self) -> str:
        return str(self.path)  # so that a run is named where a path is: compare(run, other)

    def __repr__(self) -> str:
        steps = len(self._folder.metrics())
        return f"Run({str(self.path)!r}, {steps} steps, {len(self._folder.evaluations())} evaluations)"

    def _repr_html_(self) -> str:
        import base64
        import io

        image = io.BytesIO()
        self.plot().savefig(image, format="png", dpi=70)
        table = self._folder.path / "table.md"
        text = html.escape(table.read_text("utf-8")) if table.is_file() else ""
        picture = base64.b64encode(image.getvalue()).decode()
        return f'<p>{html.escape(repr(self))}</p><img src="data:image/png;base64,{picture}"><pre>{text}</pre>'


def _that_are(correct: bool, outcomes: Any) -> Any:
    """Which verdicts are correct, or are not; rollouts without a verdict are not."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.equal(outcomes, "correct"), False)
    return found if correct else pc.invert(found)


def load_run(path: str | Path) -> Run:
    """The run in a folder.

    Raises:
        UserError: the folder holds no run.
    """
    return Run(path)
