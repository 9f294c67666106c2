"""``outrider evaluate``: measure one model, show the table, keep the rollouts."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from outrider.config import Evaluate
from outrider.config.train import RewardOptions
from outrider.measure.table import as_markdown, as_table
from outrider.model.device import engine
from outrider.model.load import load_policy
from outrider.record.disk import write_atomically
from outrider.runs.folder import RunFolder
from outrider.sample.local import LocalSampler
from outrider.sample.ready import ready
from outrider.tasks.task import counted
from outrider.train.clock import Clock
from outrider.train.collect import Collector
from outrider.train.evaluate import Evaluator, heldout, keep
from outrider.train.launch import launch
from outrider.train.ranks import Ranks


def evaluate_command(asked: Evaluate, out: Path | None) -> int:
    """Evaluate on all cores and print the table; with ``out``, keep rollouts, numbers and table there.

    Raises:
        UserError: the model or the task cannot be had, it holds out nothing, or ``out`` holds something already.
    """
    return launch(0, _evaluate, asked, out)


def _evaluate(ranks: Ranks, asked: Evaluate, out: Path | None) -> int:
    folder = None
    try:
        policy, path_told = ready(load_policy(asked.model, asked.policy), asked.sample.path)
        computes = str(engine(asked.policy.dtype))
        problems = ranks.from_main(lambda: heldout(asked.task, asked.evaluate))
        if out is not None and ranks.main:  # not before: what cannot be evaluated leaves no folder behind
            folder = RunFolder.create(out, asked.model_dump(mode="json"), computes)
        collect = Collector(LocalSampler(policy, asked.sample), asked.task, RewardOptions(), ranks, Clock())
        for sentence in [f"computing on {computes}", path_told, counted(asked.task)] if ranks.main else []:
            if sentence:
                Console(stderr=True).print(sentence, soft_wrap=True, markup=False, highlight=False)
        evaluator = Evaluator(problems, policy.encode, collect, asked.evaluate, asked.sample.params())
        evaluated = evaluator.run()
        if folder is not None:
            keep(folder, 0, evaluated, problems)
            write_atomically(folder.path / "table.md", as_markdown(evaluated.evaluation).encode())
        if ranks.main:
            Console().print(as_table(evaluated.evaluation, title=f"{asked.model} on held-out {asked.task.name}"))
    finally:
        asked.task.close()
        if folder is not None:
            folder.close()
    return 0
