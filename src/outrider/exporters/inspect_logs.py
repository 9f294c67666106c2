"""Write Inspect logs: one ``.eval`` file per split and step, which ``inspect view`` and ``read_eval_log`` open.

The format is log version 2, as inspect_ai 0.3.285 writes it: a ZIP with ``_journal/start.json``, one file per sample,
``summaries.json`` and ``header.json``. The package inspect_ai is not needed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import outrider
from outrider.exporters.inspect_sample import SCORER, Known, sample_of, summary_of
from outrider.exporters.refuse_existing import refuse_existing
from outrider.exporters.source import ExportPart
from outrider.importers.notes import Notes
from outrider.record.disk import new_file

VERSION = 2


class LogNames(NamedTuple):
    """The names that all logs of a run share."""

    run: str
    task: str
    known: Known


def write_inspect(parts: Sequence[ExportPart], folder: Path, names: LogNames, notes: Notes) -> list[Path]:
    """Write one log per part. Each rollout becomes a sample; the rollouts of one problem become epochs of the same
    sample id.

    A rollout without text is skipped and counted. A rollout without a verdict has no score, and a rollout without a
    prompt has an empty input.

    Raises:
        UserError: one of the files already exists, or cannot be written.
    """
    paths = [folder / f"{part.split}-{part.step:08d}.eval" for part in parts]
    refuse_existing(paths)
    for part, path in zip(parts, paths, strict=True):
        with new_file(path) as place, ZipFile(place, "w", ZIP_DEFLATED) as archive:
            _write(archive, part, names, notes)
    return paths


def _write(archive: ZipFile, part: ExportPart, names: LogNames, notes: Notes) -> None:
    epochs, summaries = Counter[str](), list[dict[str, Any]]()
    for rollout in part.rollouts:
        if rollout.row["text"] is None:
            notes.count("rollout without a text was skipped", "rollouts without a text were skipped")
            continue
        problem = rollout.row["problem_id"]
        epochs[problem] += 1
        sample = sample_of(rollout, epochs[problem], names.known)
        _count_lacks(rollout.prefix, sample, notes)
        summaries.append(summary_of(sample))
        _put(archive, f"samples/{problem}_epoch_{epochs[problem]}.json", sample)
    spec = _spec(part, names, epochs)
    plan = {"name": "plan", "steps": [], "config": {}}
    _put(archive, "_journal/start.json", {"version": VERSION, "eval": spec, "plan": plan})
    _put(archive, "summaries.json", summaries)
    usage = Counter[str]()
    for summary in summaries:
        usage.update(summary["model_usage"].get(names.known.model) or {})
    stats = {"started_at": spec["created"], "completed_at": spec["created"]}
    stats |= {"model_usage": {names.known.model: dict(usage)} if usage else {}}
    header = {"version": VERSION, "status": "success", "eval": spec, "plan": plan, "results": results_of(summaries)}
    _put(archive, "header.json", {**header, "stats": stats})


def _put(archive: ZipFile, name: str, data: Any) -> None:
    archive.writestr(name, json.dumps(data))


def _count_lacks(prefix: str | None, sample: Mapping[str, Any], notes: Notes) -> None:
    notes.count("sample has no prompt", "samples have no prompt", not sample["input"])
    notes.count("sample has no verdict", "samples have no verdict", not sample["scores"])
    notes.count("sample has no gold answer", "samples have no gold answer", not sample["target"])
    notes.count(
        "sample continues another rollout, whose text before it is not on record",
        "samples continue other rollouts, whose texts before them are not on record",
        prefix is None,
    )


def _spec(part: ExportPart, names: LogNames, epochs: Mapping[str, int]) -> dict[str, Any]:
    place = {"run": names.run, "split": part.split, "step": part.step}
    same = f"{names.run}-{part.split}-{part.step}"
    return {
        "eval_id": same,
        "run_id": names.run,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": names.task,
        "task_id": same,
        "task_version": 0,
        "task_display_name": f"{names.task}, {part.split}, step {part.step}",
        "task_args": place,
        "tags": [part.split, f"step {part.step}"],
        "dataset": {"name": names.task, "samples": len(epochs), "sample_ids": list(epochs), "shuffled": False},
        "model": names.known.model,
        "config": {"epochs": max(epochs.values(), default=1), "epochs_reducer": ["mean"]},
        "scorers": [{"name": SCORER, "metrics": [{"name": "inspect_ai/accuracy"}]}],
        "packages": {"outrider": outrider.__version__},
        "metadata": place,
    }


def results_of(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the accuracy (pass@1): the share of correct samples among each problem's scored samples, averaged over
    problems.

    A sample is not scored if it has no verdict, or if its verifier failed. If no sample is scored, no accuracy is
    reported.
    """
    by_problem: defaultdict[str, list[bool]] = defaultdict(list)
    for summary in summaries:
        value = summary["scores"].get(SCORER, {}).get("value")
        if isinstance(value, str):  # an unscored sample has NaN, a number
            by_problem[summary["id"]].append(value == "C")
    found: dict[str, Any] = {"total_samples": len(summaries), "completed_samples": len(summaries), "scores": []}
    if by_problem:
        scored = sum(map(len, by_problem.values()))
        accuracy = sum(sum(values) / len(values) for values in by_problem.values()) / len(by_problem)
        score: dict[str, Any] = {"name": SCORER, "scorer": SCORER, "reducer": "mean", "params": {}}
        score |= {"scored_samples": scored, "unscored_samples": len(summaries) - scored}
        found["scores"] = [{**score, "metrics": {"accuracy": {"name": "accuracy", "value": accuracy, "params": {}}}}]
    return found
