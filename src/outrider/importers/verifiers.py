"""Reads rollouts of the ``verifiers`` library, and of prime-rl, which saves rollouts in the same format.

- ``traces.jsonl`` has one episode per line, with the ``traces`` of its agents. Each trace is a graph of messages with
  tokens, log-probabilities and, from prime-rl, advantages. The file is written by ``eval`` of verifiers 0.4.0. prime-rl
  of August 2026 writes it into ``rollouts/step_N/{train,eval}/{all,effective}/``. If verifiers 0.2 wrote the file, each
  line has one trace instead of an episode.
- ``traces/stream/*.jsonl`` is written by prime-rl since September 2026, and described in
  :mod:`outrider.importers.trace_stream`.
- ``results.jsonl`` has one rollout per line, with ``prompt``, ``completion``, ``reward`` and ``example_id``.
  ``vf-eval`` up to 0.3.1 writes this file. ``step_N/{train,eval}_rollouts.jsonl`` of prime-rl until mid 2026 has the
  same format. See :mod:`outrider.importers.vf_eval`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.errors import UserError
from outrider.importers.apart import EvaluationSource, OneRun, folder_below, kept_apart, labels
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head
from outrider.importers.lines import in_form, json_lines
from outrider.importers.notes import Notes
from outrider.importers.table import ImportedRow
from outrider.importers.trace_stream import (
    TraceUpdate,
    indexed_episodes,
    is_annotation,
    is_chunk,
    is_update,
    missing_parts,
    read_updates,
)
from outrider.importers.vf_eval import is_result, result_row
from outrider.record.verdict import Outcome

LIMITS = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens")
_OF_A_RUN = r"step_\d+|train|eval|all|effective|monitors|file|traces|stream"  # folders in a prime-rl run
NOT_TRAINED = "not in an effective batch"


def recognises(head: Head) -> bool:
    """Whether a file has JSON lines in one of this module's formats."""
    episode, trace = {"traces", "task"} <= head.names, {"nodes", "rewards"} <= head.names
    return head.kind == "json" and (episode or trace or is_update(head.names) or is_result(head.first))


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield the rollouts in files of verifiers or prime-rl. Traces of agents that are not trained are skipped.

    Success is known only in a ``results.jsonl``: a rollout succeeds if its reward reaches the ``pass_threshold`` in the
    ``metadata.json`` beside the file. If the environment failed or timed out, the rollout's outcome is error or
    timeout.

    prime-rl writes every finished rollout into the folder ``all``. When it trains on a rollout, it also writes the
    rollout, with advantages, into the folder ``effective``. A rollout is read only once: from ``effective`` if it is
    there; otherwise, it is read from ``all`` and marked as not trained on.

    Since September 2026, prime-rl instead writes every rollout once, into ``traces/stream``. Separate annotation files
    show which rollouts were trained on, and at which step. If some of these files are missing, a warning is added to
    the notes.

    Evaluations in several folders (each with one environment and model) are kept separate.
    """
    annotations = [path for path in paths if is_annotation(path)]
    paths = [path for path in paths if not is_annotation(path)]
    runs, one = folder_below(paths, without=_OF_A_RUN), OneRun()
    chunks = _by_run([path for path in paths if is_chunk(path)])
    for folder, of_run in chunks.items():
        mine = [path for path in annotations if path.parent.parent.parent == folder]
        for sentence in missing_parts(of_run, mine, runs[of_run[0]]):
            notes.warn(sentence)
    annotated = {path.parent.parent.parent for path in annotations}
    updates = read_updates(annotations, notes)
    apart = labels({path: _source(run) for path, run in runs.items()}, notes)
    ordered = sorted(paths, key=lambda path: path.parent.name == "all")  # stable: steps stay in order
    effective = any(path.parent.name == "effective" for path in paths)
    seen: set[str] = set()
    episodes: Counter[Path] = Counter()
    for path in ordered:
        unused = NOT_TRAINED if effective and path.parent.name == "all" else ""
        for row in _file(path, notes, episodes):
            name = row.raw.get("id") if "nodes" in row.raw else None
            if isinstance(name, str) and name in seen:
                if not unused:
                    notes.count(
                        "trace was skipped, because it was read before",
                        "traces were skipped, because they were read before",
                    )
                continue
            if isinstance(name, str):
                seen.add(name)
            values = {**row.values, "unused": unused}
            if is_chunk(path) and path.parent.parent in annotated:
                values |= _learned(values, updates.get(str(name), TraceUpdate()))
            if values.get("step") is not None:
                one.check(values["split"], values["step"], runs[path], path)
            yield ImportedRow(kept_apart(values, apart[path]), row.raw, row.where)
    for of_run in chunks.values():
        indexed, read = indexed_episodes(of_run), sum(episodes[path] for path in of_run)
        if indexed is not None and read < indexed:
            notes.warn(
                f"Read in part: the index of the trace stream lists {indexed:,} episodes, but {read:,} were read."
            )


def _source(folder: str) -> EvaluationSource:
    """Return the environment and the model, read from ``vf-eval``'s folder name ``<environment>--<model>/<id>``.

    If the folder's name has another form, the result has the whole name as ``run``, and no environment.

    >>> _source("gsm8k--org--model/5f3a"), _source("first")
    (EvaluationSource(run='org--model', task='gsm8k', file='5f3a'), EvaluationSource(run='first', task='', file=''))
    """
    named, _, file = folder.partition("/")
    environment, marked, model = named.partition("--")
    return EvaluationSource(model, environment, file) if marked else EvaluationSource(folder, "", "")


def _by_run(chunks: Sequence[Path]) -> dict[Path, list[Path]]:
    """Group prime-rl's ``traces/stream/*`` files by their ``traces`` folder; each training run has one such folder."""
    found: dict[Path, list[Path]] = {}
    for path in chunks:
        found.setdefault(path.parent.parent, []).append(path)
    return found


