"""``outrider analyse tokens``, which writes a table with the entropy, gradient norm and other statistics of every token
in a run's rollouts, under one policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console

from outrider.analyse.arguments import TokensAnalysis
from outrider.analyse.folder import AnalysisFolder, compute_parts, part_name
from outrider.analyse.forward import TokenValues, token_values
from outrider.analyse.policies import open_policy, refuse_foreign, vocabulary
from outrider.analyse.selection import AnalysisPlan, WorkUnit, token_parts
from outrider.interrupts import SAME_COMMAND
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record import Mode, Rollout
from outrider.runs.checkpoint import weights_hash

SCHEMA_VERSION = 1


def tokens_command(run: Path, options: TokensAnalysis, plan: AnalysisPlan, out: Path) -> int:
    """Write statistics of every token in the rollouts of ``plan`` (:class:`TokenValues`, ``docs/analyse.md``), and
    print a summary.

    Raises:
        UserError: the model does not exist, the rollouts are from another model, or ``out`` contains other files.
    """
    return launch(processes(token_parts(plan)), _tokens, run, options, plan, out, hint=SAME_COMMAND)


def _tokens(ranks: Ranks, run: Path, options: TokensAnalysis, plan: AnalysisPlan, out: Path) -> int:
    policy = open_policy(run, options.model)
    parts = token_parts(plan)
    about = about_of("tokens", options.model_dump(mode="json"), plan, parts) | {"weights": weights_hash(policy.model)}

    def work(part: WorkUnit) -> pa.Table:
        rollouts = plan.read(run, part.step)[part.start : part.stop]
        refuse_foreign(policy, options.model, run, rollouts)
        values = token_values(policy, rollouts, options.temperature, options.masses, options.micro_tokens)
        return token_table(plan.split, part.step, rollouts, values, options)

    with AnalysisFolder(out) as folder:
        ranks.from_main(lambda: folder.begin(about, vocabulary(policy)))
        compute_parts(ranks, folder, plan.split, parts, "tokens", work)
        if ranks.main:
            _print_counts(folder, plan, options)
    return 0


def about_of(analysis: str, settings: dict[str, Any], plan: AnalysisPlan, parts: Sequence[WorkUnit]) -> dict[str, Any]:
    """Return the data that identify an analysis. The data must be the same when the analysis is resumed."""
    return {
        "schema_version": SCHEMA_VERSION,
        "analysis": analysis,
        **settings,
        "rollouts": plan.digest,
        "parts": [part_name(plan.split, part) for part in parts],
    }


def token_table(
    split: str, step: int, rollouts: Sequence[Rollout], values: Sequence[TokenValues], options: TokensAnalysis
) -> pa.Table:
    """Return one row per sampled token, ordered by rollout and position. Observed tokens have no row.

    ``sampled_logprob`` is the log-probability recorded at sampling; null if sampling and analysis have different
    temperatures.
    """
    columns = key_columns(split, step, rollouts)
    columns |= {
        "logprob": own(rollouts, [v.logprobs for v in values]),
        "sampled_logprob": _sampled(rollouts, options.temperature),
        "entropy": own(rollouts, [v.entropies for v in values]),
        "error_norm": own(rollouts, [v.error_norms for v in values]),
        "hidden_norm": own(rollouts, [v.hidden_norms for v in values]),
        "gradient_norm": own(rollouts, [v.gradient_norms for v in values]),
        "advantage": per_token(rollouts, [r.advantage for r in rollouts], pa.float64()),
        "alternative_id": own(rollouts, [v.alternatives for v in values], np.int32),
        "alternative_logprob": own(rollouts, [v.alternative_logprobs for v in values]),
    }
    for i, mass in enumerate(options.masses):
        columns[branching_column(mass)] = own(rollouts, [v.branching_TM[:, i] for v in values], np.int32)
    return pa.table(columns)


def branching_column(mass: float) -> str:
    """Return the name of the column with the nucleus sizes for a probability mass.

    >>> branching_column(0.95), branching_column(0.999)
    ('branching_95', 'branching_99_9')
    """
    return f"branching_{100 * mass:.10g}".replace(".", "_")


def key_columns(split: str, step: int, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return the columns that identify a row's token. ``position`` is the token's index in the whole response, and
    ``length`` the response's length. The response of a branch starts with the tokens that the branch copied from
    another rollout."""
    tokens = sum(r.trainable_tokens for r in rollouts)
    positions = [r.branch_at + np.arange(len(r.token_ids)) for r in rollouts]
    return {
        "split": pa.repeat(split, tokens),
        "step": pa.repeat(pa.scalar(step, pa.int64()), tokens),
        "group_id": per_token(rollouts, [r.group_id for r in rollouts], pa.string()),
        "member": per_token(rollouts, [r.member for r in rollouts], pa.int32()),
        "position": own(rollouts, positions, np.int32),
        "length": per_token(rollouts, [r.branch_at + len(r.token_ids) for r in rollouts], pa.int32()),
        "token_id": own(rollouts, [r.token_ids for r in rollouts], np.int32),
    }


