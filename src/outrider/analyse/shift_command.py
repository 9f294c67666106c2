"""``outrider analyse shift``, which compares the probabilities that two policies assign to every token of a run's
rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outrider.analyse.arguments import Shift
from outrider.analyse.folder import AnalysisFolder, compute_parts
from outrider.analyse.forward import TokenValues, token_values
from outrider.analyse.policies import open_policy, refuse_foreign, vocabulary
from outrider.analyse.selection import AnalysisPlan, WorkUnit, token_parts
from outrider.analyse.tokens_command import about_of, key_columns, own, print_line, print_place, processes
from outrider.interrupts import SAME_COMMAND
from outrider.measure.shift import LARGE
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record import Rollout
from outrider.runs.checkpoint import weights_hash


def shift_command(run: Path, options: Shift, plan: AnalysisPlan, out: Path) -> int:
    """Write the change in each token's probability from policy ``options.before`` to ``options.after``, and print a
    summary.

    Raises:
        UserError: a model does not exist, the rollouts are from another model, or ``out`` contains other files.
    """
    return launch(processes(token_parts(plan)), _shift, run, options, plan, out, hint=SAME_COMMAND)


def _shift(ranks: Ranks, run: Path, options: Shift, plan: AnalysisPlan, out: Path) -> int:
    before, after = open_policy(run, options.before), open_policy(run, options.after)
    parts = token_parts(plan)
    about = about_of("shift", options.model_dump(mode="json"), plan, parts)
    about |= {"weights_before": weights_hash(before.model), "weights_after": weights_hash(after.model)}

    def work(part: WorkUnit) -> pa.Table:
        rollouts = plan.read(run, part.step)[part.start : part.stop]
        results = []
        for policy, name in ((before, options.before), (after, options.after)):
            refuse_foreign(policy, name, run, rollouts)
            results.append(token_values(policy, rollouts, options.temperature, (), options.micro_tokens))
        return shift_table(plan.split, part.step, rollouts, *results)

    with AnalysisFolder(out) as folder:
        ranks.from_main(lambda: folder.begin(about, vocabulary(after)))
        compute_parts(ranks, folder, plan.split, parts, "tokens", work)
        if ranks.main:
            _print_counts(folder, plan)
    return 0


def shift_table(
    split: str, step: int, rollouts: Sequence[Rollout], before: Sequence[TokenValues], after: Sequence[TokenValues]
) -> pa.Table:
    r"""Return one row per sampled token, with its log-probability and entropy under both policies, and the change in
    its probability.

    ``shift`` is :math:`p_\text{after} - p_\text{before}`, in [-1, 1]. ``shift`` is positive if the token was
    reinforced. ``gradient_norm`` is computed under the policy ``before``; see
    :class:`outrider.analyse.forward.TokenValues`.
    """
    # expm1 is precise even if the two probabilities are nearly equal
    shifts = [np.exp(b.logprobs) * np.expm1(a.logprobs - b.logprobs) for b, a in zip(before, after, strict=True)]
    columns = key_columns(split, step, rollouts) | {
        "logprob_before": own(rollouts, [v.logprobs for v in before]),
        "logprob_after": own(rollouts, [v.logprobs for v in after]),
        "entropy_before": own(rollouts, [v.entropies for v in before]),
        "entropy_after": own(rollouts, [v.entropies for v in after]),
        "shift": own(rollouts, shifts),
        "gradient_norm": own(rollouts, [v.gradient_norms for v in before]),
    }
    return pa.table(columns)


def _print_counts(folder: AnalysisFolder, plan: AnalysisPlan) -> None:
    size = pc.abs(folder.table(["shift"])["shift"])
    large = pc.mean(pc.greater(size, LARGE)).as_py()
    print_line(
        f"{plan.tokens:,} tokens of {plan.rollouts:,} rollouts: mean change of probability "
        f"{pc.mean(size).as_py():.4g}, beyond {LARGE} for {large:.2%}"
    )
    print_place(folder, plan)