def _learned(values: Mapping[str, Any], update: TraceUpdate) -> dict[str, Any]:
    """Return the columns of a rollout that prime-rl writes later than the rollout, such as the advantage. A training
    rollout that was in no training batch is marked as unused.
    """
    trains = values["split"] == "train"
    learned: dict[str, Any] = {"unused": "" if update.trained or not trains else NOT_TRAINED}
    if update.step is not None:
        learned["step"] = update.step
    advantage = update.info.get("advantage", update.means.get("advantages"))
    entropy = update.means.get("entropies")
    return learned | {k: v for k, v in (("advantage", advantage), ("entropy", entropy)) if v is not None}


def _file(path: Path, notes: Notes, episodes: Counter[Path]) -> Iterator[ImportedRow]:
    for data, where in json_lines(path, notes):
        episodes[path] += 1
        with in_form(where, "verifiers"):
            if "traces" in data:
                result = _episode(data, where, notes)
            elif "nodes" in data:
                result = [_trace(data, {}, where)]
            elif is_result(data):
                result = [result_row(path, data, where, notes)]
            else:
                raise UserError(f"{where}: it is not an episode, a trace or a result of verifiers.")
        yield from result


def _episode(data: Mapping[str, Any], where: str, notes: Notes) -> list[ImportedRow]:
    results = []
    if not data["traces"]:
        notes.count("episode without a trace was skipped", "episodes without a trace were skipped")
    for trace in data["traces"]:
        if _dig(trace, "agent", "trainable", default=True):
            results.append(_trace(trace, data, where))
        else:
            notes.count(
                "trace of an agent that is not trained was skipped",
                "traces of agents that are not trained were skipped",
            )
    return results