def own(rollouts: Sequence[Rollout], arrays: Sequence[NDArray[Any]], dtype: type = np.float32) -> NDArray[Any]:
    """Return the sampled tokens' values in one array. ``arrays`` has one array per rollout, with one value per
    token."""
    kept = [a if r.trainable_T is None else a[r.trainable_T] for r, a in zip(rollouts, arrays, strict=True)]
    # the empty array comes first, since np.concatenate rejects an empty list
    return np.concatenate([np.zeros(0, dtype), *kept]).astype(dtype)


def per_token(rollouts: Sequence[Rollout], values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Return each rollout's value, repeated for each of the rollout's sampled tokens."""
    at = np.repeat(np.arange(len(rollouts)), [r.trainable_tokens for r in rollouts])
    return pa.array(values, type).take(pa.array(at))


def processes(parts: Sequence[WorkUnit]) -> int:
    """Return the number of processes for :func:`launch`: 1 if there is only one part, otherwise 0, which means one per
    core."""
    return 1 if len(parts) == 1 else 0


def _sampled(rollouts: Sequence[Rollout], temperature: float) -> pa.Array:
    otherwise = per_token(rollouts, [r.mode != Mode(temperature) for r in rollouts], pa.bool_())
    logprobs = own(rollouts, [r.logprobs_T for r in rollouts])
    return pa.array(logprobs, mask=otherwise.to_numpy(zero_copy_only=False))


def _print_counts(folder: AnalysisFolder, plan: AnalysisPlan, options: TokensAnalysis) -> None:
    names = {"entropy": "entropy", "gradient_norm": "gradient norm"}
    names |= {branching_column(mass): f"branching factor at {mass:g}" for mass in options.masses}
    table = folder.table([*names, "sampled_logprob"])
    means = [f"{name} {pc.mean(table[column]).as_py():.4g}" for column, name in names.items()]
    print_line(f"{plan.tokens:,} tokens of {plan.rollouts:,} rollouts, means: {', '.join(means)}")
    if otherwise := table["sampled_logprob"].null_count:
        print_line(f"{otherwise:,} tokens were not sampled at temperature {options.temperature:g}: no sampled_logprob")
    print_place(folder, plan)


def print_place(folder: AnalysisFolder, plan: AnalysisPlan) -> None:
    """Print the folder with the results, and the number of tokens without results because no policy sampled them."""
    if plan.observed:
        print_line(f"{plan.observed:,} observed tokens have no row: no policy sampled them")
    print_line(f"rows in {folder.path / 'parts'}/*.parquet")


def print_line(sentence: str) -> None:
    """Print one line to standard output."""
    Console().print(sentence, soft_wrap=True, markup=False, highlight=False)
