"""Reads samples of EleutherAI's lm-eval: ``samples_<task>_<date>.jsonl``, written with ``--log_samples``.

The format is that of lm-eval 0.4.13: one line per document and filter, with ``doc_id``, ``doc``, ``target``,
``arguments`` (prompt and generation settings), ``resps`` (all responses), ``filtered_resps``, ``filter``, ``metrics``
(names of metrics, which are also keys of the line), ``doc_hash``, ``prompt_hash``, ``target_hash``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.importers.apart import EvaluationLabel, EvaluationSource, folder_below, kept_apart, labels
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head
from outrider.importers.lines import Record, in_form, json_lines
from outrider.importers.notes import Notes
from outrider.importers.success import outcome_of
from outrider.importers.table import ImportedRow

_NAME = re.compile(r"samples_(.+?)_(\d{4}-\d\d-\d\dT.*)")
SUCCESS = ("exact_match", "acc")  # metrics that are read as success, in order of preference


def recognises(head: Head) -> bool:
    """Whether a file is JSON lines with a document, responses and filtered responses."""
    return head.kind == "json" and {"doc_id", "doc", "resps", "filtered_resps"} <= head.names


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield the responses to a task's documents; a problem is identified by its document's hash.

    A file contains every response once for each filter. Only the lines of one filter are read. The user's mapping for
    ``success`` can name the filter in lm-eval's notation (``exact_match,flexible-extract``); otherwise, the first
    filter in the file is used.

    lm-eval computes one metric value for *all* responses to a document. If a document has one response, this value
    determines the response's outcome. If a document has several responses (``repeats``), they have no outcome.

    Lines with log-likelihoods of answer choices are skipped, since answer choices are not sampled.

    Responses of different models, tasks or dates, as shown by the names of files and folders, are kept separate.
    """
    apart = labels(_sources(paths), notes)
    named = mapping.success.field.rpartition(",")[2] if mapping.success and "," in mapping.success.field else None
    for path in paths:
        chosen = named
        for record in json_lines(path, notes):
            name = record.data.get("filter")
            chosen = name if chosen is None else chosen
            if name != chosen:
                notes.count(
                    f"line of a filter other than {chosen} was skipped, because it repeats a response",
                    f"lines of filters other than {chosen} were skipped, because they repeat its responses",
                )
                continue
            with in_form(record.where, "lm-eval"):
                result = _responses(record, apart[path], notes)
            yield from result


def _sources(paths: Sequence[Path]) -> dict[Path, EvaluationSource]:
    """Return the source of each file: the model comes from the folder's name, and the task and the date come from the
    file's name.
    """
    folders, one = folder_below(paths), {}
    for path in paths:
        named = _NAME.fullmatch(path.stem)
        one[path] = EvaluationSource(folders[path], named[1] if named else path.stem, named[2] if named else "")
    return one


def _responses(record: Record, label: EvaluationLabel, notes: Notes) -> list[ImportedRow]:
    data, where = record
    responses, request = _generated(data), _request(data)
    if responses is None:
        notes.count("line without generated text was skipped", "lines without generated text were skipped")
        return []
    metrics = [name for name in data.get("metrics") or [] if name in data]
    named = {f"{name},{data.get('filter')}": data[name] for name in metrics}
    raw = {**data, **named}
    values: dict[str, Any] = {
        "split": "greedy" if _greedy(request["arg_1"]) else "evaluate",
        "problem": data["doc_hash"][:16] if "doc_hash" in data else None,
        "prompt": request.get("arg_0"),
    }
    if len(responses) == 1:
        values |= _verdict(data, metrics, notes)
    else:
        raw |= dict.fromkeys([*metrics, *named])
        notes.count(
            "document has repeats, which lm-eval scores together: its responses have no verdict",
            "documents have repeats, which lm-eval scores together: their responses have no verdict",
        )
    values = kept_apart(values, label)
    return [ImportedRow({**values, "text": response}, raw, where) for response in responses]


def _verdict(data: Mapping[str, Any], metrics: Sequence[str], notes: Notes) -> dict[str, Any]:
    filtered = data.get("filtered_resps") or [None]
    while isinstance(filtered, list) and len(filtered) == 1:
        filtered = filtered[0]
    answer = filtered if isinstance(filtered, str) else None
    name = next((name for name in SUCCESS if name in metrics), None)
    if name is None:
        notes.say(f"No metric gives success by itself: {', '.join(metrics) or 'there are none'}.")
        return {"answer": answer}
    notes.say(f"Success: {name} is 1, of the filter {data.get('filter')}.")
    outcome = outcome_of(data[name])
    if outcome is None:
        notes.count(f"response has {name} other than 0 and 1", f"responses have {name} other than 0 and 1")
    return {"answer": answer, "outcome": outcome}


def _generated(data: Mapping[str, Any]) -> list[str] | None:
    """Return the response texts of a document with a single request for generated text. For other documents, for
    example with requests for likelihoods, return None.
    """
    resps = data.get("resps")
    if not isinstance(resps, list) or len(resps) != 1 or not isinstance(resps[0], list):
        return None
    texts = all(isinstance(text, str) for text in resps[0])
    return resps[0] if texts and isinstance(_request(data).get("arg_1"), Mapping) else None


def _request(data: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = data.get("arguments")
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    return first if isinstance(first, dict) else {}


def _greedy(settings: Mapping[str, Any]) -> bool:
    return settings.get("do_sample") is False or settings.get("temperature") == 0
