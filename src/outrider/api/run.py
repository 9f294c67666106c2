"""Gives Python code access to a run on disk: metrics as data frames, plots, and the trained model."""

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
    """The folder of a finished or unfinished run. Each access to a property reads the run's current files, without
    locking the folder.

    Data frames need pandas (``pip install 'outrider[notebook]'``).

    Attributes:
        path: the run folder.

    Raises:
        UserError: the folder contains no run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = RunFolder.existing(self.path)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run, with all options resolved.

        Raises:
            UserError: a component that does not ship with Outrider can no longer be imported.
        """
        return recipe_of_run(self.config)

    @property
    def config(self) -> dict[str, Any]:
        """The run's configuration with all options resolved, as plain data."""
        found: dict[str, Any] = read_yaml(self._folder.config.read_text("utf-8"), str(self._folder.config))
        return found

    @property
    def _present(self) -> dict[str, Any]:
        """The configuration, with option names of older versions replaced by this version's names."""
        return config_of_run(self.config)

    @property
    def metrics(self) -> DataFrame:
        """The metrics in ``metrics.jsonl`` and the durations in ``timing.jsonl``, with one row per training step."""
        frame = pandas().DataFrame
        metrics, timing = frame(self._folder.metrics()), frame(self._folder.timing())
        if metrics.empty:
            return metrics
        return metrics.merge(timing, on="step", how="left") if not timing.empty else metrics

    @property
    def evaluations(self) -> DataFrame:
        """The metrics of each evaluation, such as pass@k, and the bounds of their 95 % confidence intervals. There is
        one row per evaluation, with its training step."""
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
        """Return one row per rollout.

        Args:
            step: training step; None: all steps.
            correct: True selects rollouts with the verdict *correct*, False selects all other rollouts, and None
                selects all rollouts.
            name: ``train`` for training rollouts, ``evaluate`` for the sampled rollouts of evaluations, or ``greedy``
                for their greedy rollouts.
            columns: columns of ``rollouts/*.parquet``; None: all.

        Raises:
            UserError: a file is damaged, or the run has no rollouts of that name or step.
            ValueError: a column is unknown.
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
        """The issues that ``outrider report`` detects in the run so far, most severe first. A finding's attributes
        include its ``name``, a ``sentence`` that states the issue, the measured values (``numbers``) and ``advice``.
        """
        from outrider.report.report_command import made_of, print_notices

        made, notices = made_of(self.path)
        print_notices(notices)
        return made.findings

    def plot(self) -> Figure:
        """Plot reward, pass@1, entropy and the shares of solved, mixed and unsolved groups over training. A last plot
        shows pass@k before and after training."""
        from outrider.screen.curves import curves_figure
        from outrider.screen.notebook import show_figures

        show_figures()
        return curves_figure(self._folder.metrics(), self._folder.evaluations())

    def report(self, out: str | Path | None = None) -> Path:
        """Write ``report.html`` into the folder ``out`` (default: the run folder), and return the file's path."""
        from outrider.api.reporting import report

        folder = self.path if out is None else Path(out)
        report(self.path, out=folder)
        return folder / "report.html"

    def view(self, port: int = 0) -> Viewer:
        """Serve pages to browse the rollouts in a web browser or a notebook cell. This needs the extra ``view``.

        Args:
            port: port of the server; 0 selects any free port.

        Raises:
            UserError: see :class:`outrider.api.viewing.Viewer`.
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
        """Write the rollouts in the format of another tool, and return the written paths.

        Notices about the export are printed to standard error.

        Args:
            to: ``"inspect"`` (one ``.eval`` log per split and step), ``"trackio"`` (traces) or ``"parquet"``.
            out: output folder; default ``export/TARGET`` in the run folder or, for trackio, trackio's own folder.
            split: ``train`` (training), ``evaluate`` (evaluation with sampling) or ``greedy`` (greedy evaluation);
                None: all of these.
            step: training step; None: all steps.
            project: name of the trackio project.

        Raises:
            UserError: see :func:`outrider.exporters.export_command.exported`.
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
        """Continue the run from its last checkpoint, with its own configuration and the changes in ``config``.

        Args:
            reward: the run's reward function, required if the function cannot be imported.
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
        """Measure the trained policy on the run's held-out problems, with the run's sampling options. No file is
        written.

        Args:
            n, problems: samples per problem, and number of problems; None: as in the run.
            config: values for the options of ``sample`` and ``evaluate``, by dotted key, such as
                ``{"sample.temperature": 0.6}``.
            reward: the run's reward function, required if the function cannot be imported.

        Raises:
            UserError: the run has not written its model yet, or an argument is invalid.
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
        """Return ``n`` responses of the trained policy to each prompt.

        A prompt is plain text, without a chat template. If the run sets ``policy.chat``, the prompt becomes the user
        message of a chat.

        Args:
            config: sampling options to change, such as ``{"temperature": 0.6, "max_tokens": 512}``; other options keep
                the values of the run.

        Raises:
            UserError: the run has not written its model yet, or a prompt is so long that the model's context has no
                room for a response.
        """
        from outrider.api.generation import generate
        from outrider.config import load_options
        from outrider.model.options import PolicyOptions
        from outrider.sample.options import SampleOptions

        sample = load_options(SampleOptions, self._present["sample"], config or {}, "sample")
        policy = PolicyOptions.model_validate(self._policy)
        return generate(str(self._trained()), policy, sample, prompts, n, seed)

    def model(self) -> tuple[Any, Any]:
        """Load the trained policy and its tokenizer with transformers.

        Raises:
            UserError: the run has not written its model yet.
        """
        place = self._trained()
        from transformers import AutoModelForCausalLM, AutoTokenizer

        return AutoModelForCausalLM.from_pretrained(place), AutoTokenizer.from_pretrained(place)

    def _trained(self) -> Path:
        """Return the folder of the trained policy. If the run has not written its model yet, raise UserError."""
        if not (self._folder.model / "config.json").is_file():
            raise UserError(f"{self.path} holds no model yet: it is written at the end of a run")
        return self._folder.model

    @property
    def _policy(self) -> dict[str, Any]:
        """The options for loading the policy, without options that only affect training."""
        from outrider.model.options import PolicyOptions

        return {key: value for key, value in self._present["policy"].items() if key in PolicyOptions.model_fields}

    def __fspath__(self) -> str:
        return str(self.path)  # so that a Run can be passed where a path is expected: compare(run, other)

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
    """Return a mask of the correct rollouts or, if ``correct`` is False, of all other rollouts. Rollouts without a
    verdict do not count as correct."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.equal(outcomes, "correct"), False)
    return found if correct else pc.invert(found)


def load_run(path: str | Path) -> Run:
    """Return the run in a folder.

    Raises:
        UserError: the folder contains no run.
    """
    return Run(path)