def _trace(trace: Mapping[str, Any], episode: Mapping[str, Any], where: str) -> ImportedRow:
    """Return one agent's trace as a row, with the text of its last branch and the number of tokens of all branches."""
    nodes = trace.get("nodes") or []
    path = _last_branch(nodes, where)
    first = next((i for i, node in enumerate(path) if node.get("sampled")), len(path))
    prompt, response = ([node.get("message") for node in part] for part in (path[:first], path[first:]))
    run = episode.get("run") or trace.get("run") or {}
    work = run.get("work") or run
    task = trace.get("task") or episode.get("task") or {}
    agent = _dig(trace, "agent", "name", default="agent")
    group = _dig(episode, "group", "id")
    trains = work.get("type") == "train"
    values = {
        "split": "train" if trains else "evaluate",
        "test_set": None if trains else _dig(episode, "env", "id"),
        "step": work.get("step"),
        "problem": _problem(task, agent),
        "group": group if group is None or agent == "agent" else f"{group}:{agent}",
        "prompt": prompt or _dig(task, "data", "prompt"),
        "text": response,
        "policy_version": _dig(work, "policy", "start"),
        "tokens": _tokens(nodes, trace),
        "turns": sum(bool(node.get("sampled")) for node in path),
        "observed": _observed(path[first:]),
        "logprob": _mean(nodes, "logprobs"),
        "entropy": _mean(nodes, "entropies"),
        "advantage": _mean(nodes, "advantages"),
        "reward": _reward(trace.get("rewards") or {}),
        "stop": _stop(trace),
        **_failure(trace),
    }
    return ImportedRow(values, trace, where)


def _problem(task: Mapping[str, Any], agent: str) -> str | None:
    name = task.get("hash") or task.get("key")
    return name if name is None or agent == "agent" else f"{name}:{agent}"


def _last_branch(nodes: Sequence[Mapping[str, Any]], where: str) -> list[Mapping[str, Any]]:
    """Return the messages of the branch that ends with the trace's last message, in order from the first message."""
    path = []
    at: Any = len(nodes) - 1 if nodes else None
    while at is not None:
        path.append(nodes[at])
        parent = nodes[at].get("parent")
        # a parent comes before its children, so this also rules out cycles
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < at):
            raise UserError(f"{where}: message {at} has the parent {parent!r}.")
        at = parent
    return path[::-1]


def _tokens(nodes: Sequence[Mapping[str, Any]], trace: Mapping[str, Any]) -> int | None:
    """Count the sampled tokens of all branches, each token once. The count comes from the masks or, if there are no
    masks, from the provider's token counts.
    """
    masks = [node.get("mask") for node in nodes if node.get("sampled")]
    if masks and all(masks):
        return sum(sum(mask or ()) for mask in masks)
    used = [_dig(call, "usage", "completion_tokens") for call in trace.get("calls") or ()]
    billed = [count for count in used if isinstance(count, int)]
    return sum(billed) if billed else None


def _observed(path: Sequence[Mapping[str, Any]]) -> int | None:
    """Count the unsampled tokens after a branch's first sampled token; None if masks are not recorded."""
    masks = [node.get("mask") for node in path]
    flags = [bool(sampled) for mask in masks for sampled in mask or ()]
    return flags[flags.index(True) :].count(False) if all(masks) and any(flags) else None


def _mean(nodes: Sequence[Mapping[str, Any]], name: str) -> float | None:
    total, count = 0.0, 0
    for node in nodes:
        numbers = node.get(name) or ()
        total, count = total + sum(numbers), count + len(numbers)
    return total / count if count else None


def _reward(rewards: Mapping[str, Any]) -> float | None:
    """Return the weighted sum of rewards; None if there are no rewards. In verifiers 0.2, rewards have no weights."""
    scores = [
        reward["score"] * reward.get("weight", 1.0) if isinstance(reward, Mapping) else reward
        for reward in rewards.values()
        if reward is not None
    ]
    return float(sum(scores)) if scores else None


def _stop(trace: Mapping[str, Any]) -> str | None:
    if trace.get("stop_condition") in LIMITS:
        return "length"
    reasons = [call.get("finish_reason") for call in trace.get("calls") or () if not call.get("error")]
    return {"length": "length", "stop": "stop"}.get(reasons[-1]) if reasons else None


def _failure(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome of a trace that failed or timed out; for other traces, return an empty mapping."""
    errors = trace.get("errors") or []
    detail = f"{errors[-1].get('type')}: {errors[-1].get('message')}" if errors else None
    if trace.get("is_timeout"):
        return {"outcome": Outcome.TIMEOUT.value, "detail": detail}
    failed = not trace["ok"] if "ok" in trace else bool(errors)
    return {"outcome": Outcome.ERROR.value, "detail": detail} if failed else {}


def _dig(data: Any, *keys: str, default: Any = None) -> Any:
    for key in keys:
        if not isinstance(data, Mapping) or data.get(key) is None:
            return default
        data = data[key]
    return data
