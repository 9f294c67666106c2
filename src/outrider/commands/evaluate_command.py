"""Implements ``outrider evaluate``, which evaluates one model, prints a table of results, and saves the rollouts."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from outrider.commands.make_base import make_base
from outrider.config import Evaluate
from outrider.credit.reward import RewardOptions
from outrider.measure.table import as_markdown, as_table
from outrider.model.device import placement
from outrider.model.load import load_policy
from outrider.preflight.check import Wanted, leave_out, preflight
from outrider.processes.clock import Clock
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record.disk import write_atomically
from outrider.runs.folder import RunFolder
from outrider.sample.local import LocalSampler
from outrider.sample.ready import ready
from outrider.tasks.heldout import heldout_problems
from outrider.tasks.task import counted
from outrider.train.collect import Collector
from outrider.train.evaluate import Evaluator, write_evaluated
from outrider.train.turns import turn_options, with_turns


def evaluate_command(options: Evaluate, out: Path | None, processes: int = 0) -> int:
    """Evaluate a model and print a table of the results. If ``out`` is given, save the rollouts, the metrics and the
    table in this folder.

    Args:
        processes: number of processes; 0: one process per core.

    Raises:
        UserError: the model or the task cannot be loaded, the task holds out no problems, or ``out`` is not empty.
    """
    make_base(options.model)
    return launch(processes, _evaluate, options, out)


def _evaluate(ranks: Ranks, options: Evaluate, out: Path | None) -> int:
    folder = None
    try:
        wanted = Wanted(None, options.evaluate, options.sample.max_tokens)
        found = ranks.from_main(lambda: preflight(options.task, wanted, options.model, options.policy).refuse())
        leave_out(options.task, found.long)
        policy, path_sentence = ready(load_policy(options.model, options.policy), options.sample.path)
        computes = str(placement(options.policy.dtype))
        problems = ranks.from_main(lambda: heldout_problems(options.task, options.evaluate))
        if out is not None and ranks.main:  # only now, so that a mistake in the options leaves no folder
            folder = RunFolder.create(out, options.model_dump(mode="json"), computes)
        drawing = LocalSampler(policy, turn_options(options.sample, options.task))
        sampler = with_turns(drawing, options.task, policy, options.sample)
        collect = Collector(sampler, options.task, RewardOptions(), ranks, Clock(), prompt_end=policy.prompt_end)
        sentences = [f"computing on {computes}", path_sentence, counted(options.task)]
        for sentence in [*sentences, *(f"warning: {notice}" for notice in found.notices)]:
            if sentence and ranks.main:
                Console(stderr=True).print(sentence, soft_wrap=True, markup=False, highlight=False)
        evaluator = Evaluator(problems, policy.encode, collect, options.evaluate, options.sample.params())
        began = time.perf_counter()
        evaluated = evaluator.run()
        if folder is not None:
            write_evaluated(folder, 0, evaluated, problems, time.perf_counter() - began)
            write_atomically(folder.path / "table.md", as_markdown(evaluated.evaluation).encode())
        if ranks.main:
            Console().print(as_table(evaluated.evaluation, title=f"{options.model} on held-out {options.task.name}"))
    finally:
        options.task.close()
        if folder is not None:
            folder.close()
    return 0
